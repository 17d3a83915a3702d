"""`python -m tonetune`, the same program as `tonetune`."""

from tonetune.cli import main

if __name__ == "__main__":
    main()
