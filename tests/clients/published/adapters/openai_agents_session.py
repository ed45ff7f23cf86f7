"""Sessions of the OpenAI Agents SDK in our sandboxes. Run by pytest in the adapters' environment."""

import io
import os
import tarfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from agents.sandbox import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    LocalSnapshotSpec,
    Manifest,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.entries import Dir, File
from agents.sandbox.errors import InvalidManifestPathError

import opencomputer
from opencomputer.integrations.openai_agents import (
    OpenComputerSandboxClient,
    OpenComputerSandboxClientOptions,
    OpenComputerSandboxSession,
)

MANIFEST = Manifest(
    entries={"notes.txt": File(content=b"one\n"), "src": Dir(children={"a.py": File(content=b"print(1)\n")})},
    environment={"value": {"COLOUR": "green"}},
)
TWO_PORTS = OpenComputerSandboxClientOptions(exposed_ports=(8000,), port_grant_seconds=60)
PATIENCE = 60
"""Seconds after which what a program does on a busy machine counts as not done."""


@pytest.fixture(scope="module")
def client():
    return OpenComputerSandboxClient()


@pytest.fixture(scope="module")
async def session(client):
    session = await client.create(manifest=MANIFEST, options=TWO_PORTS)
    async with session:
        yield session
    await client.delete(session)


def sandbox_of(session):
    inner = session._inner
    assert isinstance(inner, OpenComputerSandboxSession)
    return inner.sandbox


async def test_the_manifest_is_there_and_commands_begin_in_the_workspace(session):
    ran = await session.exec("pwd; cat notes.txt src/a.py; echo $COLOUR; id -un; ls -ld /workspace/")
    lines = ran.stdout.decode().splitlines()
    assert lines[:5] == ["/workspace", "one", "print(1)", "green", "sandbox"]
    assert ran.exit_code == 0


async def test_a_command_that_fails_is_no_error_and_its_outputs_are_apart(session):
    ran = await session.exec("echo out; echo err >&2; exit 7")
    assert (ran.stdout, ran.stderr, ran.exit_code) == (b"out\n", b"err\n", 7)


async def test_a_command_that_reads_finds_no_input(session):
    assert (await session.exec("wc", "-c", shell=False, timeout=10)).stdout.strip() == b"0"


async def test_a_late_command_is_killed(session):
    with pytest.raises(ExecTimeoutError):
        await session.exec("echo $$ > /tmp/late; sleep 60; :", timeout=3)
    assert (await session.exec("kill -0 $(cat /tmp/late)")).exit_code != 0


async def test_a_command_can_run_as_somebody_else(session):
    assert (await session.exec("id -un", user="root")).stdout == b"root\n"


async def test_files_are_written_and_read_back(session):
    content = bytes(range(256)) * 512
    await session.write(Path("deep/er/data.bin"), io.BytesIO(content))
    assert (await session.read(Path("deep/er/data.bin"))).read() == content
    assert await session.read_bounded(Path("deep/er/data.bin"), max_bytes=1000) == content[:1000]
    assert (await session.exec("stat -c %U deep/er/data.bin")).stdout == b"sandbox\n"


async def test_what_cannot_be_read_says_why(session):
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("missing"))
    with pytest.raises(WorkspaceArchiveReadError):
        await session.read(Path("src"))
    await session.exec("install -m 600 /dev/null secret", user="root")
    with pytest.raises(WorkspaceArchiveReadError):
        await session.read(Path("secret"))
    assert (await session.read(Path("secret"), user="root")).read() == b""


async def test_what_may_not_be_written_is_not(session):
    await session.exec("install -m 644 /dev/null readonly", user="root")
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.write(Path("readonly"), io.BytesIO(b"x"))
    assert (await session.exec("cat readonly")).stdout == b""


async def test_paths_do_not_lead_out_of_the_workspace(session):
    await session.exec("ln -s /etc outside")
    for path in ("outside/passwd", "../../etc/passwd", "/etc/passwd"):
        with pytest.raises(InvalidManifestPathError):
            await session.read(Path(path))


async def test_folders_are_made_listed_moved_and_removed(session):
    await session.mkdir(Path("folder/inner"), parents=True)
    await session.write(Path("folder/a"), io.BytesIO(b"a"))
    await session.mv(Path("folder/a"), Path("folder/b"))
    names = sorted(Path(entry.path).name for entry in await session.ls(Path("folder")))
    assert names == ["b", "inner"]
    assert not await session.same_file(Path("folder/b"), Path("notes.txt"))
    await session.rm(Path("folder"), recursive=True)
    assert (await session.exec("test -e folder")).exit_code == 1


async def test_an_archive_is_extracted(session):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("inside.txt")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"tar"))
    packed.seek(0)
    await session.extract(Path("unpacked/box.tar"), packed)
    assert (await session.read(Path("unpacked/inside.txt"))).read() == b"tar"


