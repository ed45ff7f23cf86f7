#!/bin/sh
# Removes what can be made again inside the checkout. Templates stay: `oc template rm` removes those.
set -eu
cd "$(dirname "$0")/.."
rm -rf .venv .run .pytest_cache .ruff_cache .hypothesis bench/results
find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
