#!/bin/sh
# Lint, format, types, architecture: what must hold before a change is worth testing.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
"$bin/ruff" check
"$bin/ruff" format --check
"$bin/pyright"
"$bin/pyright" -p tests/clients/published/adapters --pythonpath "$("$bin/python" -m tests.clients.environments adapters)"
"$bin/python" -m pytest -q tests/architecture
