"""What a benchmark found: a table for people, JSON with every sample for everybody else."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.calibration import Calibration
from bench.samples import Figure

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass
class Result:
    """What one benchmark measured. `failures` are counted and never tried again."""

    name: str
    settings: dict[str, Json]
    figures: list[Figure] = field(default_factory=list[Figure])
    samples: dict[str, Json] = field(default_factory=dict[str, Json])
    failures: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def show(result: Result, before: Calibration, after: Calibration) -> None:
    table = Table(title=f"bench {result.name}", title_justify="left", title_style="bold")
    for name, justify in (("what", "left"), ("measured", "right"), ("to hold", "right"), ("ratio", "right")):
        table.add_column(name, justify=justify)  # pyright: ignore[reportArgumentType] - both are justifications
    for figure in result.figures:
        table.add_row(figure.name, f"{figure.value:.1f} {figure.unit}", _target(figure), _ratio(figure.ratio))
    console = Console()
    console.print(table)
    best = min(before.round_milliseconds.least, after.round_milliseconds.least)
    console.print(f"machine before: {before.describe(best)}", highlight=False)
    console.print(f"machine after:  {after.describe(best)}", highlight=False)
    for line in result.notes:
        console.print(line, highlight=False)
    failed = len(result.failures)
    console.print(f"{failed} failed" if failed else "nothing failed", style="red" if failed else "green")
    for text in result.failures[:5]:
        console.print(f"  {text[:200]}", highlight=False)


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.target.at_least else '≤'} {figure.target.value:g} {figure.unit}"


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"[{'green' if ratio <= 1 else 'red'}]{ratio:.2f}[/]"


def save(result: Result, before: Calibration, after: Calibration, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = folder / f"{result.name}-{now:%Y%m%dT%H%M%SZ}.json"
    document = {
        "bench": result.name,
        "at": now.isoformat(),
        "machine": {
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "memoryBytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
        "settings": result.settings,
        "calibration": {"before": asdict(before), "after": asdict(after)},
        "figures": [{**asdict(figure), "ratio": figure.ratio} for figure in result.figures],
        "notes": result.notes,
        "failures": result.failures,
        "samples": result.samples,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path
