"""The ring of peers, who of them lives, and the directory of what they offer."""
