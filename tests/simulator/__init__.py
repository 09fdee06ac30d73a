"""Peers in virtual time: their network, and the simulation for notebooks."""
