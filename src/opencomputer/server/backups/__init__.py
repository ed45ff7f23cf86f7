"""Backups of a node on this machine: made while it runs, checked, and put into an empty data folder."""
