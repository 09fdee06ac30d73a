"""The data path of a peer: outputs and their readers, components and their work, primaries and copies."""
