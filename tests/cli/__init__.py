"""The command ``synergy``: its output, its refusals, its files."""
