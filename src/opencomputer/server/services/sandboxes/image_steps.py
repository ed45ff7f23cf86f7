"""One step of an image build, carried out in a machine."""

from __future__ import annotations

import asyncio
import codecs
import itertools
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from opencomputer.server.contracts.machine import (
    ExitStatus,
    Files,
    Machine,
    Output,
    ProcessKind,
    ProcessSpec,
)
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import FileMissing, OpenComputerError
from opencomputer.server.domain.image import (
    AddDirectory,
    AddFile,
    AptInstall,
    Env,
    ImageFacts,
    ImageFile,
    PipInstall,
    Run,
    Step,
    Workdir,
)

STEP_SECONDS = 300
_TAIL_CHARACTERS = 500
_MAX_LINES = 5000
_LONGEST_LINE = 4000
_PATHS_AT_ONCE = 200
_PIECE_BYTES = 256 << 10

Say = Callable[[str], None]

# Packages must not start their services: nobody would stop them before the files are saved. A policy that the
# template brings stays.
_APT = """set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\\nexit 101\\n' > $policy
    chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold install -- {packages}
apt-get clean
"""

# Where the template gives /usr/local to the user, what is installed there should be the user's, too.
_PIP = """run() {{ if [ -w /usr/local/lib ]; then "$@"; else sudo -n -E "$@"; fi; }}
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
run python3 -m pip install --no-input --no-cache-dir --progress-bar off -- {packages}
"""

# bash where there is one: it is what people try their commands in.
_SHELL = (
    "/bin/sh",
    "-c",
    'test -x /bin/bash && exec /bin/bash -c "$1"; exec /bin/sh -c "$1"',
    "sh",
)

_WORKDIR = """set -e
if [ ! -d {path} ]; then
    mkdir -p {path}
    chown sandbox:sandbox {path}
fi
"""

_ENVIRONMENT_FILE = "/etc/environment"
# Behind the template's own script, which settles PATH for login shells.
_PROFILE_FILE = "/etc/profile.d/zz-opencomputer-image.sh"

# /tmp is kept in memory, which files that are saved do not include; yet a later step may need what an earlier
# one left there. Only where it is so: /.oc is in our machines and nowhere else.
_SCRATCH = "/var/lib/opencomputer/build"
_KEEP_SCRATCH = f"""[ -d /.oc ] || exit 0
rm -rf {_SCRATCH}
for name in tmp var/tmp; do
    [ -n "$(ls -A /$name)" ] || continue
    mkdir -p {_SCRATCH}/$name && cp -a /$name/. {_SCRATCH}/$name/
done
"""
_RESTORE_SCRATCH = f"""[ -d /.oc ] || exit 0
for name in tmp var/tmp; do
    [ ! -d {_SCRATCH}/$name ] || cp -a {_SCRATCH}/$name/. /$name/
done
"""
_CLEAR_SCRATCH = f"[ ! -d {_SCRATCH} ] || rm -rf {_SCRATCH}"


class StepFailed(Exception):
    """A step did not work. `reason` says how it ended, `tail` what it said last."""

    def __init__(self, reason: str, tail: str = "") -> None:
        self.reason = reason
        self.tail = tail
        super().__init__(reason)


@dataclass(frozen=True)
class Program:
    """A program of the build. `environment` and `cwd` as in `ProcessSpec`."""

    argv: tuple[str, ...]
    user: Literal["sandbox", "root"] = "root"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None


async def run_step(machine: Machine, step: Step, facts: ImageFacts, say: Say) -> None:
    """Carry out one step. `facts` include what the step itself says. Raises StepFailed."""
    try:
        async with asyncio.timeout(STEP_SECONDS + 10):
            await _carry_out(machine, step, facts, say)
    except TimeoutError:
        raise StepFailed(f"timed out after {STEP_SECONDS} s") from None
    except OpenComputerError as error:
        raise StepFailed(error.message) from error


async def _carry_out(machine: Machine, step: Step, facts: ImageFacts, say: Say) -> None:
    match step:
        case AptInstall(packages):
            # Not in the image's directory, which the step that makes it may come after.
            script = _APT.format(packages=shlex.join(packages))
            await run_program(
                machine, Program(("/bin/sh", "-c", script), "root", facts.environment, "/"), say
            )
        case PipInstall(packages):
            script = _PIP.format(packages=shlex.join(packages))
            await run_program(
                machine, Program(("/bin/sh", "-c", script), "sandbox", facts.environment, "/"), say
            )
        case Run(commands):
            argv = (*_SHELL, joined(commands))
            await run_program(machine, Program(argv, "sandbox", facts.environment, facts.workdir), say)
        case Env():
            await _write_environment(machine.files, facts.environment)
        case Workdir(path):
            script = _WORKDIR.format(path=shlex.quote(path))
            await run_program(machine, Program(("/bin/sh", "-c", script)), say)
        case AddFile(file):
            await _add_files(machine, [file], say)
        case AddDirectory(path, files):
            await machine.files.make_directory(path)
            below = [ImageFile(f"{path.rstrip('/')}/{each.path}", each.content, each.mode) for each in files]
            await _add_files(machine, below, say)


