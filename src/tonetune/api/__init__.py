"""What Python callers and the command line do: train, evaluate, predict, inspect, prepare."""
