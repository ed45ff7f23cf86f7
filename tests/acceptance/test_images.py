"""Images on real machines: what steps say holds in every process, and what is built starts at once."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from opencomputer import BuildFailedError, Image, Sandbox, Snapshots
from tests.support.box import Box, new_box
from tests.support.host_state import machines_on_host
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.machines, pytest.mark.anyio]

GREET = b'#!/bin/sh\necho "hello $COLOUR"\n'


def image(folder: Path) -> Image:
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / "config" / ".env").write_text("A=1")
    (folder / "tool").write_text("#!/bin/sh\necho tool\n")
    (folder / "tool").chmod(0o755)
    return (
        Image.base()
        .env({"COLOUR": "blue sky", "PATH": "/opt/tools:/usr/local/bin:/usr/bin:/bin"})
        .workdir("/app")
        .add_file("/opt/tools/greet", GREET, mode="755")
        .add_local_dir(folder, "/workspace/from-here")
        .run_commands("greet > greeting", "touch /tmp/left-for-the-next", "sudo touch /opt/by-root")
        .run_commands("test -e /tmp/left-for-the-next", "cat greeting")
    )


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return image(tmp_path_factory.mktemp("local"))


async def create(server: ServerProcess, **options: Any) -> Sandbox:
    return await Sandbox.create(api_url=server.url, api_key=server.api_key, **options)


@pytest.fixture(scope="module")
async def built(server: ServerProcess, recipe: Image, anyio_backend: str) -> AsyncGenerator[Sandbox]:
    """A sandbox of an image that had to be built."""
    lines: list[str] = []
    async with await create(server, image=recipe, on_build_log=lines.append) as sandbox:
        assert "hello blue sky" in lines
        yield sandbox
    assert machines_of(server) <= pool_of(server)


def machines_of(server: ServerProcess) -> int:
    return max(map(len, machines_on_host(server.node_tag, server.data).values()))


def pool_of(server: ServerProcess) -> int:
    return 4 + len(server.client().get("/sandboxes").json())


async def test_steps_made_what_they_say(built: Sandbox) -> None:
    look = "cat greeting; stat -c '%a %U' /opt/tools/greet /opt/by-root; ls -A ~/from-here ~/from-here/config"
    done = await built.exec.run(look)
    assert done.stdout.split("\n") == [
        "hello blue sky",
        "755 root",
        "644 root",
        "/home/sandbox/from-here:",
        "config",
        "tool",
        "",
        "/home/sandbox/from-here/config:",
        ".env",
        "",
    ]
    assert (await built.exec.run("~/from-here/tool; ls -A /tmp; ls /var/lib/opencomputer")).stdout == "tool\n"


async def test_variables_and_directory_are_everywhere(built: Sandbox) -> None:
    """Commands, sessions, shells, terminals; also for programs that read files."""
    assert (await built.exec.run("pwd; greet; stat -c %U .")).stdout == "/app\nhello blue sky\nsandbox\n"
    async with await built.exec.shell() as shell:
        assert (await shell.run("pwd; greet")).stdout == "/app\nhello blue sky\n"
    terminal = await built.pty.create()
    await terminal.send("pwd; greet; echo e''nd\n")
    seen = b""
    while b"\nend" not in seen.replace(b"\r", b""):
        seen += await terminal.recv()
    assert b"/app" in seen
    assert b"hello blue sky" in seen
    await terminal.close()
    files = await built.exec.run("grep COLOUR /etc/environment; env -i bash -lc 'echo $COLOUR'")
    assert files.stdout == "COLOUR=blue sky\nblue sky\n"


async def test_the_second_sandbox_is_there_at_once(
    server: ServerProcess, recipe: Image, built: Sandbox
) -> None:
    lines: list[str] = []
    begun = time.monotonic()
    async with await create(
        server, image=recipe, envs={"COLOUR": "red"}, on_build_log=lines.append
    ) as second:
        took = time.monotonic() - begun
        assert (await second.exec.run("greet; bash -lc greet; cat greeting")).stdout == (
            "hello red\nhello red\nhello blue sky\n"
        )
        names = [(await each.exec.run("hostname; cat /etc/machine-id")).stdout for each in (built, second)]
        assert names[0] != names[1]
        assert (await second.exec.run("free -m | awk '/Mem/ {print $2}'")).stdout == "1024\n"
    assert lines == ["The image is built already", "Creating the sandbox"]
    assert took < 2


async def test_a_larger_one_sees_all_its_memory(server: ServerProcess, recipe: Image, built: Sandbox) -> None:
    async with await create(server, image=recipe, memory_mb=8192) as large:
        seen = await large.exec.run("free -m | awk '/Mem/ {print $2}'; greet")
        assert seen.stdout == "8192\nhello blue sky\n"


async def test_only_later_steps_run_again(server: ServerProcess, recipe: Image, built: Sandbox) -> None:
    """Also those that use what earlier ones left in /tmp, which is kept in memory."""
    lines: list[str] = []
    more = recipe.run_commands("cat /tmp/left-for-the-next && echo more")
    async with await create(server, image=more, on_build_log=lines.append):
        assert "more" in lines
        assert [line for line in lines if line.endswith("cached")] == [
            f"Step {number}/7 ({kind}): cached"
            for number, kind in enumerate(("env", "workdir", "add_file", "add_dir", "run", "run"), 1)
        ]


async def test_a_failing_step_is_named_and_leaves_no_machine(server: ServerProcess, recipe: Image) -> None:
    before = machines_of(server)
    with pytest.raises(
        BuildFailedError, match=r"step 7 \(run\) failed \(exit 2\): ls: cannot access '/nope'"
    ):
        await create(server, image=recipe.run_commands("echo so far", "ls /nope", "echo never"))
    assert machines_of(server) <= before + 4


async def test_a_named_snapshot_is_started_from_after_a_restart(server: ServerProcess, recipe: Image) -> None:
    async with Snapshots(api_url=server.url, api_key=server.api_key) as snapshots:
        made = await snapshots.create("tools", recipe)
        assert made["status"] == "ready"
        server.kill()
        server.start()
    async with Snapshots(api_url=server.url, api_key=server.api_key) as snapshots:
        async with await create(server, snapshot="tools") as sandbox:
            assert (await sandbox.exec.run("greet")).stdout == "hello blue sky\n"
        assert (await snapshots.get("tools"))["lastUsedAt"]
        await snapshots.delete("tools")
        assert await snapshots.list() == []


async def test_a_server_killed_in_a_build_can_build_it_afterwards(
    server: ServerProcess, tmp_path: Path
) -> None:
    """What was half-built is gone; what was asked for in the background is built by the next life."""
    slow = Image.base().run_commands("echo one > ~/one").run_commands("sleep 3; cat ~/one")
    body = {"name": "half", "image": slow.to_dict()}
    with server.client() as client:
        assert client.post("/snapshots?async=1", json=body).status_code == 202
        deadline = time.monotonic() + 30
        while machines_of(server) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)  # noqa: ASYNC251 - nothing else goes on here
        time.sleep(1)  # noqa: ASYNC251 - somewhere in the middle
    server.kill()
    server.start()
    async with Snapshots(api_url=server.url, api_key=server.api_key) as snapshots:
        ready = await snapshots.wait_until_ready("half", timeout=60, poll_interval=0.2)
        assert ready["status"] == "ready"
        await snapshots.delete("half")
    assert list((server.data / "artefacts" / "drafts").glob("*")) == []


@pytest.fixture(scope="module")
def online(server: ServerProcess) -> Generator[Box]:
    """A sandbox that reaches a package mirror, or a skipped test."""
    with new_box(server) as box:
        if box.run("sudo apt-get -q update && python3 -m pip download -q --no-deps -d /tmp six", timeout=120)[
            "exitCode"
        ]:
            pytest.skip("machines reach no package mirror from this host")
        yield box


@pytest.mark.timeout(300)
async def test_packages_are_installed(server: ServerProcess, online: Box) -> None:
    """With one that brings systemd along, which must not get in the way of starting."""
    recipe = Image.base().apt_install(["systemd-sysv", "cowsay"]).pip_install(["six"])
    async with await create(server, image=recipe) as sandbox:
        looked = await sandbox.exec.run(
            "ls /sbin/init /usr/games/cowsay; ls /usr/sbin/policy-rc.d; python3 -c 'import six'; echo $?"
        )
        assert looked.stdout == "/sbin/init\n/usr/games/cowsay\n0\n"
        assert "guest" in (await sandbox.exec.run("cat /proc/1/cmdline | tr '\\0' ' '")).stdout
        await sandbox.reboot()
        assert (await sandbox.exec.run("python3 -c 'import six; print(1)'")).stdout == "1\n"


async def test_a_package_that_does_not_exist_is_named(server: ServerProcess, online: Box) -> None:
    with pytest.raises(
        BuildFailedError, match=r"step 1 \(apt_install\) failed \(exit 100\)[^$]*no-such-package-x"
    ):
        await create(server, image=Image.base().apt_install(["no-such-package-x"]))
