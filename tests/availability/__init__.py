"""Backups: how many a plan needs, and which peers get them."""
