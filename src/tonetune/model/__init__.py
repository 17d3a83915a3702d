"""The base model, its head and its adapters: the classifier."""
