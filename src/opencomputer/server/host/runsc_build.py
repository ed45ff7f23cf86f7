"""Finding gVisor's `runsc` on this host and judging whether it is new enough."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from opencomputer.server.host.subprocesses import CommandTimedOut, run

OWN_BINARIES = Path("/var/lib/opencomputer/bin")
"""Where `make setup` puts what the distribution does not offer: `runsc` (the official build, or a link to
whichever build the operator prefers) and `runsc-go` (built from the Go module)."""

OLDEST_RELEASE = date(2024, 7, 1)
"""Older builds cannot cut open connections when memory is saved, and still older ones are far too slow."""

_NEEDED_FLAGS = frozenset({"directfs", "net-disconnect-ok", "overlay2"})
_DEADLINE_SECONDS = 20


class RunscMissing(Exception):
    """There is no runsc where it was looked for; the message names the places."""


@dataclass(frozen=True)
class RunscBuild:
    """One runsc binary. `released` is None where a build does not say; then its flags decide."""

    path: Path
    version: str
    released: date | None
    flags: frozenset[str]
    too_old: bool

    @property
    def honours_setuid(self) -> bool:
        """Set-user-ID programs such as `sudo` work inside."""
        return "allow-suid" in self.flags

    @property
    def saves_deleted_files(self) -> bool:
        """A memory snapshot survives files that are open but deleted. Both came in the same months."""
        return "allow-suid" in self.flags

    @property
    def keeps_connections(self) -> bool:
        """A memory snapshot leaves the machine's connections alone, and cuts them in the copy only."""
        return "allow-connected-on-save" in self.flags


def find_runsc(explicit: str | None = None) -> RunscBuild:
    """Find the runsc that this host's machines run on.

    `explicit` is the operator's choice and then the only candidate. Otherwise the first one that is new
    enough of: our own folder, PATH, the usual folders. When all are too old, the first of them is returned
    with `too_old` set. Raises RunscMissing.
    """
    return choose([Path(explicit)] if explicit else usual_places())


def usual_places() -> list[Path]:
    on_path = shutil.which("runsc")
    places = [OWN_BINARIES / "runsc", *([Path(on_path)] if on_path else [])]
    return [*places, Path("/usr/local/bin/runsc"), Path("/usr/bin/runsc")]


def choose(candidates: Sequence[Path]) -> RunscBuild:
    """The first usable candidate that is new enough, else the first usable one. Raises RunscMissing."""
    builds: list[RunscBuild] = []
    for path in dict.fromkeys(candidates):
        build = ask(path)
        if build is None:
            continue
        if not build.too_old:
            return build
        builds.append(build)
    if not builds:
        raise RunscMissing(f"runsc was looked for and not found at {', '.join(map(str, candidates))}.")
    return builds[0]


def ask(path: Path) -> RunscBuild | None:
    """What the binary says about itself; None when it is not there or is not runsc."""
    version = _output([str(path), "--version"])
    if version is None:
        return None
    return interpret(path, version, _output([str(path), "flags"]) or "")


def interpret(path: Path, version_text: str, flags_text: str) -> RunscBuild | None:
    """Read the answers of `runsc --version` and `runsc flags`; None when it is not runsc that answered."""
    found = re.search(r"^runsc version (\S+)", version_text, re.MULTILINE)
    if found is None:
        return None
    flags = frozenset(re.findall(r"^\s{1,4}-([A-Za-z][\w-]*)", flags_text, re.MULTILINE))
    released = release_date(found[1])
    too_old = not flags >= _NEEDED_FLAGS or (released is not None and released < OLDEST_RELEASE)
    return RunscBuild(path, found[1], released, flags, too_old)


def release_date(version: str) -> date | None:
    """The day in `release-20261116.0`, `0.0~20240729.0` or `go-20260905`; None where there is none."""
    found = re.search(r"(?<!\d)(20\d\d)(\d\d)(\d\d)(?!\d)", version)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None


def describe_gaps(build: RunscBuild) -> list[str]:
    """What this build lacks, in words for an operator."""
    gaps: Iterable[tuple[bool, str]] = (
        (build.honours_setuid, "set-user-ID programs do not work inside (the template brings its own sudo)"),
        (build.saves_deleted_files, "a machine with open deleted files cannot be saved at that moment"),
        (build.keeps_connections, "saving its memory cuts a machine's own connections to elsewhere"),
    )
    return [text for present, text in gaps if not present]


def _output(arguments: Sequence[str]) -> str | None:
    """All the program writes, whichever channel it chooses; None when it cannot be run."""
    try:
        return run(arguments, deadline_seconds=_DEADLINE_SECONDS).output
    except (OSError, CommandTimedOut):
        return None
