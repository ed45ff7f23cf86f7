#!/bin/sh
# Starts the set-up on the system's own Python, which is the only thing it cannot install itself.
set -eu
python=/usr/bin/python3
if [ ! -x "$python" ]; then
    echo "installing python3, which the set-up itself is written in"
    apt-get update > /dev/null && apt-get install --yes --no-install-recommends python3 > /dev/null
fi
exec "$python" -B "$(dirname "$0")/machine_setup" "$@"
