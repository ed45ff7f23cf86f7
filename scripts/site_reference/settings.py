"""What a node can be told: the table of docs/guides/settings.md, held to and completed by the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from opencomputer.server.settings import SettingsError, load_settings
from site_reference.tables import table

PREFIX = "OPENCOMPUTER_"
_ROW = re.compile(r"^\| `(OPENCOMPUTER_\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
_NONSENSE = "\0"


class SettingsDiffer(Exception):
    """The page and the code do not name the same variables."""


def completed(page: str) -> str:
    """The page, saying also what each variable must be. Raises SettingsDiffer."""
    rows = list(_ROW.finditer(page))
    told, read = {row[1] for row in rows}, {PREFIX + name for name in variables()}
    if told != read:
        raise SettingsDiffer(
            f"only in the page: {sorted(told - read)}; only in the code: {sorted(read - told)}"
        )
    allowed = faults()
    lines = table(
        ("Variable", "Default", "Meaning"),
        ((f"`{row[1]}`", row[2], row[3].replace("\\|", "|") + allowed.get(row[1], "")) for row in rows),
    )
    begin = page.rindex("| Variable", 0, rows[0].start())
    return page[:begin] + lines + page[rows[-1].end() :]


def variables() -> Iterator[str]:
    """The names that the settings are read from, without their prefix."""
    seen = _Recording()
    load_settings(seen)
    yield from sorted(name.removeprefix(PREFIX) for name in seen.asked if name.startswith(PREFIX))


def faults() -> Mapping[str, str]:
    """What the code says of values that cannot be, by variable."""
    found: dict[str, str] = {}
    for name in variables():
        try:
            load_settings({PREFIX + name: _NONSENSE})
        except SettingsError as error:
            (fault,) = error.faults
            text = fault.partition(": ")[2]
            if text.startswith("must be "):
                found[PREFIX + name] = f". *{text[0].upper()}{text[1:]}.*"
    return found


class _Recording(Mapping[str, str]):
    """An empty environment that remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
