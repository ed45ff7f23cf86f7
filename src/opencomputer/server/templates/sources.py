"""Which package mirrors a template is built from: the ones this host uses for its own distribution."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_PACKAGE_OPTIONS = ("Signed-By", "Trusted", "Architectures")


@dataclass(frozen=True)
class Source:
    """One mirror with the suites and components taken from it, as in deb822 format."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = field(default=())

    def render(self) -> str:
        lines = [
            "Types: deb",
            f"URIs: {' '.join(self.uris)}",
            f"Suites: {' '.join(self.suites)}",
            f"Components: {' '.join(self.components)}",
            *(f"{name}: {value}" for name, value in self.options),
        ]
        return "\n".join(lines) + "\n"


def parse_deb822(text: str) -> list[Source]:
    """Read a `.sources` file. Disabled stanzas and stanzas for source packages only are left out."""
    sources: list[Source] = []
    for stanza in _stanzas(text):
        if "deb" not in stanza.get("types", "").split() or stanza.get("enabled", "yes").lower() == "no":
            continue
        options = tuple((name, stanza[name.lower()]) for name in _PACKAGE_OPTIONS if name.lower() in stanza)
        sources.append(
            Source(
                uris=tuple(stanza.get("uris", "").split()),
                suites=tuple(stanza.get("suites", "").split()),
                components=tuple(stanza.get("components", "").split()),
                options=options,
            )
        )
    return sources


def parse_list(text: str) -> list[Source]:
    """Read a `sources.list` file with its one-line entries."""
    sources: list[Source] = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] != "deb":
            continue
        words = words[1:]
        options: list[tuple[str, str]] = []
        if words and words[0].startswith("["):
            end = next((index for index, word in enumerate(words) if word.endswith("]")), len(words) - 1)
            options = _list_options(" ".join(words[: end + 1]).strip("[] "))
            words = words[end + 1 :]
        if len(words) >= 2:
            sources.append(Source((words[0],), (words[1],), tuple(words[2:]), tuple(options)))
    return sources


def for_release(sources: Iterable[Source], codename: str) -> list[Source]:
    """Only what belongs to the release itself: its main, update and security suites, no backports."""
    wanted = {codename, f"{codename}-updates", f"{codename}-security"}
    chosen: list[Source] = []
    for source in sources:
        suites = tuple(suite for suite in source.suites if suite.rstrip("/") in wanted)
        if suites and source.components:
            chosen.append(Source(source.uris, suites, source.components, source.options))
    return chosen


def read_host_sources(apt: Path = Path("/etc/apt")) -> list[Source]:
    """Everything that apt on this host may install packages from."""
    found: list[Source] = []
    for path in sorted([apt / "sources.list", *apt.glob("sources.list.d/*")]):
        if path.suffix == ".sources":
            found += parse_deb822(path.read_text())
        elif path.suffix == ".list" and path.exists():
            found += parse_list(path.read_text())
    return found


def _list_options(text: str) -> list[tuple[str, str]]:
    known = {name.lower(): name for name in _PACKAGE_OPTIONS} | {"arch": "Architectures"}
    pairs = (word.partition("=") for word in text.split())
    return [(known[name], value.replace(",", " ")) for name, _, value in pairs if name in known]


def _stanzas(text: str) -> list[dict[str, str]]:
    """Fields by lower-case name; continuation lines (a key written out in place) keep their line breaks."""
    stanzas: list[dict[str, str]] = []
    current: dict[str, str] = {}
    last = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if current:
                stanzas.append(current)
            current, last = {}, ""
        elif line[0].isspace() and last:
            current[last] += "\n" + line
        else:
            name, _, value = line.partition(":")
            last = name.strip().lower()
            current[last] = value.strip()
    return stanzas
