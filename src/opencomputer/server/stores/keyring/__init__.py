"""Keys that secrets are encrypted with."""
