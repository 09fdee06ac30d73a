"""The overlay: ring, failure detector, latencies, and the directory on the ring (section 2.2.3, discovery module)."""
