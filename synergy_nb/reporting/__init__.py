"""Accounts of journals for people: why a request runs where it runs, or why it was refused."""
