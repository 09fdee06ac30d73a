"""The kernel of a peer, the resources that it holds, and the component graphs that peers decide on."""
