"""A host without room: the caller hears so, and nothing is left that was not there before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.server.stores.artefacts import small_disk
from tests.unit.server.stores.artefacts.conftest import Bench


@pytest.mark.parametrize("scenario", small_disk.SCENARIOS)
def test_a_full_disk_is_reported_and_nothing_is_left(scenario: str, bench: Bench, tmp_path: Path) -> None:
    """And an image is not copied, so a host can put a machine to sleep whose memory fills its disk."""
    argv = [sys.executable, "-m", small_disk.__name__, scenario, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(bench.folder.glob("*")), "the small disk was seen outside its namespace"