async def said(session, update, wanted):
    """Wait until a program has written `wanted`, in this update or in later ones."""
    output, deadline = update.output, time.monotonic() + PATIENCE
    while wanted not in output:
        assert time.monotonic() < deadline, output
        later = await session.pty_write_stdin(session_id=update.process_id, chars="", yield_time_s=0.25)
        output += later.output


async def test_a_program_in_a_terminal_is_typed_into_and_interrupted(session):
    started = await session.pty_exec_start(
        "test -t 0 && echo terminal; read line; echo got $line; sleep 600", tty=True, yield_time_s=0.5
    )
    assert started.process_id is not None
    await said(session, started, b"terminal")
    typed = await session.pty_write_stdin(session_id=started.process_id, chars="hello\n", yield_time_s=0.5)
    assert typed.process_id == started.process_id
    await said(session, typed, b"got hello")
    ended = await session.pty_write_stdin(session_id=started.process_id, chars="\x03", yield_time_s=PATIENCE)
    assert (ended.process_id, ended.exit_code) == (None, 130)


async def test_a_program_without_a_terminal_goes_on_by_itself(session):
    program = "until test -e go; do sleep 0.1; done; rm go; echo done; exit 3"
    started = await session.pty_exec_start(program, yield_time_s=0.25)
    assert (started.process_id is not None, started.output) == (True, b"")
    with pytest.raises(RuntimeError, match="stdin is not available for this process"):
        await session.pty_write_stdin(session_id=started.process_id, chars="x")
    await session.exec("touch go")
    later = await session.pty_write_stdin(session_id=started.process_id, chars="", yield_time_s=PATIENCE)
    assert (later.output, later.exit_code, later.process_id) == (b"done\n", 3, None)


async def test_an_exposed_port_is_reached_with_its_grant_and_not_without(session):
    await session.pty_exec_start("python3 -m http.server 8000", yield_time_s=0.25)
    answered = "until curl -sf http://127.0.0.1:8000/ > /dev/null; do sleep 0.1; done"
    await session.exec(answered, timeout=PATIENCE)
    endpoint = await session.resolve_exposed_port(8000)
    url = urlsplit(endpoint.url_for("http"))
    node = os.environ["OPENCOMPUTER_API_URL"]
    async with httpx.AsyncClient(base_url=node, headers={"Host": url.netloc}) as browser:
        assert (await browser.get("/notes.txt")).status_code == 401
        welcomed = await browser.get(f"{url.path}?{url.query}")
        assert welcomed.is_redirect
        cookie = welcomed.headers["set-cookie"].split(";")[0]
        assert (await browser.get("/notes.txt", headers={"Cookie": cookie})).text == "one\n"
    with pytest.raises(ExposedPortUnavailableError):
        await session.resolve_exposed_port(9000)


async def test_a_snapshot_brings_the_files_to_a_new_sandbox(client, tmp_path):
    session = await client.create(manifest=MANIFEST, snapshot=LocalSnapshotSpec(base_path=tmp_path))
    async with session:
        await session.exec("echo two >> notes.txt; ln -s notes.txt link; chmod 755 src/a.py")
    first = sandbox_of(session).sandbox_id
    assert await status_of(first) == "stopped"

    state = client.deserialize_session_state(client.serialize_session_state(session.state))
    resumed = await client.resume(state)
    async with resumed:
        assert sandbox_of(resumed).sandbox_id != first
        ran = await resumed.exec("cat notes.txt; readlink link; stat -c '%a %U' src/a.py")
        assert ran.stdout.decode().split() == ["one", "two", "notes.txt", "755", "sandbox"]


async def test_a_session_sleeps_and_goes_on_where_it_was(client):
    session = await client.create(options=OpenComputerSandboxClientOptions(hibernate_on_exit=True))
    async with session:
        await session.exec("echo 1 > state; nohup sleep 1000 > /dev/null 2>&1 & echo $! > pid")
    sleeper = sandbox_of(session).sandbox_id
    assert await status_of(sleeper) == "hibernated"

    resumed = await client.resume(
        client.deserialize_session_state(client.serialize_session_state(session.state))
    )
    await resumed.start()
    assert sandbox_of(resumed).sandbox_id == sleeper
    assert (await resumed.exec("cat state; kill -0 $(cat pid) && echo alive")).stdout == b"1\nalive\n"
    await resumed.aclose()
    assert await status_of(sleeper) == "hibernated"
    await client.delete(resumed)
    assert await status_of(sleeper) == "stopped"
    assert not await resumed.running()
    with pytest.raises(ExecTransportError):
        await resumed.exec("true")


async def status_of(sandbox_id):
    sandbox = await opencomputer.Sandbox.connect(sandbox_id)
    await sandbox.close()
    return sandbox.status
