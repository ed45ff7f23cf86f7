"""A node that is killed or stopped while its sandboxes work, and started again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from opencomputer.sdk.sandbox import Sandbox
from opencomputer.wire import frames
from tests.support.box import Box, Follower, create_box, new_box
from tests.support.recording import at_the_remote_prompt, check_recording, terminal_of
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.machines

# Numbers on both streams, as they come; a line on standard input ends it.
COUNTER = """exec python3 -u -c '
import os, select
number = 0
while not select.select([0], [], [], 0.002)[0]:
    for _ in range(5):
        os.write(1 + number % 2, b"%d\\n" % number)
        number += 1
print("heard", os.read(0, 100), flush=True)
raise SystemExit(7)
'"""


@pytest.fixture
def box(server: ServerProcess) -> Generator[Box]:
    with new_box(server) as made:
        yield made


def restart(server: ServerProcess) -> None:
    server.kill()
    server.start()


def numbers(output: bytes) -> list[int]:
    """The last line may be incomplete."""
    return [int(line) for line in output.split(b"\n")[:-1]]


def assert_counts(got: list[int], first: int) -> None:
    assert got == list(range(first, first + 2 * len(got), 2))


def assert_continues(before: Follower, after: Follower) -> None:
    """Each stream counts without a gap, and what was seen before comes again first."""
    for channel, first in ((frames.STDOUT, 0), (frames.STDERR, 1)):
        assert after.got[channel].startswith(before.got[channel])
        assert_counts(numbers(after.got[channel].partition(b"heard")[0]), first)


def test_a_session_loses_and_doubles_no_byte(server: ServerProcess, box: Box) -> None:
    """Before the crash and after it, with what was written while no node was there."""
    session_id = box.start(COUNTER)
    with box.attached(session_id) as before:
        before.read(holding=b"\n", times=300)
        restart(server)
    with box.attached(session_id) as after:
        after.read(until=frames.SCROLLBACK_END)
        assert len(after.lines()) > len(before.lines())
        after.read(holding=b"\n", times=len(after.lines()) + 100)
        after.send(b"enough\n")
        after.read(until=frames.EXIT)
    assert_continues(before, after)
    assert after.lines()[-1] == b"heard b'enough\\n'"
    assert frames.exit_code(after.got[frames.EXIT]) == 7
    assert (after.order.count(frames.SCROLLBACK_END), after.order[-1]) == (1, frames.EXIT)


@pytest.mark.anyio
async def test_a_client_that_reconnects_sees_one_stream(server: ServerProcess) -> None:
    """With our SDK, over two crashes."""
    got = {1: bytearray(), 2: bytearray()}
    async with Sandbox.create(api_key=server.api_key, api_url=server.url) as sandbox:
        session = await sandbox.exec.start(
            "sh", ["-c", COUNTER], on_stdout=got[1].extend, on_stderr=got[2].extend, reconnect=True
        )
        for _ in range(2):
            seen = len(got[1])
            await eventually(lambda seen=seen: len(got[1]) > seen + 1000, "more output")
            await asyncio.to_thread(restart, server)
        seen = len(got[1])
        await eventually(lambda: len(got[1]) > seen + 1000, "more output")
        await session.send_stdin("enough\n")
        assert await asyncio.wait_for(session.done, 20) == 7
    assert_counts(numbers(bytes(got[1]).partition(b"heard")[0]), 0)
    assert_counts(numbers(bytes(got[2])), 1)


def test_everything_is_as_it_was(server: ServerProcess) -> None:
    """Envs, files, processes, terminals, the token, the network; what ends meanwhile is known."""
    with new_box(server, envs={"COLOUR": "blue"}, metadata={"for": "a test"}) as box:
        assert box.write("kept.txt", b"kept").status_code == 204
        keeper = box.start("echo $$; exec sleep 600")
        pid = box.output("pgrep -xf 'sleep 600'")
        begun = box.output(f"cut -d' ' -f22 /proc/{pid}/stat")
        late = {"cmd": "sh", "args": ["-c", "sleep 1; echo late; exit 3"]}
        accepted = box.client.post(f"{box.path}/exec/run-async", json=late)
        assert accepted.status_code == 202
        terminal = box.client.post(f"{box.path}/pty", json={"cols": 91, "rows": 17}).json()["sessionID"]
        described = box.client.get(box.path).json()

        restart(server)

        token = httpx.Client(base_url=f"{server.url}/api", headers={"X-API-Key": box.description["token"]})
        with token:
            assert Box(server, token, box.description).output("echo $COLOUR; cat kept.txt") == "blue\nkept"
        assert box.output(f"pgrep -xf 'sleep 600'; cut -d' ' -f22 /proc/{pid}/stat") == f"{pid}\n{begun}"
        assert box.session(keeper)["running"]
        result = box.client.get(f"{box.path}/exec/{accepted.json()['execId']}/result").json()
        assert (result["running"], result["exitCode"], result["stdout"]) == (False, 3, "late\n")
        with box.attached(terminal, "pty") as screen:
            screen.socket.send(b"stty size\n")
            shown = b""
            while b"17 91" not in shown:
                message = screen.socket.recv(20)
                shown += message if isinstance(message, bytes) else b""
        status = json.loads(box.output("curl -sS http://169.254.169.254/v1/status"))
        assert status["sandboxId"] == box.id
        assert without_token(box.client.get(box.path).json()) == without_token(described)


def test_a_terminal_goes_on_by_itself(server: ServerProcess, box: Box, tmp_path: Path) -> None:
    """`oc shell` over a kill of the node: what was typed meanwhile arrives, and nothing is shown twice."""
    with terminal_of(box, tmp_path) as person:
        person.ask("oc shell $S")
        at_the_remote_prompt(person)
        person.type("echo before")
        person.until("\nbefore")
        at_the_remote_prompt(person)
        server.kill()
        person.type("echo typed meanwhile")
        server.start()
        person.until("\ntyped meanwhile")
        at_the_remote_prompt(person)
        person.type("exit")
        check_recording("shell_over_a_crash", person.until_ended())


def without_token(description: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in description.items() if name != "token"}


def test_ten_sandboxes_survive_an_orderly_stop(server: ServerProcess) -> None:
    """Their processes go on, and none of them is run twice."""
    with server.client() as client, ExitStack() as stack:
        boxes = [create_box(server, client) for _ in range(10)]
        for box in boxes:
            stack.callback(box.kill)
        sessions = [box.start("echo $$; exec sleep 601") for box in boxes]
        server.stop()
        server.start()
        listed = {each["sandboxID"] for each in client.get("/sandboxes").json()}
        assert listed == {box.id for box in boxes}
        for box, session_id in zip(boxes, sessions, strict=True):
            with box.attached(session_id) as follower:
                follower.read(until=frames.SCROLLBACK_END)
            pid = follower.lines()[0].decode()
            assert box.output("pgrep -xf 'sleep 601'") == pid
