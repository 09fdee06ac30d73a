"""What events mean, in words: accounts and explanations."""
