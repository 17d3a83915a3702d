"""The machine: what it has, and what is chosen for it."""
