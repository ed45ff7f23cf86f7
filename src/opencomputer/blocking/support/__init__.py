"""What the generated modules of `opencomputer.blocking` stand on; written by hand."""
