"""Screens that are kept: what a person saw at the end of an interactive command."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.support.box import Box
from tests.support.tmux import Tmux

RECORDINGS = Path(__file__).parents[1] / "golden" / "terminal"
_EACH_TIME_OTHERS = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "5e6f7a8b-0000-4000-8000-000000000000"),
    (r"\b(ses|agt|trn)_[0-9a-f]{24}", r"\1_1a2b3c4d5e6f"),
    (r"sb-[0-9a-f]{8}", "sb-1a2b3c4d"),
    (r"(?<![-\w])[0-9a-f]{8}\b(?!-)", "5e6f7a8b"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "12:00:00.000"),
    (r"\b\d+(\.\d+)? s\b", "1.0 s"),
    (r"\$\d+\.\d+", "$0.0123"),
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:8080"),
    (r"oc CLI on \S+", "oc CLI on laptop"),
    (r"\b[B-Z]{4}-[B-Z]{4}\b", "BCDF-GHJK"),
)


def steady(screen: str) -> list[str]:
    """The lines of a screen, with stand-ins for what is different each time."""
    for pattern, stand_in in _EACH_TIME_OTHERS:
        screen = re.sub(pattern, stand_in, screen)
    return [line.rstrip() for line in screen.splitlines() if line.strip()]


def check_recording(name: str, screen: str) -> None:
    """The screen is the one that is kept under this name; UPDATE_GOLDEN=1 keeps it instead."""
    kept, seen = RECORDINGS / f"{name}.txt", steady(screen)
    if os.environ.get("UPDATE_GOLDEN"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("\n".join(seen) + "\n")
    assert seen == kept.read_text().splitlines()


def terminal_of(box: Box, folder: Path) -> Tmux:
    """A terminal of a person who works with a node, and with a sandbox whose id is in $S."""
    environment = {
        "OPENCOMPUTER_API_URL": box.server.url,
        "SESSIONS_API_URL": box.server.url,
        "OPENCOMPUTER_API_KEY": box.server.api_key,
        "OPENCOMPUTER_LOCAL_NODE_FILE": str(folder / "none.json"),
        "S": box.id,
    }
    return Tmux(folder, environment)


def at_the_remote_prompt(person: Tmux) -> str:
    """Wait until the shell in the sandbox wants another line, and return the screen."""
    return person.until(lambda screen: screen.rstrip().endswith(":~$"))
