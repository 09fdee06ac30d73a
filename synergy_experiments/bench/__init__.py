"""Measurements of ``synergy bench``: one function for each number, compared with other systems if there are any."""
