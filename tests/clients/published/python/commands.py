"""The published SDK's `exec`: run, start, background, attach, list, kill."""

import asyncio

import httpx
from checks import covers, main, raises, until


class Output:
    """Collects what a session sends."""

    def __init__(self):
        self.stdout = b""
        self.stderr = b""
        self.exits = []
        self.replayed = 0
        self.replay_ended = False

    def callbacks(self):
        return {
            "on_stdout": self.add_stdout,
            "on_stderr": self.add_stderr,
            "on_exit": self.exits.append,
        }

    def add_stdout(self, data):
        self.stdout += data

    def add_stderr(self, data):
        self.stderr += data

    def end_replay(self):
        self.replay_ended = True
        self.replayed = len(self.stdout)


@covers("A20")
async def run_answers_with_both_streams_and_the_exit_code(sandbox):
    result = await sandbox.exec.run("echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")


@covers("A20")
async def run_of_a_silent_success_is_zero(sandbox):
    result = await sandbox.exec.run("true")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@covers("A20")
async def run_takes_env_and_cwd(sandbox):
    result = await sandbox.exec.run(
        'printf "%s in %s" "$COLOUR" "$PWD"', env={"COLOUR": "blue"}, cwd="/usr/lib"
    )
    assert result.stdout == "blue in /usr/lib"


@covers("A20")
async def run_begins_at_home_as_the_sandbox_user(sandbox):
    result = await sandbox.exec.run('echo "$PWD $HOME $(id -un)"')
    assert result.stdout == "/home/sandbox /home/sandbox sandbox\n"


@covers("A20")
async def run_keeps_what_was_said_before_a_timeout(sandbox):
    result = await sandbox.exec.run("echo before; sleep 30", timeout=3)
    assert result.exit_code == 137
    assert result.stdout == "before\n"
    assert "timed out" in result.stderr


@covers("A20")
async def run_reads_nothing_from_standard_input(sandbox):
    assert (await sandbox.exec.run("cat; echo done", timeout=10)).stdout == "done\n"


@covers("A20")
async def run_outlives_thirty_seconds_of_silence(sandbox):
    result = await sandbox.exec.run("sleep 33; echo awake", timeout=50)
    assert (result.exit_code, result.stdout) == (0, "awake\n")


@covers("A20")
async def commands_is_another_name_for_exec(sandbox):
    assert (await sandbox.commands.run("echo alias")).stdout == "alias\n"


