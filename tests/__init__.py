"""The tests. ``conftest.py`` contains what several of them share."""
