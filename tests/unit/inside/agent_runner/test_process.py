"""The runner as a process, without the SDK: standard streams, signals, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import opencomputer.inside as inside

FOLDER = str(Path(inside.__file__).parent)
Start = Callable[..., "subprocess.Popen[bytes]"]


@contextmanager
def runner(home: Path, **variables: str) -> Generator[subprocess.Popen[bytes]]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": FOLDER, **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_runner"],
        env=environment,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def events(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_without_a_credential_it_says_so_and_ends(tmp_path: Path) -> None:
    """One error event, exit code 1, no `ready`."""
    with runner(tmp_path) as process:
        output, log = process.communicate(timeout=20)
        assert (process.returncode, log) == (1, b"")
    (event,) = events(output)
    assert event["type"] == "error"
    assert "ANTHROPIC_API_KEY" in event["message"]


def test_it_is_ready_at_once_and_ends_with_its_input(tmp_path: Path) -> None:
    """Exit code 0, and nothing on standard error in normal operation."""
    with runner(tmp_path, ANTHROPIC_API_KEY="x") as process:
        output, log = process.communicate(b'{"type":"configure","model":"m"}\n', timeout=20)
        assert (process.returncode, log) == (0, b"")
    assert events(output) == [{"type": "ready"}, {"type": "configured"}]


def test_without_the_sdk_a_prompt_is_answered_with_an_error(tmp_path: Path) -> None:
    """On standard output for the program, on standard error for the person."""
    (tmp_path / "claude_agent_sdk.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join([FOLDER, str(tmp_path)])
    with runner(tmp_path, ANTHROPIC_API_KEY="x", PYTHONPATH=path) as process:
        output, log = process.communicate(b'{"type":"prompt","text":"hi"}\n', timeout=20)
        assert process.returncode == 0
    assert [event["type"] for event in events(output)] == ["ready", "error"]
    assert b"the Claude Agent SDK is not installed: not here" in log


def test_what_the_sdk_prints_does_not_reach_standard_output(tmp_path: Path) -> None:
    """Only JSON objects do."""
    (tmp_path / "claude_agent_sdk.py").write_text("print('chatter'); raise ImportError('x')")
    path = os.pathsep.join([FOLDER, str(tmp_path)])
    with runner(tmp_path, ANTHROPIC_API_KEY="x", PYTHONPATH=path) as process:
        output, log = process.communicate(b'{"type":"prompt","text":"hi"}\n', timeout=20)
    assert [event["type"] for event in events(output)] == ["ready", "error"]
    assert b"chatter" in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_an_orderly_way(tmp_path: Path, number: signal.Signals) -> None:
    """128 and the signal's number, as everywhere."""
    with runner(tmp_path, ANTHROPIC_API_KEY="x") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'{"type":"ready"}\n'
        process.send_signal(number)
        _, log = process.communicate(timeout=20)
        assert (process.returncode, log) == (128 + number, b"")


def test_it_ends_when_nobody_reads_its_events(tmp_path: Path) -> None:
    """There is nobody to work for."""
    with runner(tmp_path, ANTHROPIC_API_KEY="x") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"type":"interrupt"}\n')
        process.stdin.flush()
        assert process.wait(timeout=20) == 1
