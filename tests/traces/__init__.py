"""Files and generators that become tuples."""
