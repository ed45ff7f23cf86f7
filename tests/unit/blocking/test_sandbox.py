"""A sandbox without an event loop: every kind of call that the facade makes of the asynchronous SDK."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import opencomputer
from opencomputer.blocking import (
    ClientSession,
    ExecSession,
    NotFoundError,
    OpenComputer,
    Sandbox,
    Snapshots,
    connect_session,
)
from tests.support.fake_node import FakeNode


def test_leaving_the_context_kills_the_sandbox(node: FakeNode) -> None:
    with Sandbox.create(api_key=node.api_key, api_url=node.url) as sandbox:
        assert sandbox.status == "running"
        assert repr(sandbox) == f"<Sandbox {sandbox.id} running>"
    assert sandbox.status == "stopped"


def test_a_command_runs(sandbox: Sandbox) -> None:
    result = sandbox.exec.run("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_what_the_server_refuses_raises_the_same_error(node: FakeNode) -> None:
    with pytest.raises(NotFoundError) as caught:
        Sandbox.connect("sb-none", api_key=node.api_key, api_url=node.url)
    assert isinstance(caught.value, opencomputer.OpenComputerError)


def test_output_goes_to_the_callbacks_before_the_end_is_known(sandbox: Sandbox) -> None:
    heard: list[bytes | int] = []
    with sandbox.exec.start("echo one; echo two", on_stdout=heard.append, on_exit=heard.append) as session:
        assert session.done.result(timeout=10) == 0
    assert b"".join(each for each in heard if isinstance(each, bytes)) == b"one\ntwo\n"
    assert heard[-1] == 0


def test_a_callback_may_block_and_may_use_the_sandbox(sandbox: Sandbox) -> None:
    started = threading.Event()
    seen: list[str] = []

    def on_stdout(_: bytes) -> None:
        assert started.wait(10)
        seen.append(sandbox.exec.run("echo nested").stdout)

    with sandbox.exec.start("echo go", on_stdout=on_stdout) as session:
        started.set()
        session.done.result(timeout=10)
    assert seen == ["nested\n"]


def test_a_callback_sees_the_context_of_whoever_gave_it(sandbox: Sandbox) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    variable.set("inside")
    seen: list[str] = []
    with sandbox.exec.start("echo", on_exit=lambda _: seen.append(variable.get())) as session:
        session.done.result(timeout=10)
    assert seen == ["inside"]


def test_an_asynchronous_callback_is_awaited(sandbox: Sandbox) -> None:
    codes: list[int] = []

    async def on_exit(code: int) -> None:
        await asyncio.sleep(0)
        codes.append(code)

    with sandbox.exec.start("exit 4", on_exit=on_exit) as session:
        session.done.result(timeout=10)
    assert codes == [4]


def test_closing_a_session_within_its_own_callback_ends_in_time(sandbox: Sandbox) -> None:
    sessions: list[ExecSession] = []
    closed = threading.Event()

    def on_stdout(_: bytes) -> None:
        sessions[0].close()
        closed.set()

    sessions.append(sandbox.exec.start("cat", on_stdout=on_stdout))
    sessions[0].send_stdin("x\n")
    assert closed.wait(10)
    assert sessions[0].done.result(timeout=10) == -1


def test_cancelling_a_future_cancels_nothing_else(sandbox: Sandbox) -> None:
    with sandbox.exec.start("cat") as session:
        assert session.done.cancel()
        session.send_stdin("x")
        session.kill()
        assert session.done.result(timeout=10) == 137


def test_files_go_both_ways_whole_and_in_pieces(sandbox: Sandbox) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one "
        yield b"two"

    sandbox.files.write("/a", "text")
    sandbox.files.write_stream("/b", pieces())
    sandbox.files.write("/c", [b"three"])
    assert sandbox.files.read("/a") == "text"
    assert b"".join(sandbox.files.read_stream("/b")) == b"one two"
    assert sandbox.files.read_bytes("/c") == b"three"


def test_an_upload_whose_source_fails_raises_what_the_source_raised(sandbox: Sandbox) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        sandbox.files.write_stream("/b", pieces())


def test_an_abandoned_stream_is_closed(sandbox: Sandbox) -> None:
    sandbox.files.write("/big", b"x" * 5_000_000)
    with sandbox.files.read_stream("/big") as stream:
        assert next(stream)
    assert list(stream) == []
    for piece in sandbox.files.read_stream("/big"):
        assert piece
        break
    assert sandbox.files.read_bytes("/big")


def test_forks_are_sandboxes_for_those_who_block(sandbox: Sandbox) -> None:
    forks = sandbox.fork(2)
    assert [type(each) for each in forks] == [Sandbox, Sandbox]
    for each in forks:
        each.kill()
        each.close()


def test_a_checkpoint_is_a_dictionary_that_can_wait(node: FakeNode, sandbox: Sandbox) -> None:
    checkpoint = sandbox.create_checkpoint("before")
    assert checkpoint["name"] == checkpoint.name == "before"
    assert checkpoint.wait_until_ready() is checkpoint
    assert checkpoint["status"] == "ready"
    assert [each.id for each in sandbox.checkpoints.list()] == [checkpoint.id]


def test_parts_stay_the_same_object(sandbox: Sandbox) -> None:
    assert sandbox.exec is sandbox.exec
    with pytest.deprecated_call():
        assert sandbox.commands is sandbox.exec
    assert sandbox.get_preview_domain(80) == f"{sandbox.id}-p80.preview.test"


def test_a_shell_keeps_its_state_and_tells_its_output(sandbox: Sandbox) -> None:
    heard: list[bytes] = []
    with sandbox.exec.shell() as shell:
        shell.run("WORD=kept")
        result = shell.run("echo $WORD", on_stdout=heard.append)
    assert result.stdout == "kept\n"
    assert b"".join(heard) == b"kept\n"


def test_a_terminal_is_read_as_it_comes(sandbox: Sandbox) -> None:
    with sandbox.pty.create() as terminal:
        terminal.send("echo hi\r")
        received = b""
        while b"hi" not in received:
            received += terminal.recv()
        terminal.resize(100, 30)


def test_an_agent_is_steered_and_followed(node: FakeNode, sandbox: Sandbox) -> None:
    node.agent_answer = [{"type": "assistant"}, {"type": "turn_complete", "claude_session_id": "c0ffee"}]
    heard: list[str] = []
    with sandbox.agent.start("work", on_event=lambda event: heard.append(event.type)) as session:
        assert session.wait() == 0
        session.send_prompt("more")
        assert [event.type for event in session.collect_events()].count("turn_complete") == 2
        assert heard.count("turn_complete") == 2
        session.send_prompt("again")
        for event in session:
            if event.type == "turn_complete":
                break


def test_events_of_unknown_types_are_followed_too(node: FakeNode, sandbox: Sandbox) -> None:
    node.agent_answer = [{"type": "of_the_future", "new": 1}, {"type": "turn_complete"}]
    with sandbox.agent.start("work") as session:
        assert [event.type for event in session.collect_events()][-2:] == ["of_the_future", "turn_complete"]
    agent = node.durable.add_agent(1, "2026-01-02T03:04:05.000Z")
    log = node.durable.add_session(1, str(agent["id"]), "2026-01-02T03:04:05.000Z")
    node.durable.append(str(log["id"]), {"type": "of.the.future", "body": {"new": 1}})
    with connect_session(str(log["id"]), node.api_key, base_url=node.url) as client:
        event = next(iter(client.events()))
        assert (event.type, event.body) == ("of.the.future", {"new": 1})


def test_it_works_where_an_event_loop_runs_already(sandbox: Sandbox) -> None:
    async def cell_of_a_notebook() -> str:
        return sandbox.exec.run("echo there").stdout

    assert asyncio.run(cell_of_a_notebook()) == "there\n"


def test_many_threads_share_one_sandbox(sandbox: Sandbox) -> None:
    def said(number: int) -> str:
        return sandbox.exec.run(f"echo {number}").stdout

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(said, range(8)))
    assert results == [f"{n}\n" for n in range(8)]


def test_classes_with_a_public_constructor_have_one(node: FakeNode) -> None:
    with Snapshots(node.api_key, node.url) as snapshots:
        assert snapshots.list() == []
    with OpenComputer(node.api_key, base_url=node.url) as client:
        assert client.agents.deployments is client.agents.deployments
        assert list(client.credentials.list()) == []
    with connect_session("ses_1", "token", base_url=node.url) as session:
        assert type(session) is ClientSession
        assert session.id == "ses_1"
