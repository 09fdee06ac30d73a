"""Recordings of live and simulated runs: what each peer got, when, and what effects that had; and their replay."""
