"""How far long work is, told on standard error: lines, and below them on a terminal something that moves.

A terminal gets a bar where there is a number to show, else a spinner; both are gone when the work has ended.
Elsewhere there are the lines alone, and with `--quiet` or JSON nothing moves.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from opencomputer.cli.text import harmless

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn

    from opencomputer.cli.output import Output

_COLUMNS = 60


class Moving:
    """Moves on a terminal for as long as it is entered, where it has a bar."""

    _bar: Bar | None = None

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()


class Steps(Moving):
    """Work in steps, such as a build. `total` is how many there are, 0 where nobody knows."""

    def __init__(self, output: Output, doing: str, total: int = 0) -> None:
        self._output = output
        self.begun = 0
        """The number of the step that began last."""
        if output.shows_progress:
            self._bar = _bar(counted=total > 0, colour=output.shows_colour(sys.stderr))
            self._task = self._bar.add_task(harmless(doing)[:_COLUMNS], total=total or None)

    def line(self, message: str) -> None:
        """Tell a line. It stays above what moves."""
        self._output.note(message)

    def step(self, number: int) -> None:
        """The step of this number, counted from one, has begun."""
        if number > self.begun:
            self.begun = number
            if self._bar:
                self._bar.update(self._task, completed=number - 1)

    def now(self, doing: str) -> None:
        """Say what is being done now, beside what moves; elsewhere nothing is told."""
        if self._bar:
            self._bar.update(self._task, description=harmless(doing)[:_COLUMNS])


def _bar(*, counted: bool, colour: bool) -> Bar:
    # Loaded here: only who watches a terminal waits for it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    if counted:
        columns += [BarColumn(bar_width=24), MofNCompleteColumn()]
    console = Console(stderr=True, no_color=not colour)
    return Bar(*columns, TimeElapsedColumn(), console=console, transient=True)
