"""What real engines said, recorded: one file of lines for each kind of request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opencomputer.server.contracts.runtimes import BrainLine, Translated, Translator

FOLDER = Path(__file__).parents[3] / "golden" / "brains"


def recorded(name: str) -> Sequence[BrainLine]:
    """The lines of one recording, `done` included."""
    lines = [json.loads(line) for line in (FOLDER / f"{name}.ndjson").read_text().splitlines()]
    return [BrainLine(line["kind"], line.get("msg", line)) for line in lines]


def meanings(translator: Translator, lines: Sequence[BrainLine]) -> Sequence[Translated]:
    return [translator.translate(line) for line in lines]


def events_of(translated: Sequence[Translated]) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
    """All events in order: type, level, body."""
    return [(event.type, event.level, event.body) for each in translated for event in each.events]
