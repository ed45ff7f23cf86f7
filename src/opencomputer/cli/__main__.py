"""`python -m opencomputer.cli` is `oc`."""

from opencomputer.cli.main import main

main()
