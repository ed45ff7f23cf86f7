"""What steps turn into: commands in which every value is one word, and files."""

from __future__ import annotations

import base64
import shlex
import subprocess
from typing import Any

import pytest

from opencomputer.server.contracts.driver import MachineId, MachineSpec
from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.domain.image import parse_manifest
from opencomputer.server.services.sandboxes.image_steps import (
    StepFailed,
    joined,
    profile_script,
    run_step,
)
from tests.support.memory.machines import MemoryHost, MemoryMachine
from tests.unit.server.services.harness import BASE, LIMITS

pytestmark = pytest.mark.anyio

NASTY = "$(touch /tmp/pwned) `id` '; rm -rf ~; \" \\ & | > é"


def machine() -> MemoryMachine:
    spec = MachineSpec(MachineId("m000000000000001"), BASE.layers, LIMITS, "t")
    return MemoryMachine(MemoryHost(), spec, "t")


async def carry_out(target: MemoryMachine, kind: str, **args: Any) -> list[str]:
    definition = parse_manifest({"steps": [{"type": kind, "args": args}]})
    said: list[str] = []
    await run_step(target, definition.steps[0], definition.facts(), said.append)
    return said


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)


def is_valid(script: str) -> bool:
    return subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0


async def test_packages_are_words_and_nothing_else() -> None:
    for kind in ("apt_install", "pip_install"):
        target = machine()
        await carry_out(target, kind, packages=["curl", NASTY])
        script = next(iter(target.processes.by_id.values())).spec.argv[-1]
        line = next(line for line in script.splitlines() if " install " in line)
        assert shlex.split(line)[-3:] == ["--", "curl", NASTY]
        assert is_valid(script)


async def test_apt_runs_as_root_without_asking_or_starting_services() -> None:
    target = machine()
    await carry_out(target, "apt_install", packages=["nginx"])
    (process,) = target.processes.by_id.values()
    script = process.spec.argv[-1]
    assert (process.spec.user, process.spec.timeout_seconds) == ("root", 300)
    assert "DEBIAN_FRONTEND=noninteractive" in script
    assert script.index("policy-rc.d") < script.index("update") < script.index("install --")
    assert script.count("apt-get -q update") == 1


async def test_a_directory_of_any_name_is_made_by_its_name() -> None:
    target = machine()
    await carry_out(target, "workdir", path=f"/{NASTY}")
    script = next(iter(target.processes.by_id.values())).spec.argv[-1]
    assert shlex.quote(f"/{NASTY}") in script
    assert is_valid(script)


def test_commands_share_one_shell_and_the_first_failure_ends_it() -> None:
    done = shell(joined(["cd /; A=1", "echo $A $PWD", "false; true", "(exit 9)", "echo never"]))
    assert (done.stdout, done.returncode) == ("1 /\n", 9)


def test_no_command_swallows_the_next() -> None:
    done = shell(joined(["echo a # b", "cat <<END\n$((1+1)) 'x\nEND", "echo c &", "wait", "echo d"]))
    assert done.stdout == "a\n2 'x\nc\nd\n"
    broken = shell(joined(["echo 'open", "echo never"]))
    assert broken.returncode != 0
    assert "never" not in broken.stdout


def test_a_command_may_set_its_own_rules() -> None:
    assert shell(joined(["set -e; false; echo never", "echo never"])).returncode == 1
    assert shell(joined(["set -eu", "echo $nothing", "echo never"])).stdout == ""


async def test_variables_are_written_for_programs_that_read_files() -> None:
    target = machine()
    target.files.content["/etc/environment"] = b"LANG=C\nA=0\n"
    await carry_out(target, "env", vars={"A": NASTY, "B": "two\nlines"})
    assert target.files.content["/etc/environment"] == f"LANG=C\nA={NASTY}\n".encode()
    script = target.files.content["/etc/profile.d/zz-opencomputer-image.sh"].decode()
    assert shell(f'{script}\nprintf \'%s|%s\' "$A" "$B"').stdout == f"{NASTY}|two\nlines"


def test_what_the_maker_of_a_sandbox_set_stays_in_login_shells() -> None:
    script = profile_script({"A": "image", "PATH": "/opt/bin:/usr/bin:/bin"})
    assert shell(f'export A=mine\n{script}\necho "$A $PATH"').stdout == "mine /opt/bin:/usr/bin:/bin\n"
    assert shell(f'{script}\necho "$A"').stdout == "image\n"


async def test_files_come_with_their_modes() -> None:
    target = machine()
    await carry_out(target, "add_file", path="/usr/bin/x", content="AP8=", mode="0755")
    assert target.files.content == {"/usr/bin/x": b"\0\xff"}
    (process,) = target.processes.by_id.values()
    assert (process.spec.argv, process.spec.user) == (("chmod", "755", "--", "/usr/bin/x"), "root")


async def test_a_directory_comes_with_all_that_is_in_it() -> None:
    target = machine()
    files = [{"relativePath": ".env", "content": ""}, {"relativePath": "a/b", "content": "aGk="}]
    await carry_out(target, "add_dir", path="/srv/", files=files)
    assert target.files.content == {"/srv/.env": b"", "/srv/a/b": b"hi"}
    assert target.files.directories == {"/srv"}
    assert target.processes.by_id == {}


async def test_large_files_travel_in_pieces() -> None:
    target = machine()
    content = bytes(range(256)) * 5000
    await carry_out(target, "add_file", path="/a", content=base64.b64encode(content).decode())
    assert target.files.content["/a"] == content


async def test_output_is_told_by_lines_whatever_its_pieces() -> None:
    target = machine()

    def program(process: Any) -> None:
        for piece in (b"caf\xc3", b"\xa9\r\n\n10%\r20%\r", b"\xff", b"end"):
            process.output(1, piece)
        process.end()

    target.processes.program = program
    assert await carry_out(target, "run", commands=["x"]) == ["café", "10%", "20%", "\ufffdend"]


async def test_endless_output_is_left_out_after_a_while() -> None:
    target = machine()

    def program(process: Any) -> None:
        process.output(1, b"y\n" * 20_000)
        process.output(2, b"wrong\n")
        process.end(ExitStatus(1))

    target.processes.program = program
    said: list[str] = []
    step = parse_manifest({"steps": [{"type": "run", "args": {"commands": ["yes"]}}]}).steps[0]
    with pytest.raises(StepFailed) as caught:
        await run_step(target, step, parse_manifest({}).facts(), said.append)
    assert (caught.value.reason, caught.value.tail) == ("exit 1", "wrong")
    assert len(said) == 5001
    assert said[4999] == "further output of this step is left out"
