"""Connectors to outside systems."""