@covers("A20")
async def run_in_parallel_keeps_outputs_apart(sandbox):
    results = await asyncio.gather(*(sandbox.exec.run(f"echo {number}") for number in range(10)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(10)]


@covers("A20")
async def run_keeps_characters_that_are_cut_into_pieces(sandbox):
    result = await sandbox.exec.run('python3 -c \'print("☕" * 100000, end="")\'')
    assert result.stdout == "☕" * 100_000


@covers("A21")
async def start_streams_output_and_gives_the_exit_code(sandbox):
    output = Output()
    session = await sandbox.exec.start(
        "sh", args=["-c", "echo out; echo err >&2; exit 5"], **output.callbacks()
    )
    assert await session.done == 5
    assert (output.stdout, output.stderr, output.exits) == (b"out\n", b"err\n", [5])


@covers("A21")
async def a_burst_of_output_arrives_whole(sandbox):
    size = 0

    def count(data):
        nonlocal size
        size += len(data)

    session = await sandbox.exec.start("head", args=["-c", "50000000", "/dev/zero"], on_stdout=count)
    assert (await session.done, size) == (0, 50_000_000)


@covers("A21")
async def start_without_arguments_takes_a_shell_line(sandbox):
    output = Output()
    session = await sandbox.exec.start("echo one && echo two", on_stdout=output.add_stdout)
    assert await session.done == 0
    assert output.stdout == b"one\ntwo\n"


@covers("A21")
async def start_takes_env_cwd_and_timeout(sandbox):
    output = Output()
    session = await sandbox.exec.start(
        "sh",
        args=["-c", 'echo "$SHAPE in $PWD"; sleep 60'],
        env={"SHAPE": "round"},
        cwd="/tmp",
        timeout=3,
        **output.callbacks(),
    )
    assert await session.done == 137
    assert output.stdout == b"round in /tmp\n"


@covers("A21", "A22", "A23")
async def background_goes_on_without_its_client(sandbox):
    session = await sandbox.exec.background("sleep 1; echo finished > /tmp/background")
    await session.close()
    assert session.session_id in [each.session_id for each in await sandbox.exec.list()]
    result = await sandbox.exec.run("until test -s /tmp/background; do sleep 0.05; done; cat /tmp/background")
    assert result.stdout == "finished\n"


@covers("A22")
async def send_stdin_reaches_the_process_exactly(sandbox):
    output = Output()
    session = await sandbox.exec.start("head", args=["-c", "300005"], on_stdout=output.add_stdout)
    await session.send_stdin("text\n")
    await session.send_stdin(bytes(range(250)) * 1200)
    assert await session.done == 0
    assert output.stdout == b"text\n" + bytes(range(250)) * 1200


@covers("A22")
async def attach_replays_and_marks_the_end_of_the_replay(sandbox):
    first = await sandbox.exec.start("sh", args=["-c", "echo early; read line; echo got $line"])
    await until_output(sandbox, first.session_id)
    output = Output()
    second = await sandbox.exec.attach(
        first.session_id, on_stdout=output.add_stdout, on_scrollback_end=output.end_replay
    )
    await until(lambda: output.replay_ended)
    assert output.stdout == b"early\n"
    await first.send_stdin("late\n")
    assert await second.done == 0
    assert await first.done == 0
    assert output.stdout == b"early\ngot late\n"


async def until_output(sandbox, session_id):
    seen = Output()
    session = await sandbox.exec.attach(session_id, on_stdout=seen.add_stdout)
    await until(lambda: seen.stdout)
    await session.close()


@covers("A22")
async def attach_to_a_finished_session_tells_everything(sandbox):
    session = await sandbox.exec.start("sh", args=["-c", "echo said; exit 9"])
    await session.done
    output = Output()
    again = await sandbox.exec.attach(
        session.session_id, **output.callbacks(), on_scrollback_end=output.end_replay
    )
    assert await again.done == 9
    assert (output.stdout, output.replayed) == (b"said\n", len(b"said\n"))


@covers("A22")
async def every_attached_client_gets_everything(sandbox):
    session = await sandbox.exec.start("sh", args=["-c", "read go; seq 20000"])
    outputs = [Output() for _ in range(3)]
    watching = [await sandbox.exec.attach(session.session_id, **output.callbacks()) for output in outputs]
    await session.send_stdin("\n")
    assert [await each.done for each in watching] == [0, 0, 0]
    expected = "".join(f"{number}\n" for number in range(1, 20001)).encode()
    assert all(output.stdout == expected for output in outputs)


@covers("A21")
async def a_session_without_clients_ends_after_its_time(sandbox):
    session = await sandbox.exec.start("sleep", args=["600"], max_run_after_disconnect=1)
    await session.close()
    again = await until_ended(sandbox, session.session_id)
    assert again.exit_code == 137


async def until_ended(sandbox, session_id):
    for _ in range(600):
        found = next(each for each in await sandbox.exec.list() if each.session_id == session_id)
        if not found.running:
            return found
        await asyncio.sleep(0.1)
    raise AssertionError("the session goes on")


@covers("A23")
async def list_describes_sessions(sandbox):
    session = await sandbox.exec.start("sleep", args=["600"])
    found = next(each for each in await sandbox.exec.list() if each.session_id == session.session_id)
    assert (found.command, found.args, found.running, found.exit_code) == ("sleep", ["600"], True, None)
    assert found.sandbox_id == sandbox.sandbox_id
    assert found.started_at
    assert found.attached_clients == 1
    await session.kill()
    await session.done


@covers("A23")
async def kill_of_a_session_ends_its_whole_group(sandbox):
    session = await sandbox.exec.start("sh", args=["-c", "sleep 7777 & sleep 7777"])
    await session.kill()
    assert await session.done == 137
    assert (await sandbox.exec.run("pgrep -f 'sleep 777[7]'")).stdout == ""


@covers("A23")
async def kill_takes_a_signal(sandbox):
    output = Output()
    session = await sandbox.exec.start(
        "sh",
        args=["-c", "trap 'echo caught; exit 4' TERM; echo set; while :; do sleep 0.05; done"],
        on_stdout=output.add_stdout,
    )
    await until(lambda: b"set" in output.stdout)
    await sandbox.exec.kill(session.session_id, signal=15)
    assert await session.done == 4
    assert output.stdout == b"set\ncaught\n"


@covers("A23")
async def kill_of_an_unknown_session_is_not_found(sandbox):
    error = await raises(httpx.HTTPStatusError, sandbox.exec.kill("ffffffff"))
    assert error.response.status_code == 404


main()
