"""The optimisation of a classifier."""
