"""The way out for TCP where secrets or an allowlist apply: passes connections on, and puts secrets in."""
