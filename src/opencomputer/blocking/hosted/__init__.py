"""The blocking twins of `opencomputer.sdk.hosted`."""
