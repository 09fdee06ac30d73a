"""Claims of the papers, the worlds and flows that they are measured in, and all other measurements."""
