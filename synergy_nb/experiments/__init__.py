"""Measurements and, later, the papers' experiments: everything that produces a number."""
