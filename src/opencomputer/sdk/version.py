"""The version of the installed distribution."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache

DISTRIBUTION = "opencomputer-sdk"
UNKNOWN = "dev"
_RECORD = DISTRIBUTION.replace("-", "_") + "-"
_RECORD_END = ".dist-info"


@cache
def installed_version() -> str:
    """The distribution's version, or "dev" when the package runs without being installed."""
    return version_in(sys.path)


def version_in(folders: Iterable[str]) -> str:
    """The version that the first of these folders with a record of the distribution has.

    Read off the record's name: `importlib.metadata` reads the record itself, and what it loads for that takes
    longer than all else that `oc --version` does.
    """
    for folder in folders:
        try:
            names = sorted(os.listdir(folder or os.curdir))
        except OSError:
            continue
        for name in names:
            if name.startswith(_RECORD) and name.endswith(_RECORD_END):
                return name[len(_RECORD) : -len(_RECORD_END)]
    return UNKNOWN
