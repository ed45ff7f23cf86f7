"""The screens of the guide were on a terminal: each is a part of one that is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.recording import RECORDINGS, steady

_GUIDE = Path(__file__).parents[2] / "docs/guides/terminal.md"
_SHOWN = re.findall(r"```text\n(you\$.*?)```", _GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize("shown", _SHOWN)
def test_a_screen_of_the_guide_is_one_that_is_kept(shown: str) -> None:
    kept = [path.read_text().splitlines() for path in sorted(RECORDINGS.glob("*.txt"))]
    assert any(_in_order(steady(shown), lines) for lines in kept)


def _in_order(wanted: list[str], seen: list[str]) -> bool:
    remaining = iter(seen)
    return all(line in remaining for line in wanted)
