"""A peer as a process: its worker plugin, its driver and services, and the start of peers that join one ring."""
