"""Recordings of live and simulated runs, with the inputs of each peer, their times and their effects; and replays."""
