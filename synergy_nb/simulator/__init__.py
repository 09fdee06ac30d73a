"""Peers in virtual time."""
