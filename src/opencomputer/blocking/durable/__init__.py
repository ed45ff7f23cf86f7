"""The blocking twins of `opencomputer.sdk.durable`."""
