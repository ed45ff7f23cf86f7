"""`sandbox.exec`: one-shot commands, live sessions, listing and killing."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from opencomputer import ExecFailedError, ExecTimeoutError, NotFoundError, Sandbox, SandboxStoppedError
from opencomputer.sdk.exec import poll_delay
from opencomputer.wire.frames import Frame
from tests.support.fake_node import FakeNode, FakeSession, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_run_returns_exit_code_and_both_outputs(sandbox: Sandbox) -> None:
    result = await sandbox.exec.run("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")


async def test_run_sends_env_cwd_and_timeout(node: FakeNode, sandbox: Sandbox) -> None:
    result = await sandbox.exec.run("echo $WORD $(pwd)", timeout=7, env={"WORD": "hello"}, cwd="/tmp")
    assert result.stdout == "hello /tmp\n"
    assert node.requests("POST", "/exec/run-async")[0].body == {
        "cmd": "sh",
        "args": ["-c", "echo $WORD $(pwd)"],
        "timeout": 7,
        "envs": {"WORD": "hello"},
        "cwd": "/tmp",
    }


async def test_a_command_that_outlasts_the_first_answer_is_asked_for_until_it_ends(
    node: FakeNode, sandbox: Sandbox
) -> None:
    result = await sandbox.exec.run("sleep 0.6; echo done")
    assert result.stdout == "done\n"
    assert node.requests("GET", "/result")
    assert len(node.requests("POST", "/exec/run-async")) == 1


async def test_a_server_without_asynchronous_runs_is_asked_the_plain_way(
    node: FakeNode, sandbox: Sandbox
) -> None:
    node.run_async_supported = False
    assert (await sandbox.exec.run("echo plain")).stdout == "plain\n"
    assert len(node.requests("POST", "/exec/run")) == 1


async def test_a_repeated_run_has_the_same_idempotency_key(node: FakeNode, sandbox: Sandbox) -> None:
    path = f"/sandboxes/{sandbox.sandbox_id}/exec/run-async"
    node.rules.append(Rule("POST", path, 503, {"error": "not ready", "code": "not_ready"}))
    assert (await sandbox.exec.run("echo once")).stdout == "once\n"
    first, second = node.requests("POST", "/exec/run-async")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


async def test_the_callers_deadline_raises_and_names_the_command(node: FakeNode, sandbox: Sandbox) -> None:
    with pytest.raises(ExecTimeoutError) as raised:
        await sandbox.exec.run("sleep 30", client_timeout=5)
    assert raised.value.exec_id in node.results


async def test_a_command_that_could_not_be_started_raises(node: FakeNode, sandbox: Sandbox) -> None:
    path = f"/sandboxes/{sandbox.sandbox_id}/exec/run-async"
    answer = {"execId": "abc", "running": True}
    node.rules.append(Rule("POST", path, 202, answer))
    result = {"running": False, "stdout": "", "stderr": "", "error": "no such directory"}
    node.rules.append(Rule("GET", f"/sandboxes/{sandbox.sandbox_id}/exec/abc/result", 200, result))
    with pytest.raises(ExecFailedError, match="no such directory"):
        await sandbox.exec.run("true", cwd="/missing")


async def test_an_outage_while_a_command_runs_is_waited_out(node: FakeNode, sandbox: Sandbox) -> None:
    path = f"/sandboxes/{sandbox.sandbox_id}/exec"
    node.rules.append(Rule("POST", f"{path}/run-async", 202, {"execId": "abc", "running": True}))
    node.rules.append(Rule("GET", f"{path}/abc/result", 503, {"error": "starting"}, times=3))
    done = {"running": False, "exitCode": 0, "stdout": "survived", "stderr": ""}
    node.rules.append(Rule("GET", f"{path}/abc/result", 200, done))
    assert (await sandbox.exec.run("true")).stdout == "survived"


async def test_a_stopped_sandbox_is_said_to_be_stopped(sandbox: Sandbox) -> None:
    await sandbox.kill()
    with pytest.raises(SandboxStoppedError):
        await sandbox.exec.run("true")


async def test_start_follows_the_output_without_being_awaited(sandbox: Sandbox) -> None:
    out: list[bytes] = []
    err: list[bytes] = []
    codes: list[int] = []
    session = await sandbox.exec.start(
        "sh",
        ["-c", "printf out; printf err >&2; exit 7"],
        on_stdout=out.append,
        on_stderr=err.append,
        on_exit=codes.append,
    )
    assert await session.done == 7
    assert (b"".join(out), b"".join(err), codes) == (b"out", b"err", [7])


async def test_start_passes_all_its_options_on(node: FakeNode, sandbox: Sandbox) -> None:
    session = await sandbox.exec.background(
        "cat", ["-u"], env={"A": "b"}, cwd="/", timeout=9, max_run_after_disconnect=5
    )
    await session.kill()
    assert node.requests("POST", "/exec")[0].body == {
        "cmd": "cat",
        "args": ["-u"],
        "envs": {"A": "b"},
        "cwd": "/",
        "timeout": 9,
        "maxRunAfterDisconnect": 5,
    }


async def test_standard_input_reaches_the_program_in_order(sandbox: Sandbox) -> None:
    out: list[bytes] = []
    session = await sandbox.exec.start("head", ["-c", "300003"], on_stdout=out.append)
    await session.send_stdin("abc")
    await session.send_stdin(bytes(range(256)) * 1200)
    assert await session.done == 0
    assert b"".join(out) == (b"abc" + bytes(range(256)) * 1200)[:300003]


async def test_a_program_that_reads_to_the_end_gets_one(sandbox: Sandbox) -> None:
    out: list[bytes] = []
    session = await sandbox.exec.start("cat", on_stdout=out.append)
    await session.send_stdin("all of it")
    await session.close_stdin()
    assert await session.done == 0
    assert b"".join(out) == b"all of it"
    await session.close_stdin()


async def test_kill_ends_the_program_and_its_code_tells_the_signal(sandbox: Sandbox) -> None:
    session = await sandbox.exec.start("sleep", ["30"])
    await session.kill(15)
    assert await session.done == 143


async def test_after_the_end_kill_and_input_do_nothing(node: FakeNode, sandbox: Sandbox) -> None:
    session = await sandbox.exec.start("true", ["x"])
    await session.done
    await session.kill()
    await session.send_stdin("more")
    assert node.requests("POST", "/kill") == []


async def test_attaching_replays_then_says_so_then_goes_on_live(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = FakeSession("cafe0001")
    inside.sessions["cafe0001"] = session
    node.do(session.say, 1, b"old ")
    heard: list[str] = []
    attached = await sandbox.exec.attach(
        "cafe0001",
        on_stdout=lambda data: heard.append(data.decode()),
        on_exit=lambda code: heard.append(f"exit {code}"),
        on_scrollback_end=lambda: heard.append("|"),
    )
    await eventually(lambda: "|" in heard)
    node.do(session.say, 1, b"new ")
    node.do(session.exit, 0)
    assert await attached.done == 0
    assert heard == ["old ", "|", "new ", "exit 0"]


async def test_an_unknown_session_is_an_error_of_attaching(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError, match="no such session"):
        await sandbox.exec.attach("none")


async def test_a_lost_link_ends_with_minus_one(node: FakeNode, sandbox: Sandbox, inside: FakeSandbox) -> None:
    session = FakeSession("cafe0002")
    inside.sessions["cafe0002"] = session
    codes: list[int] = []
    attached = await sandbox.exec.attach("cafe0002", on_exit=codes.append)
    await eventually(lambda: session.followers)
    node.do(session.drop)
    assert await attached.done == -1
    assert codes == [-1]


async def test_with_reconnect_a_lost_link_is_opened_again_without_repeating(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = FakeSession("cafe0003")
    inside.sessions["cafe0003"] = session
    out: list[bytes] = []
    marks: list[str] = []
    attached = await sandbox.exec.attach(
        "cafe0003", on_stdout=out.append, on_scrollback_end=lambda: marks.append("|"), reconnect=True
    )
    await eventually(lambda: session.followers)
    node.do(session.say, 1, b"first ")
    await eventually(lambda: out)
    node.do(session.drop)
    node.do(session.say, 1, b"second ")
    await eventually(lambda: session.followers)
    node.do(session.exit, 5)
    assert await attached.done == 5
    assert b"".join(out) == b"first second "
    assert marks == ["|"]


async def test_with_reconnect_output_that_was_lost_is_a_lost_link_and_no_gap(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = FakeSession("cafe0007")
    inside.sessions["cafe0007"] = session
    out: list[bytes] = []
    attached = await sandbox.exec.attach("cafe0007", on_stdout=out.append, reconnect=True)
    await eventually(lambda: session.followers)
    node.do(session.say, 1, b"known")
    await eventually(lambda: out)
    node.do(session.drop)
    session.ring[:] = [Frame(1, b"x" * (1 << 20))]
    assert await attached.done == -1
    assert attached.link_end == "some output was lost while the link was down"
    assert out == [b"known"]


async def test_closing_detaches_and_leaves_the_program_alone(sandbox: Sandbox, inside: FakeSandbox) -> None:
    session = FakeSession("cafe0004")
    inside.sessions["cafe0004"] = session
    codes: list[int] = []
    attached = await sandbox.exec.attach("cafe0004", on_exit=codes.append)
    await attached.close()
    await attached.close()
    assert await attached.done == -1
    assert codes == []
    assert session.exit_code is None
    assert session.killed_with == []


async def test_a_session_can_be_closed_from_its_own_callback(sandbox: Sandbox) -> None:
    sessions: list[object] = []

    async def leave(_: bytes) -> None:
        await session.close()
        sessions.append(session)

    session = await sandbox.exec.start("sh", ["-c", "echo now; sleep 30"], on_stdout=leave)
    assert await session.done == -1
    assert sessions == [session]


async def test_giving_up_waiting_for_the_end_does_not_end_anything(sandbox: Sandbox) -> None:
    session = await sandbox.exec.start("cat", ["-u"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.done, 0.01)
    await session.kill(9)
    assert await session.done == 137


async def test_a_faulty_callback_does_not_stop_the_stream(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: bytes) -> None:
        raise LookupError("the caller's own fault")

    session = await sandbox.exec.start("echo", ["x"], on_stdout=fail)
    assert await session.done == 0
    assert "the caller's own fault" in caplog.text


async def test_callbacks_may_be_async(sandbox: Sandbox) -> None:
    out: list[bytes] = []

    async def collect(data: bytes) -> None:
        await asyncio.sleep(0)
        out.append(data)

    session = await sandbox.exec.start("echo", ["hi"], on_stdout=collect)
    await session.done
    assert b"".join(out) == b"hi\n"


async def test_list_shows_running_and_ended_sessions(sandbox: Sandbox, inside: FakeSandbox) -> None:
    inside.sessions["cafe0005"] = FakeSession("cafe0005", ["sleep", "9"])
    ended = FakeSession("cafe0006", ["true"])
    ended.exit_code = 2
    inside.sessions["cafe0006"] = ended
    running, finished = await sandbox.exec.list()
    assert (running.command, running.args, running.running, running.exit_code) == ("sleep", ["9"], True, None)
    assert (finished.session_id, finished.running, finished.exit_code) == ("cafe0006", False, 2)


async def test_a_server_that_is_gone_is_a_transport_error() -> None:
    with pytest.raises(httpx.TransportError):
        await Sandbox.connect("sb-1", "osb_x", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("waited", "held", "delay"),
    [
        (0.0, 0.0, 0.2),
        (1.0, 0.0, 0.2),
        (5.0, 0.0, 0.5),
        (5.0, 0.5, 0.0),
        (60.0, 0.0, 2.0),
        (3600.0, 0.5, 1.5),
    ],
)
def test_the_delay_between_questions_grows_with_the_wait(waited: float, held: float, delay: float) -> None:
    assert poll_delay(waited=waited, held=held) == pytest.approx(delay)


async def test_a_program_can_be_killed_when_the_link_to_it_is_lost(
    node: FakeNode, sandbox: Sandbox, inside: FakeSandbox
) -> None:
    session = FakeSession("cafe0008")
    inside.sessions["cafe0008"] = session
    attached = await sandbox.exec.attach("cafe0008")
    await eventually(lambda: session.followers)
    node.do(session.drop)
    assert await attached.done == -1
    await attached.kill()
    assert len(node.requests("POST", "/kill")) == 1


async def test_a_program_can_be_killed_after_detaching(node: FakeNode, sandbox: Sandbox) -> None:
    session = await sandbox.exec.start("sleep", ["30"])
    await session.close()
    await session.kill()
    assert len(node.requests("POST", "/kill")) == 1


async def test_one_text_is_no_list_of_texts(sandbox: Sandbox) -> None:
    """It would be sent letter by letter."""
    with pytest.raises(TypeError, match="args must be a list"):
        await sandbox.exec.start("echo", "hello")
    with pytest.raises(TypeError, match="allowed_tools must be a list"):
        await sandbox.agent.start(allowed_tools="Bash")
    with pytest.raises(TypeError, match="egress_allowlist must be a list"):
        Sandbox.create(egress_allowlist="example.com")
