"""How programs are run for frameworks. What they do in a machine is tried in tests/clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest

from opencomputer.integrations.programs import Limits, Program, ProgramLost, ProgramTimeout, run
from opencomputer.sdk.sandbox import Sandbox

pytestmark = pytest.mark.anyio


@dataclass
class Files:
    written: dict[str, bytes] = field(default_factory=dict[str, bytes])
    removed: list[str] = field(default_factory=list[str])

    async def write(self, path: str, content: bytes) -> None:
        self.written[path] = content

    unreachable: bool = False

    async def remove(self, path: str) -> None:
        if self.unreachable:
            raise httpx.ConnectError("refused")
        self.removed.append(path)


class Session:
    link_end = "cut"

    def __init__(self) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.killed = self.closed = self.unreachable = False

    async def kill(self) -> None:
        if self.unreachable:
            raise httpx.ConnectError("refused")
        if not self.done.done():
            self.killed = True
            self.done.set_result(137)

    async def close(self) -> None:
        self.closed = True


@dataclass
class Machine:
    """A sandbox in which a program does what `behave` says, told how to write and the session to end."""

    behave: Callable[[Callable[[bytes], object], Session], None]
    files: Files = field(default_factory=Files)
    asked: dict[str, Any] = field(default_factory=dict[str, Any])
    session: Session | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    unreachable_after_start: bool = False

    @property
    def exec(self) -> Machine:
        return self

    async def start(self, command: str, **options: Any) -> Session:
        self.asked = {"command": command, **options}
        self.session = Session()
        self.session.unreachable = self.files.unreachable = self.unreachable_after_start
        self.behave(options["on_stdout"], self.session)
        self.started.set()
        return self.session


def ends(code: int, output: bytes = b"") -> Machine:
    def behave(write: Callable[[bytes], object], session: Session) -> None:
        write(output)
        session.done.set_result(code)

    return Machine(behave)


def goes_on(output: bytes) -> Machine:
    def behave(write: Callable[[bytes], object], _: Session) -> None:
        write(output)

    return Machine(behave)


def of(machine: Machine) -> Sandbox:
    return cast(Sandbox, machine)


async def test_a_program_without_input_reads_from_nothing() -> None:
    machine = ends(3, b"said")
    ended = await run(of(machine), Program(["wc", "-c"], cwd="/tmp", env={"A": "1"}))
    assert (ended.exit_code, ended.stdout, ended.truncated) == (3, b"said", False)
    assert machine.asked["args"] == ["-c", 'exec "$@" < "$0"', "/dev/null", "wc", "-c"]
    assert (machine.asked["cwd"], machine.asked["env"]) == ("/tmp", {"A": "1"})
    assert machine.session is not None
    assert machine.session.closed


async def test_an_input_is_a_file_that_is_removed_afterwards() -> None:
    machine = ends(0)
    await run(of(machine), Program(["cat"], input=b"typed"))
    ((path, content),) = machine.files.written.items()
    assert content == b"typed"
    assert path in machine.asked["args"]
    assert machine.files.removed == [path]


async def test_another_user_is_reached_by_programs_that_no_search_path_can_replace() -> None:
    machine = ends(0)
    await run(of(machine), Program(["id"], env={"A": "b c"}, user="root", merged=True))
    assert machine.asked["args"][1] == 'exec "$@" < "$0" 2>&1'
    before = ["/usr/local/bin/sudo", "-n", "-u", "root", "--", "/usr/bin/env", "A=b c"]
    assert machine.asked["args"][3:] == [*before, "id"]


async def test_what_is_too_much_is_dropped() -> None:
    ended = await run(of(ends(5, b"abcdef")), Program(["x"]), Limits(output_bytes=4))
    assert (ended.exit_code, ended.stdout, ended.truncated) == (5, b"abcd", True)


async def test_who_writes_too_much_can_be_stopped() -> None:
    machine = goes_on(b"abcdef")
    ended = await run(of(machine), Program(["x"]), Limits(output_bytes=4, stop_at_limit=True))
    assert (ended.exit_code, ended.truncated) == (137, True)
    assert machine.session is not None
    assert machine.session.killed


async def test_who_is_late_is_killed_and_what_was_written_is_not_lost() -> None:
    machine = goes_on(b"begun")
    with pytest.raises(ProgramTimeout) as raised:
        await run(of(machine), Program(["x"]), Limits(seconds=0.01))
    assert raised.value.stdout == b"begun"
    assert machine.session is not None
    assert machine.session.killed
    assert machine.session.closed


async def test_a_link_that_is_lost_for_good_is_no_end_of_the_program() -> None:
    with pytest.raises(ProgramLost, match="cut"):
        await run(of(ends(-1)), Program(["x"]))


async def test_what_fails_while_cleaning_up_is_not_the_reason() -> None:
    machine = goes_on(b"begun")
    machine.unreachable_after_start = True
    with pytest.raises(ProgramTimeout):
        await run(of(machine), Program(["x"], input=b"y"), Limits(seconds=0.01))
    assert machine.session is not None
    assert machine.session.closed


async def test_a_cancelled_caller_takes_the_program_along() -> None:
    machine = goes_on(b"")
    running = asyncio.create_task(run(of(machine), Program(["x"], input=b"y")))
    await machine.started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert machine.session is not None
    assert machine.session.killed
    assert machine.files.removed == list(machine.files.written)
