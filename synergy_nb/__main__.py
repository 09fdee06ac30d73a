"""``python -m synergy_nb`` is the command ``synergy``."""

from synergy_nb.cli.commands import main

if __name__ == "__main__":
    main()
