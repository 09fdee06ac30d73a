"""Transport of messages and batches between peers: links, framing, limits of lengths, and shared memory."""
