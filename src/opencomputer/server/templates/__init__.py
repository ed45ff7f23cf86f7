"""Templates: the root file systems sandboxes start from, and the runtime that is mounted into all of them."""
