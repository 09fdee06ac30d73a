"""A peer as a process: the worker plugin that holds it, its driver and services, how peers start and join one ring."""
