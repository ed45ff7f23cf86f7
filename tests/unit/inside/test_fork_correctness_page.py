"""The page about forks names the test that shows each thing it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_test_that_the_page_names_exists() -> None:
    page = (ROOT / "docs/concepts/fork-correctness.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    there: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        there.update(re.findall(r"def (test_\w+)\(", file.read_text()))
    assert len(named) > 10
    assert named - there == set()
