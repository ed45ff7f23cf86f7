"""Makes `opencomputer.blocking` from the asynchronous SDK; see docs/adr/0011-blocking-facade.md."""
