"""The HTTP service and its page over loaded classifiers; its modules need the extra `serve`, and load late."""
