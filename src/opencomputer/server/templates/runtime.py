"""The runtime bundle: the folder that is mounted read-only at `/.oc` in every machine.

    /.oc/argv.json                   how to start the interpreter: a list to which a program is appended
    /.oc/bin/python3                 the same as a command
    /.oc/usr, /.oc/lib/system        the interpreter, its standard library and all shared libraries
    /.oc/lib/opencomputer_inside     our programs: the packages of `opencomputer.inside`

It depends on nothing in the machine, so whatever a user removes or breaks there, the guest still runs.
The interpreter is compiled once; the programs change often, so a bundle is hard links plus a small copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import opencomputer.inside
from opencomputer.server.host.locks import exclusive
from opencomputer.server.templates.interpreter import (
    MOUNT_POINT,
    Interpreter,
    compile_tree,
    copy_interpreter,
    find_interpreter,
)
from opencomputer.server.templates.recipe import digest_of_tree

PROGRAMS = "lib/opencomputer_inside"


def ensure_runtime(templates_dir: Path, programs: Path | None = None) -> Path:
    """Return the bundle for this host's interpreter and the present programs; build it if it is not there.

    A bundle never changes once it is returned: changed programs give another folder. Raises BuildFailed.
    """
    programs = programs or Path(opencomputer.inside.__path__[0])
    interpreter = find_interpreter()
    home = templates_dir / ".runtime"
    base = home / f"interpreter-{interpreter.digest}"
    bundle = home / _bundle_name(interpreter, programs)
    if bundle.is_dir():
        return bundle
    home.mkdir(parents=True, exist_ok=True)
    with exclusive(home / ".lock"):
        _make(base, lambda folder: copy_interpreter(interpreter, folder))
        _make(bundle, lambda folder: _assemble(folder, base, interpreter, programs))
    return bundle


def interpreter_arguments(runtime: Path) -> list[str]:
    """What `argv.json` says: the start of every command line that runs on the runtime's interpreter."""
    return [str(argument) for argument in json.loads((runtime / "argv.json").read_text())]


def _bundle_name(interpreter: Interpreter, programs: Path) -> str:
    key = f"{interpreter.digest} {digest_of_tree(programs)} {_wrapper(interpreter)}"
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _assemble(folder: Path, base: Path, interpreter: Interpreter, programs: Path) -> None:
    shutil.copytree(base, folder, copy_function=os.link, symlinks=True, dirs_exist_ok=True)
    target = folder / PROGRAMS
    shutil.copytree(programs, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    compile_tree(interpreter, target, f"{MOUNT_POINT}/{PROGRAMS}")
    (folder / "argv.json").write_text(json.dumps([*interpreter.arguments, "-I", "-S"]) + "\n")
    command = folder / "bin/python3"
    command.parent.mkdir()
    command.write_text(_wrapper(interpreter))
    command.chmod(0o755)


def _wrapper(interpreter: Interpreter) -> str:
    return (
        "#!/bin/sh\n"
        "# Libraries that the caller preloads belong to another C library than ours.\n"
        "unset LD_PRELOAD LD_LIBRARY_PATH\n"
        f'exec {" ".join(interpreter.arguments)} "$@"\n'
    )


def _make(target: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder so that it is either not there or complete."""
    if target.is_dir():
        return
    half = target.with_name(f".building-{target.name}")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        fill(half)
        _let_everyone_read(half)
        half.rename(target)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _let_everyone_read(folder: Path) -> None:
    """Users of machines run what is in a bundle, whatever the umask of whoever made it."""
    for parent, _, names in os.walk(folder):
        os.chmod(parent, 0o755)
        for name in names:
            path = Path(parent, name)
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
