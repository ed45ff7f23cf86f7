"""Logs of sandboxes in files."""
