"""The data path: tuples, operators, and the streams between the components of peers."""
