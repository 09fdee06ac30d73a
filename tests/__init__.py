"""The tests. What several of them share is in ``conftest.py``."""
