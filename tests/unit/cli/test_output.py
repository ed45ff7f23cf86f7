"""Colours, links and characters: only where somebody sees them."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from opencomputer.cli.failures import Failure
from opencomputer.cli.output import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Both outputs are a terminal from now on. No fixture: pytest puts its own in place after those."""
    shown = Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def say_everything(output: Output) -> None:
    output.success({"id": "x"}, "done")
    output.warn("careful")
    output.ask("Open", "https://oc.example/verify")
    output.failure(Failure("it broke", 1, "mend it"))


def test_a_terminal_gets_colours_and_links(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    say_everything(Output())
    assert terminal.getvalue() == (
        "\x1b[32m✓\x1b[0m done\n"
        "\x1b[33mWarning:\x1b[0m careful\n"
        "Open \x1b]8;;https://oc.example/verify\x1b\\https://oc.example/verify\x1b]8;;\x1b\\\n"
        "\x1b[31mError:\x1b[0m it broke\n"
        "\x1b[2mHint:\x1b[0m mend it\n"
    )


@pytest.mark.parametrize("reason", ["NO_COLOR", "dumb", "flag"])
def test_who_wants_none_gets_none(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    terminal = on_terminal(monkeypatch)
    if reason == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    say_everything(Output(colour=reason != "flag"))
    assert "\x1b" not in terminal.getvalue()


@pytest.mark.parametrize("address", ["http://oc.example", "https://x\x1b\\evil\x07"])
def test_a_link_is_encrypted_and_cannot_break_out(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    terminal = on_terminal(monkeypatch)
    Output().ask("Open", address)
    assert "\x07" not in terminal.getvalue()
    assert terminal.getvalue().count("\x1b]8;;") == (2 if address.startswith("https") else 0)


def test_a_terminal_without_our_characters_is_no_error(tmp_path: os.PathLike[str]) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "OC_CONFIG": f"{tmp_path}/config.json"}
    program = [sys.executable, "-m", "opencomputer.cli", "config", "set", "api-url", "http://x"]
    printed = subprocess.run(program, env=environment, capture_output=True, check=True)
    assert printed.stdout.startswith(b"? api-url saved")
