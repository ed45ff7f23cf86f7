"""Programs of a build: lines are passed on, failures explained, and nothing outlives an interrupt."""

from __future__ import annotations

import os
import time

import pytest

from opencomputer.server.templates.commands import ALONE, BuildFailed, run
from tests.support.image_tools import needs_root

ENVIRONMENT = {"PATH": os.defpath}


def test_lines_arrive_as_they_are_written() -> None:
    """Standard output and standard error both count as progress."""
    lines: list[str] = []
    run(["sh", "-c", "echo one; echo two >&2"], environment=ENVIRONMENT, progress=lines.append)
    assert lines == ["one", "two"]


def test_a_failure_shows_the_end_of_the_output() -> None:
    """The last lines usually hold the reason."""
    with pytest.raises(BuildFailed, match="status 3") as failure:
        run(["sh", "-c", "echo why; exit 3"], environment=ENVIRONMENT, progress=lambda line: None)
    assert failure.value.message.endswith("why")


def test_a_missing_program_is_named() -> None:
    """The message says what to install."""
    with pytest.raises(BuildFailed, match="`no-such-program` is not installed"):
        run(["no-such-program"], environment=ENVIRONMENT, progress=lambda line: None)


def test_an_interrupt_ends_the_program_and_its_children() -> None:
    """Ctrl-C in the middle of a build leaves nothing running in the background."""
    reading, writing = os.pipe()

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            ["sh", "-c", "sleep 600 & echo started; wait"],
            environment=ENVIRONMENT,
            progress=interrupt,
            keep_open=(writing,),
        )
    os.close(writing)
    # The end of the pipe is seen only when the last process that holds it is gone.
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_only_the_given_environment_is_seen() -> None:
    """A build does not depend on who started it."""
    lines: list[str] = []
    run(["env"], environment={"PATH": os.defpath, "ONLY": "this"}, progress=lines.append)
    assert sorted(line for line in lines if not line.startswith(("PWD", "_"))) == [
        "ONLY=this",
        f"PATH={os.defpath}",
    ]


def test_an_objection_ends_a_program_and_is_the_reason() -> None:
    """Whatever the program was about to say itself."""
    began = time.monotonic()
    with pytest.raises(BuildFailed, match=r"^too much$"):
        run(["sleep", "600"], environment=ENVIRONMENT, progress=print, objection=lambda: "too much")
    assert time.monotonic() - began < 60


def test_an_objection_counts_when_the_program_was_faster() -> None:
    """A short burst is noticed too."""
    with pytest.raises(BuildFailed, match="too much"):
        run(["true"], environment=ENVIRONMENT, progress=print, objection=lambda: "too much")


@needs_root
def test_a_program_that_runs_alone_is_called_by_its_own_name() -> None:
    """Not by that of what stands in front of it; also where it is missing."""
    with pytest.raises(BuildFailed, match=r"`sh` failed with status 3:\nwhy$"):
        run([*ALONE, "--mount-proc", "sh", "-c", "echo why; exit 3"], environment=ENVIRONMENT, progress=print)
    with pytest.raises(BuildFailed, match="`no-such-program` is not installed; `make setup`"):
        run([*ALONE, "no-such-program"], environment=ENVIRONMENT, progress=print)
