"""The version of the installed distribution."""

from __future__ import annotations

from functools import cache
from importlib import metadata

DISTRIBUTION = "opencomputer-sdk"


@cache
def installed_version() -> str:
    """The distribution's version, or "dev" when the package runs without being installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "dev"
