"""What carries messages and batches between two peers: links, frames, bounds, and memory that peers share."""
