"""Composition by probes: which peer executes which operator."""
