"""The interpreter of the runtime: the distribution's Python, trimmed, with every library it needs.

It is taken from the distribution and never from a version manager: those are built for one machine, while
these files run on any processor of the architecture and their licences and updates are the distribution's.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.templates.commands import BuildFailed

MOUNT_POINT = "/.oc"
_SYSTEM_PYTHON = Path("/usr/bin/python3")
_OLDEST = (3, 11)
_LAYOUT_GENERATION = 1

_LEFT_OUT_FOLDERS = frozenset({
    "__phello__", "__pycache__", "curses", "dbm", "dist-packages", "distutils", "ensurepip", "idlelib",
    "lib-dynload", "lib2to3", "pydoc_data", "site-packages", "sqlite3", "test", "tests", "tkinter",
    "turtledemo", "unittest", "venv", "wsgiref", "xmlrpc",
})  # fmt: skip
_LEFT_OUT_FILES = frozenset({
    "antigravity.py", "doctest.py", "pdb.py", "pydoc.py", "sitecustomize.py", "this.py", "turtle.py",
    "EXTERNALLY-MANAGED",
})  # fmt: skip
_LEFT_OUT_EXTENSIONS = re.compile(
    r"_test|xx|_xx|_ctypes_test|_codecs_|_crypt|_curses|_dbm|_gdbm|_hashlib|_lsprof|_sqlite3|_ssl|_tkinter|"
    r"audioop|nis|ossaudiodev|readline|spwd"
)
"""Our programs use none of these, and some would bring large libraries (TLS, databases, terminals)."""


@dataclass(frozen=True)
class Interpreter:
    """Where the parts of the distribution's interpreter are."""

    binary: Path
    version: str
    standard_library: Path
    extensions: tuple[Path, ...]
    loader: Path
    libraries: tuple[Path, ...]

    @property
    def library_folder(self) -> str:
        return f"{MOUNT_POINT}/lib/system"

    @property
    def arguments(self) -> list[str]:
        """How the interpreter is started inside a machine, up to its own options."""
        return [
            f"{self.library_folder}/{self.loader.name}",
            # Our libraries, whatever the machine's own loader cache says.
            "--library-path",
            self.library_folder,
            f"{MOUNT_POINT}/usr/bin/{self.binary.name}",
            # Text is UTF-8 whatever locale the machine has.
            "-X",
            "utf8",
        ]

    @property
    def digest(self) -> str:
        """Changes with every update of the interpreter or of a library it uses: 16 hex digits."""
        digest = hashlib.sha256(f"{_LAYOUT_GENERATION} {self.version}".encode())
        for path in (self.binary, self.loader, *self.libraries):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:16]


def find_interpreter(python: Path = _SYSTEM_PYTHON) -> Interpreter:
    """Find the distribution's interpreter. Raises BuildFailed when there is none that is new enough."""
    if not python.exists():
        raise BuildFailed(f"The distribution's Python is missing ({python}): apt-get install python3")
    binary = python.resolve()
    version = binary.name.removeprefix("python")
    if tuple(int(part) for part in version.split(".")) < _OLDEST:
        raise BuildFailed(f"The distribution's Python is {version}; the runtime needs 3.11 or newer.")
    library = Path(f"/usr/lib/python{version}")
    extensions = tuple(
        path
        for path in sorted((library / "lib-dynload").glob("*.so"))
        if not _LEFT_OUT_EXTENSIONS.match(path.name)
    )
    loader, libraries = _libraries([binary, *extensions])
    return Interpreter(binary, version, library, extensions, loader, libraries)


def copy_interpreter(interpreter: Interpreter, folder: Path) -> None:
    """Lay the interpreter out below `folder` as it will appear below the mount point, compiled."""
    binaries = folder / "usr/bin"
    binaries.mkdir(parents=True)
    shutil.copy(interpreter.binary, binaries / interpreter.binary.name)
    system = folder / "lib/system"
    system.mkdir(parents=True)
    for library in (interpreter.loader, *interpreter.libraries):
        shutil.copy(library, system / library.name)
    target = folder / "usr/lib" / interpreter.standard_library.name
    shutil.copytree(interpreter.standard_library, target, ignore=_left_out, symlinks=True)
    (target / "lib-dynload").mkdir()
    for extension in interpreter.extensions:
        shutil.copy(extension, target / "lib-dynload" / extension.name)
    compile_tree(interpreter, target, f"{MOUNT_POINT}/usr/lib/{target.name}")


def compile_tree(interpreter: Interpreter, folder: Path, shown_as: str) -> None:
    """Compile all modules below `folder` with this very interpreter; tracebacks will say `shown_as`."""
    arguments = [
        str(interpreter.binary), "-I", "-m", "compileall", "-q",
        # As many processes as there are processors.
        "-j", "0",
        # The runtime is read-only, so nobody needs to compare the sources' times at every start.
        "--invalidation-mode", "unchecked-hash",
        "-s", str(folder), "-p", shown_as, str(folder),
    ]  # fmt: skip
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"Compiling {shown_as} failed:\n{done.stdout}{done.stderr}")


def parse_ldd(text: str) -> tuple[Path | None, frozenset[Path]]:
    """The loader and the libraries that `ldd` names, whatever number of files it was asked about."""
    loader: Path | None = None
    libraries: set[Path] = set()
    for line in text.splitlines():
        if found := re.search(r"=> (/\S+) \(", line):
            libraries.add(Path(found[1]))
        elif found := re.match(r"\s+(/\S+/ld\S*) \(", line):
            loader = Path(found[1])
    return loader, frozenset(libraries)


def _libraries(files: Sequence[Path]) -> tuple[Path, tuple[Path, ...]]:
    done = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False)
    loader, libraries = parse_ldd(done.stdout)
    if done.returncode != 0 or loader is None:
        raise BuildFailed(f"The libraries of {files[0]} cannot be found: {done.stderr}")
    return loader, tuple(sorted(libraries))


def _left_out(folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name in _LEFT_OUT_FOLDERS or name in _LEFT_OUT_FILES or name.startswith("config-")
        or (Path(folder) / name).is_symlink()
    }  # fmt: skip
