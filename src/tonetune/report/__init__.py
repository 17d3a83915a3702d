"""What a run found, for people: terminal, model card, plots, HTML."""
