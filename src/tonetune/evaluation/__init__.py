"""How good a classifier is: baselines, metrics, calibration, predictions."""