def joined(commands: Sequence[str]) -> str:
    """Commands for one shell, of which the first to fail ends it.

    Each is evaluated by itself: neither an open quotation nor a comment at its end swallows the next one, and
    `set -e` within one works, which it would not in a list of `&&`.
    """
    lines: list[str] = []
    for command in commands:
        lines += [f"eval {shlex.quote(command)}", "oc_code=$?; [ $oc_code -eq 0 ] || exit $oc_code"]
    return "\n".join(lines)


async def keep_scratch(machine: Machine) -> None:
    """Put files that are kept in memory where they are saved, for the next machine of this build."""
    await run_program(machine, Program(("/bin/sh", "-c", _KEEP_SCRATCH)), _nothing)


async def restore_scratch(machine: Machine) -> None:
    """Undo `keep_scratch` in the next machine."""
    await run_program(machine, Program(("/bin/sh", "-c", _RESTORE_SCRATCH)), _nothing)


async def clear_scratch(machine: Machine) -> None:
    """Leave nothing of it in the image."""
    await run_program(machine, Program(("/bin/sh", "-c", _CLEAR_SCRATCH)), _nothing)


async def run_program(machine: Machine, program: Program, say: Say) -> None:
    """Run it to its end, saying each line it prints. Raises StepFailed unless it succeeds."""
    spec = ProcessSpec(
        id=naming.new_process_id(),
        kind=ProcessKind.RUN,
        argv=program.argv,
        environment=program.environment,
        cwd=program.cwd,
        user=program.user,
        timeout_seconds=STEP_SECONDS,
    )
    record = await machine.processes.spawn(spec)
    streams = {1: _Lines(say, _MAX_LINES), 2: _Lines(say, _MAX_LINES)}
    status = ExitStatus(None)
    async with machine.processes.attach(record.id) as attachment:
        async for event in attachment:
            if isinstance(event, Output):
                streams[event.stream].feed(event.data)
            else:
                status = event
    for stream in streams.values():
        stream.end()
    if status.code != 0:
        # Programs that say on standard output what is wrong are no rarity.
        raise StepFailed(_ending(status), streams[2].tail or streams[1].tail)


def _ending(status: ExitStatus) -> str:
    if status.error is not None:
        return status.error
    if status.reason == "timeout":
        return f"timed out after {STEP_SECONDS} s"
    return "exit unknown" if status.code is None else f"exit {status.code}"


class _Lines:
    """Lines of one stream, whatever pieces they come in."""

    def __init__(self, say: Say, limit: int) -> None:
        self._say = say
        self._left = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self.tail = ""

    def feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self.tail = (self.tail + text)[-_TAIL_CHARACTERS:]
        *complete, rest = (self._line + text).replace("\r", "\n").split("\n")
        for line in complete:
            self._emit(line)
        self._line = rest[:_LONGEST_LINE]

    def end(self) -> None:
        self._emit(self._line + self._decoder.decode(b"", True))
        self.tail = self.tail.strip()

    def _emit(self, line: str) -> None:
        if not line.strip() or self._left == 0:
            return
        self._left -= 1
        self._say(line if self._left else "further output of this step is left out")


async def _write_environment(files: Files, variables: Mapping[str, str]) -> None:
    """For programs that read these files. What we start has the variables anyway."""
    # A line is all that such a file has for a value.
    mine = [f"{name}={value}" for name, value in variables.items() if "\n" not in value]
    others = [
        line
        for line in (await _text(files, _ENVIRONMENT_FILE)).splitlines()
        if line.partition("=")[0].strip() not in variables
    ]
    await _write(
        files,
        _ENVIRONMENT_FILE,
        "".join(f"{line}\n" for line in (*others, *mine)).encode(errors="surrogateescape"),
    )
    await _write(files, _PROFILE_FILE, profile_script(variables).encode())


def profile_script(variables: Mapping[str, str]) -> str:
    """For login shells: a variable that is set already was set by who made the sandbox. PATH always is."""
    lines = ["# Variables of the image this machine was made from."]
    for name, value in variables.items():
        guard = "" if name == "PATH" else f'[ -n "${{{name}+set}}" ] || '
        lines.append(f"{guard}export {name}={shlex.quote(value)}")
    return "\n".join(lines) + "\n"


async def _add_files(machine: Machine, wanted: Sequence[ImageFile], say: Say) -> None:
    by_mode: dict[int, list[str]] = {}
    for file in wanted:
        await _write(machine.files, file.path, file.content)
        if file.mode is not None:
            by_mode.setdefault(file.mode, []).append(file.path)
    for mode, paths in by_mode.items():
        for some in _batches(paths):
            await run_program(machine, Program(("chmod", f"{mode:o}", "--", *some)), say)


def _batches(paths: Sequence[str]) -> Sequence[Sequence[str]]:
    return [paths[start : start + _PATHS_AT_ONCE] for start in range(0, len(paths), _PATHS_AT_ONCE)]


async def _write(files: Files, path: str, content: bytes) -> None:
    await files.write(path, _pieces(content), size_hint=len(content))


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in itertools.count(0, _PIECE_BYTES):
        piece = content[start : start + _PIECE_BYTES]
        if not piece:
            return
        yield piece


async def _text(files: Files, path: str) -> str:
    try:
        async with files.read(path) as file:
            content = b"".join([chunk async for chunk in file.chunks])
    except FileMissing:
        return ""
    return content.decode(errors="surrogateescape")


def _nothing(_line: str) -> None:
    return
