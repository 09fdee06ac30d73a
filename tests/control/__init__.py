"""The kernel of a peer: its roles, its messages, its graph and its ledger."""
