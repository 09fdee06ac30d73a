"""Recorded runs, their replays, and what is shown of them."""
