"""Processes of a machine, over the real link to a real guest."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.machine import ExitStatus, Output, ProcessKind
from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.processes import command, finish, read_until, run, shell, with_stdin
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_a_command_gives_its_output_and_its_exit_code(machine: LinkedMachine) -> None:
    finished = await run(machine, shell("echo out; echo err >&2; exit 3"))
    assert (finished.stdout, finished.stderr, finished.exit) == (b"out\n", b"err\n", ExitStatus(3))


async def test_a_signal_death_is_128_plus_the_signal(machine: LinkedMachine) -> None:
    finished = await run(machine, shell("kill -TERM $$"))
    assert finished.exit == ExitStatus(143, 15)


async def test_a_missing_program_is_a_record_that_ended_with_127(machine: LinkedMachine) -> None:
    spec = command("no-such-program")
    record = await machine.processes.spawn(spec)
    assert record.exit is not None
    assert record.exit.code == 127
    assert record.exit.error == "no-such-program: command not found"
    assert (await run(machine, command("no-such-program"))).stderr == b"no-such-program: command not found\n"


async def test_a_file_that_is_no_program_ends_with_126(machine: LinkedMachine, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo hello\n")
    assert (await run(machine, command(str(plain)))).exit.code == 126


async def test_a_script_without_interpreter_line_is_run_by_the_shell(
    machine: LinkedMachine, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text('echo "hello $1"\n')
    script.chmod(0o755)
    assert (await run(machine, command(str(script), "you"))).stdout == b"hello you\n"


async def test_a_missing_interpreter_is_named_as_the_reason(machine: LinkedMachine, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    finished = await run(machine, command(str(script)))
    assert finished.exit.code == 126
    assert b"interpreter" in finished.stderr


async def test_a_missing_directory_is_an_error_and_no_fallback(machine: LinkedMachine) -> None:
    finished = await run(machine, replace(command("pwd"), cwd="/no/such/directory"))
    assert finished.exit.code == 127
    assert finished.stderr == b"/no/such/directory: no such directory\n"


async def test_a_relative_directory_is_under_the_home(machine: LinkedMachine, home: Path) -> None:
    (home / "project").mkdir()
    finished = await run(machine, replace(command("pwd"), cwd="project"))
    assert finished.stdout.decode().strip() == str(home / "project")


async def test_the_program_is_looked_up_on_the_path_of_the_request(
    machine: LinkedMachine, tmp_path: Path
) -> None:
    tool = tmp_path / "own-tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    spec = replace(command("own-tool"), environment={"PATH": str(tmp_path)})
    assert (await run(machine, spec)).stdout == b"found\n"


@pytest.mark.parametrize("environment", [{"A=B": "x"}, {"": "x"}, {"A": "x\0y"}])
async def test_an_impossible_environment_is_refused(
    machine: LinkedMachine, environment: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput):
        await machine.processes.spawn(replace(command("true"), environment=environment))


async def test_arguments_beyond_the_limit_are_refused(machine: LinkedMachine) -> None:
    with pytest.raises(InvalidInput):
        await machine.processes.spawn(command("echo", "x" * (4 << 20)))


async def test_a_program_that_reads_gets_its_end_at_once(machine: LinkedMachine) -> None:
    finished = await run(machine, command("cat"))
    assert finished.exit == ExitStatus(0)


async def test_asking_twice_starts_once(machine: LinkedMachine, tmp_path: Path) -> None:
    spec = shell(f"echo x >> {tmp_path}/count")
    await asyncio.gather(*(machine.processes.spawn(spec) for _ in range(5)))
    await run(machine, spec)
    assert (tmp_path / "count").read_text() == "x\n"


async def test_input_arrives_complete_and_in_order(machine: LinkedMachine) -> None:
    data = os.urandom(3_000_000)
    spec = with_stdin(command("sha256sum"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await attachment.write(data)
        await attachment.close_input()
        finished = await finish(attachment)
    assert finished.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_input_after_the_end_is_ignored(machine: LinkedMachine) -> None:
    spec = with_stdin(command("true"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await finish(attachment)
        await attachment.write(b"x" * 1_000_000)
        await attachment.close_input()
    assert (await machine.processes.get(spec.id)).exit == ExitStatus(0)


async def test_input_that_nobody_reads_blocks_only_the_writer(machine: LinkedMachine) -> None:
    spec = with_stdin(command("sleep", "60"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        writing = asyncio.create_task(attachment.write(b"x" * 2_000_000))
        assert (await run(machine, shell("echo free"))).stdout == b"free\n"
        assert not writing.done()
        await machine.processes.signal(spec.id, 9)
        await asyncio.wait_for(writing, 60)


async def test_bytes_are_never_altered(machine: LinkedMachine, tmp_path: Path) -> None:
    data = "☕".encode() * 100_000 + bytes(range(256)) * 10 + b"a\r\n\n\n\r\0"
    (tmp_path / "data").write_bytes(data)
    assert (await run(machine, command("cat", str(tmp_path / "data")))).stdout == data


async def test_one_large_piece_arrives_unharmed(machine: LinkedMachine) -> None:
    finished = await run(machine, shell("head -c 1048576 /dev/zero | tr '\\0' x"))
    assert finished.stdout == b"x" * 1048576


async def test_output_beyond_the_scrollback_drops_the_oldest(machine: LinkedMachine) -> None:
    spec = replace(shell("seq 1 200000; echo end >&2"), scrollback_bytes=65536)
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await finish(attachment)
    async with machine.processes.attach(spec.id) as attachment:
        pieces = [item async for item in attachment if isinstance(item, Output)]
    assert pieces[0].offset > 0
    assert b"".join(piece.data for piece in pieces if piece.stream == 1).endswith(b"199999\n200000\n")
    assert b"".join(piece.data for piece in pieces if piece.stream == 2) == b"end\n"


async def test_a_slow_reader_stops_neither_the_process_nor_other_readers(machine: LinkedMachine) -> None:
    spec = with_stdin(shell("read x; head -c 20000000 /dev/zero; echo end"))
    await machine.processes.spawn(spec)
    async with (
        machine.processes.attach(spec.id) as slow,
        machine.processes.attach(spec.id) as quick,
    ):
        await quick.write(b"go\n")
        finished = await asyncio.wait_for(finish(quick), 30)
        assert finished.exit == ExitStatus(0)
        pieces = [item async for item in slow if isinstance(item, Output)]
    assert pieces[0].offset == 0
    assert pieces[-1].data.endswith(b"end\n")
    assert pieces[-1].offset + len(pieces[-1].data) == 20_000_004
    assert sum(len(piece.data) for piece in pieces) < 20_000_004


async def test_a_counted_reader_that_reads_on_loses_nothing(machine: LinkedMachine) -> None:
    """However fast the process is; what is left in the pipe at its end comes, too."""
    spec = with_stdin(shell("read x; head -c 30000000 /dev/zero; echo end >&2"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, counted=True) as attachment:
        await attachment.write(b"go\n")
        read = 0
        async for item in attachment:
            if isinstance(item, Output):
                assert item.offset == read
                read += len(item.data)
                await asyncio.sleep(0.0005)
            else:
                assert item == ExitStatus(0)
    assert read == 30_000_004


async def test_a_session_waits_for_its_first_reader(machine: LinkedMachine) -> None:
    """Nothing is lost between the start and the attach of the one who started it."""
    spec = replace(shell("head -c 5000000 /dev/zero"), kind=ProcessKind.SESSION)
    await machine.processes.spawn(spec)
    await asyncio.sleep(0.3)
    async with machine.processes.attach(spec.id, counted=True) as attachment:
        assert len((await finish(attachment)).stdout) == 5_000_000


async def test_a_session_without_a_reader_goes_on_all_the_same(
    machine: LinkedMachine, tmp_path: Path
) -> None:
    """It waits for nobody when nobody comes."""
    spec = replace(shell(f"head -c 5000000 /dev/zero; touch {tmp_path}/done"), kind=ProcessKind.SESSION)
    await machine.processes.spawn(spec)
    await eventually(lambda: (tmp_path / "done").exists())


async def test_a_counted_reader_that_does_not_read_is_waited_for_only_so_long(machine: LinkedMachine) -> None:
    """The process goes on, and others read what it writes."""
    spec = with_stdin(shell("read x; head -c 5000000 /dev/zero; echo end"))
    await machine.processes.spawn(spec)
    async with (
        machine.processes.attach(spec.id, counted=True) as stuck,
        machine.processes.attach(spec.id) as other,
    ):
        await stuck.write(b"go\n")
        finished = await asyncio.wait_for(finish(other), 30)
        assert finished.exit == ExitStatus(0)


async def test_a_later_reader_gets_the_replay_and_then_what_comes(machine: LinkedMachine) -> None:
    spec = with_stdin(shell("echo before; read x; echo after"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as first:
        await read_until(first, b"before\n")
    async with machine.processes.attach(spec.id) as second:
        assert second.replay_end == len(b"before\n")
        await second.write(b"\n")
        finished = await finish(second)
    assert finished.stdout == b"before\nafter\n"


async def test_reading_can_begin_at_an_offset(machine: LinkedMachine) -> None:
    spec = shell("printf 0123456789")
    await run(machine, spec)
    async with machine.processes.attach(spec.id, offset=4) as attachment:
        assert (await finish(attachment)).stdout == b"456789"


async def test_background_children_do_not_hold_the_end_back(machine: LinkedMachine) -> None:
    begun = time.monotonic()
    finished = await run(machine, shell("sleep 300 & echo ok"))
    assert finished.stdout == b"ok\n"
    assert time.monotonic() - begun < 60


async def test_output_of_a_short_lived_child_is_waited_for(machine: LinkedMachine) -> None:
    finished = await run(machine, shell("(sleep 0.1; echo late) & echo soon"))
    assert finished.stdout == b"soon\nlate\n"


async def test_a_chatty_child_is_listened_to_for_two_seconds_at_most(machine: LinkedMachine) -> None:
    begun = time.monotonic()
    finished = await run(machine, shell("(while :; do echo x; sleep 0.05; done) & echo $!; exit 7"))
    assert finished.exit == ExitStatus(7)
    assert 1.5 < time.monotonic() - begun < 60


async def test_the_exit_code_of_very_short_commands_is_never_lost(machine: LinkedMachine) -> None:
    async def one(code: int) -> bool:
        return (await run(machine, shell(f"exit {code}"))).exit == ExitStatus(code)

    for batch in range(20):
        assert all(await asyncio.gather(*(one((batch * 20 + each) % 256) for each in range(20))))


async def test_unknown_processes_are_not_found(machine: LinkedMachine) -> None:
    processes = machine.processes
    for call in (processes.get("00000000"), processes.signal("00000000", 9), processes.label("00000000", {})):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(NotFound):
        async with processes.attach("00000000"):
            pass


async def test_labels_are_merged_and_listed(machine: LinkedMachine) -> None:
    spec = replace(command("true"), labels={"a": "1", "b": "2"})
    await machine.processes.spawn(spec)
    await machine.processes.label(spec.id, {"b": "3"})
    (record,) = await machine.processes.list()
    assert record.labels == {"a": "1", "b": "3"}


async def test_a_list_of_any_length_comes_whole(machine: LinkedMachine) -> None:
    long = "x" * 60_000
    for _ in range(25):
        await machine.processes.spawn(command("true", long, secrets.token_hex(2)))
    records = await machine.processes.list()
    assert len(records) == 25
    assert len({record.id for record in records}) == 25
