"""Stores and machines in memory, for tests of services. The stores pass the same suite as the SQL ones."""
