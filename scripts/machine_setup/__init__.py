"""What `make setup` does, step by step."""
