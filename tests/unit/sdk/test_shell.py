"""The stateful shell, on a real bash."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opencomputer import Sandbox, Shell, ShellBusyError, ShellClosedError
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def shell(sandbox: Sandbox) -> AsyncIterator[Shell]:
    async with await sandbox.exec.shell() as shell:
        yield shell


async def test_state_persists_from_run_to_run(shell: Shell) -> None:
    await shell.run("cd /tmp; plain=1; export exported=2; greet() { echo hello $1; }; umask 027; set -u")
    result = await shell.run("pwd; echo $plain; sh -c 'echo $exported'; greet you; umask; echo $-")
    assert result.stdout.splitlines()[:5] == ["/tmp", "1", "2", "hello you", "0027"]
    assert "u" in result.stdout.splitlines()[5]


async def test_start_directory_and_environment_are_given_at_opening(sandbox: Sandbox) -> None:
    async with await sandbox.exec.shell(cwd="/usr", env={"COLOUR": "blue"}) as shell:
        assert (await shell.run("pwd; echo $COLOUR")).stdout == "/usr\nblue\n"


async def test_the_result_is_that_run_alone(shell: Shell) -> None:
    await shell.run("echo first; echo warning >&2")
    result = await shell.run("echo second; exit_code() { return 3; }; exit_code")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "second\n", "")


@pytest.mark.parametrize("text", ["no newline", "", "\n", "two\n\n", "☕" * 3, "__OC_", "trailing _"])
async def test_output_is_kept_to_the_last_byte(shell: Shell, text: str) -> None:
    result = await shell.run(f"printf %s '{text}'; printf %s '{text}' >&2")
    assert (result.stdout, result.stderr) == (text, text)


@pytest.mark.parametrize("command", ["", "   ", "\n", "# only a comment"])
async def test_an_empty_command_succeeds(shell: Shell, command: str) -> None:
    assert (await shell.run(command)).exit_code == 0


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat <<END\none\ntwo\nEND", "one\ntwo\n"),
        ("cat <<A; cat <<B\na\nA\nb\nB", "a\nb\n"),
        ("cat <<'A'\n$(cat <<B\nB\n)\nA", "$(cat <<B\nB\n)\n"),
        ("cat <<< 'here string'", "here string\n"),
        ("for i in 1 2; do\n  echo $i\ndone", "1\n2\n"),
        ("echo one; \\\necho two", "one\ntwo\n"),
        ("cat <<END\nnever ended", "never ended\n"),
    ],
)
async def test_scripts_of_many_lines_and_here_documents_work(shell: Shell, command: str, output: str) -> None:
    assert (await shell.run(command)).stdout == output
    assert (await shell.run("echo still here")).stdout == "still here\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo 'open quote",
        'echo "open quote',
        "echo $(",
        'echo "$(',
        "echo `",
        "echo ${",
        "if true; then",
        "f() {",
        "case x in",
        "echo )",
        "((",
        "a=(",
        "{",
        "true &&",
    ],
)
async def test_what_a_command_leaves_open_is_its_own_error_and_nobody_elses(
    shell: Shell, command: str
) -> None:
    for _ in range(20):
        assert (await shell.run(command)).exit_code != 0
        assert (await shell.run('echo "quoted $(echo nested)"')).stdout == "quoted nested\n"


@pytest.mark.parametrize("command", ["cat", "read line", "head -c1", "exec </dev/zero", "cat /dev/stdin"])
async def test_a_command_that_reads_its_input_finds_it_empty(shell: Shell, command: str) -> None:
    await shell.run(command)
    assert (await shell.run("echo next")).stdout == "next\n"


async def test_redirecting_the_shells_own_output_does_not_hide_the_end(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert (await shell.run(f"exec >{target} 2>&1; echo to file")).stdout == ""
    assert (await shell.run("echo more")).stdout == ""
    assert target.read_text() == "to file\nmore\n"


async def test_closing_the_shells_own_output_does_not_hide_the_end(shell: Shell) -> None:
    await shell.run("exec >&- 2>&-")
    assert (await shell.run("true")).exit_code == 0


async def test_processes_left_behind_do_not_hold_the_marks_outputs(shell: Shell) -> None:
    result = await shell.run(
        "sleep 30 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; ls /proc/$!/fd; kill $!"
    )
    assert result.stdout.split() == ["0", "1", "2"]


async def test_tracing_shows_the_command_and_not_the_machinery(shell: Shell) -> None:
    await shell.run("set -x")
    assert "__OC" not in (await shell.run("echo traced")).stderr


async def test_callbacks_get_the_output_as_it_comes_and_never_a_mark(shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    out: list[bytes] = []
    err: list[bytes] = []
    running = asyncio.create_task(
        shell.run(f"echo early; cat {gate} >&2", on_stdout=out.append, on_stderr=err.append)
    )
    await eventually(lambda: out)
    assert not running.done()
    await asyncio.to_thread(gate.write_text, "late")
    await running
    assert (b"".join(out), b"".join(err)) == (b"early\n", b"late")


async def test_a_second_run_is_refused_and_the_first_goes_on(shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = asyncio.create_task(shell.run(f"cat {gate}"))
    await asyncio.sleep(0)
    with pytest.raises(ShellBusyError):
        await shell.run("echo second")
    await asyncio.to_thread(gate.write_text, "opened")
    assert (await first).stdout == "opened"
    assert (await shell.run("echo third")).stdout == "third\n"


async def test_a_run_given_up_by_its_caller_keeps_the_shell_busy_until_it_ends(
    shell: Shell, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await shell.run(f"cat {gate}; kept=yes")
    with pytest.raises(ShellBusyError):
        await shell.run("echo too early")
    await asyncio.to_thread(gate.write_text, "x")
    await eventually(lambda: shell._active is None)  # pyright: ignore[reportPrivateUsage]
    assert (await shell.run("echo $kept")).stdout == "yes\n"


async def test_exit_closes_the_shell_and_carries_the_code(shell: Shell) -> None:
    with pytest.raises(ShellClosedError) as raised:
        await shell.run("exit 4")
    assert raised.value.exit_code == 4
    with pytest.raises(ShellClosedError) as again:
        await shell.run("echo anybody")
    assert again.value.exit_code == 4


async def test_a_killed_shell_is_a_closed_one(shell: Shell) -> None:
    with pytest.raises(ShellClosedError) as raised:
        await shell.run("kill -9 $$")
    assert raised.value.exit_code == 137


async def test_closing_an_idle_shell_lets_it_exit_by_itself(sandbox: Sandbox, inside: FakeSandbox) -> None:
    shell = await sandbox.exec.shell()
    await shell.close()
    await shell.close()
    assert inside.sessions[shell.session_id].exit_code == 0
    with pytest.raises(ShellClosedError):
        await shell.run("true")


async def test_closing_a_busy_shell_kills_what_it_runs(sandbox: Sandbox, inside: FakeSandbox) -> None:
    shell = await sandbox.exec.shell()
    running = asyncio.create_task(shell.run("sleep 30"))
    await asyncio.sleep(0)
    await shell.close()
    with pytest.raises(ShellClosedError):
        await running
    session = inside.sessions[shell.session_id]
    await eventually(lambda: session.exit_code == 137)


async def test_a_shell_can_be_taken_up_again_without_its_old_output(sandbox: Sandbox) -> None:
    first = await sandbox.exec.shell()
    await first.run("echo old output; kept=yes")
    second = await sandbox.exec.reattach_shell(first.session_id)
    assert (await second.run("echo $kept")).stdout == "yes\n"
    await second.close()


async def test_a_large_output_and_a_large_command_come_through(shell: Shell) -> None:
    word = "x" * 200_000
    result = await shell.run(f"printf %s {word}; head -c 300000 /dev/zero | tr '\\0' y >&2")
    assert result.stdout == word
    assert result.stderr == "y" * 300_000


async def test_a_lost_link_closes_the_shell(node: FakeNode, sandbox: Sandbox, inside: FakeSandbox) -> None:
    shell = await sandbox.exec.shell()
    running = asyncio.create_task(shell.run("sleep 30"))
    await asyncio.sleep(0)
    node.do(inside.sessions[shell.session_id].drop)
    with pytest.raises(ShellClosedError) as raised:
        await running
    assert raised.value.exit_code == -1
