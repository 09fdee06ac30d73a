"""The kernel of a peer, the ledger of its resources, and component graphs."""
