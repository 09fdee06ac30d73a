"""The ring, who is alive on it, how far they are, and the directory that it holds (section 2.2.3, discovery module)."""
