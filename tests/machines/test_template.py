"""The base template as it was built: what its files say, and what works when gVisor runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from opencomputer.server.host.runsc_build import find_runsc
from opencomputer.server.templates.catalogue import Template, TemplateMissing, current_template
from opencomputer.server.templates.runtime import ensure_runtime, interpreter_arguments
from tests.support.driver_harness import TEMPLATES_DIR, why_no_gvisor

pytestmark = pytest.mark.machines

COMMANDS = (
    "bash python python3 pip node npm npx git git-lfs gcc g++ make cmake pkg-config curl wget ssh rsync ip "
    "ping dig netstat jq htop tree less file strace zip unzip bzip2 xz nano vim sqlite3 supervisord sudo "
    "claude claude-agent-wrapper"
)
HEADERS = ("openssl/ssl.h", "zlib.h", "python3.*/Python.h", "*/ffi.h")


@pytest.fixture(scope="module")
def template() -> Template:
    try:
        return current_template(TEMPLATES_DIR, "base")
    except TemplateMissing as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def runtime() -> Path:
    return ensure_runtime(TEMPLATES_DIR)


def text(template: Template, path: str) -> str:
    return (template.rootfs / path).read_text()


def test_the_user_and_its_home_are_there(template: Template) -> None:
    """User and group 1000, bash, and /workspace as another name of the home folder."""
    (entry,) = [line for line in text(template, "etc/passwd").splitlines() if line.startswith("sandbox:")]
    assert entry == "sandbox:x:1000:1000::/home/sandbox:/bin/bash"
    home = (template.rootfs / "home/sandbox").stat()
    assert (home.st_uid, home.st_gid) == (1000, 1000)
    assert os.readlink(template.rootfs / "workspace") == "/home/sandbox"


def test_sudo_needs_no_password(template: Template) -> None:
    """The real sudo accepts the rule: only with exactly these modes does it read it."""
    rule = template.rootfs / "etc/sudoers.d/sandbox"
    assert (rule.stat().st_mode & 0o7777, rule.stat().st_uid) == (0o440, 0)
    assert "sandbox ALL=(ALL:ALL) NOPASSWD: ALL" in rule.read_text()
    assert (template.rootfs / "usr/bin/sudo").stat().st_mode & 0o4000


def test_names_resolve_through_the_node(template: Template) -> None:
    """The hostname is known, and questions go to the node's resolver."""
    assert "127.0.0.1 localhost sandbox" in text(template, "etc/hosts").splitlines()
    assert text(template, "etc/hostname") == "sandbox\n"
    assert "nameserver 169.254.169.253" in text(template, "etc/resolv.conf").splitlines()


def test_a_template_has_no_identity_and_no_leftovers(template: Template) -> None:
    """Machines get their own identity; nothing of the build is left in it."""
    assert text(template, "etc/machine-id") == ""
    for folder in ("tmp", "run", "var/cache/apt", "root/.cache"):
        assert list((template.rootfs / folder).glob("*")) == [], folder
    assert not (template.rootfs / "customise.sh").exists()
    assert not (template.rootfs / "usr/sbin/policy-rc.d").exists()


def test_packages_come_from_the_hosts_mirrors_without_its_other_sources(template: Template) -> None:
    """apt works inside as it does outside, and backports stay out."""
    folder = template.rootfs / "etc/apt"
    listed = "".join(
        path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in (".list", ".sources")
    )
    assert "Types: deb" in listed
    assert "backports" not in listed


@pytest.mark.parametrize("header", HEADERS)
def test_headers_for_building_are_there(template: Template, header: str) -> None:
    """Python extensions and programs with TLS, FFI and compression can be compiled."""
    assert list((template.rootfs / "usr/include").glob(header))


@pytest.fixture(scope="module")
def inside(template: Template, runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Inside:
    missing = why_no_gvisor()
    if missing:
        pytest.skip(missing)
    runsc = find_runsc(os.environ.get("OPENCOMPUTER_TEST_RUNSC"))
    return Inside(runsc.path, template.rootfs, runtime, tmp_path_factory.mktemp("bundle"))


class Inside:
    """Runs one command at a time in a gVisor container over the template, without network."""

    def __init__(self, runsc: Path, root: Path, runtime: Path, folder: Path) -> None:
        self._runsc, self._root, self._runtime, self._folder = runsc, root, runtime, folder
        self._runs = 0

    def run(self, *arguments: str, root: Path | None = None, environment: tuple[str, ...] = ()) -> str:
        self._runs += 1
        bundle = self._folder / f"run{self._runs}"
        bundle.mkdir()
        (bundle / "config.json").write_text(
            json.dumps(self._bundle(arguments, environment, root or self._root))
        )
        done = subprocess.run(
            [
                # gVisor's processes leave their parents; the namespace ends them all.
                "unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                str(self._runsc), f"--root={bundle}/state", "--network=none", "--ignore-cgroups",
                "--overlay2=none", "run", f"--bundle={bundle}", f"test{self._runs:03}",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _bundle(
        self, arguments: tuple[str, ...], environment: tuple[str, ...], root: Path
    ) -> dict[str, object]:
        return {
            "ociVersion": "1.0.0",
            "process": {
                "user": {"uid": 1000, "gid": 1000},
                "args": list(arguments),
                "env": list(environment) or ["PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin", "HOME=/tmp"],
                "cwd": "/",
            },
            "root": {"path": str(root), "readonly": True},
            "hostname": "sandbox",
            "mounts": [
                {"destination": "/proc", "type": "proc"},
                {"destination": "/tmp", "type": "tmpfs"},
                {
                    "destination": "/.oc",
                    "type": "bind",
                    "source": str(self._runtime),
                    "options": ["ro", "rbind"],
                },
            ],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "network"}]},
        }


def test_every_promised_command_is_on_the_path(inside: Inside) -> None:
    """Behaviour section 21, as far as this template goes."""
    missing = inside.run(
        "sh", "-c", f"for c in {COMMANDS}; do command -v $c >&3 || echo $c; done 3>/dev/null"
    )
    assert missing.split() == []


def test_the_languages_run(inside: Inside) -> None:
    """Python 3.11 or newer and Node 20 or newer, npm included, start in gVisor."""
    script = (
        "python --version; node --version; npm --version; python -m venv /tmp/v && /tmp/v/bin/pip --version"
    )
    python, node, npm, pip = inside.run("sh", "-c", script).splitlines()
    assert python.startswith("Python 3.")
    assert int(node.removeprefix("v").split(".")[0]) >= 20
    assert npm.split(".")[0].isdigit()
    assert pip.startswith("pip ")


def test_a_program_can_be_compiled(inside: Inside) -> None:
    """The compiler finds its headers and libraries."""
    source = r"#include <openssl/ssl.h>\n#include <stdio.h>\nint main(){puts(OPENSSL_VERSION_TEXT);}"
    script = f"printf '{source}' > /tmp/a.c && gcc /tmp/a.c -o /tmp/a -lssl -lcrypto && /tmp/a"
    assert inside.run("sh", "-c", script).startswith("OpenSSL ")


def test_both_locales_work(inside: Inside) -> None:
    """English with UTF-8, and the C locale with UTF-8."""
    script = "for l in en_US.UTF-8 C.UTF-8; do LC_ALL=$l locale charmap; done"
    assert inside.run("sh", "-c", script).split() == ["UTF-8", "UTF-8"]


def test_the_agents_sdk_and_its_engine_are_there(inside: Inside) -> None:
    """The SDK imports in its own environment and its engine says its version."""
    python = "/opt/opencomputer/agent/bin/python"
    script = f"{python} -c 'import claude_agent_sdk as sdk; print(sdk.__version__)'; claude --version"
    sdk, engine = inside.run("sh", "-c", script).splitlines()
    assert sdk.startswith("0.2.")
    assert engine.endswith("(Claude Code)")


def test_the_guests_interpreter_needs_nothing_of_the_machine(
    inside: Inside, runtime: Path, tmp_path: Path
) -> None:
    """It runs in a root file system with nothing in it, and so do our programs."""
    tmp_path.chmod(0o755)
    for folder in (".oc", "proc", "tmp"):
        (tmp_path / folder).mkdir()
    code = (
        "import sys; sys.path.insert(0, '/.oc/lib/opencomputer_inside')\n"
        "import asyncio, json, socket, subprocess, hashlib, pty, ctypes, guest, agent_runner\n"
        "print(sys.prefix, guest.__file__, json.__cached__)"
    )
    arguments = [*interpreter_arguments(runtime), "-c", code]
    prefix, guest, cached = inside.run(*arguments, root=tmp_path, environment=("LANG=x",)).split()
    assert prefix == "/.oc/usr"
    assert guest == "/.oc/lib/opencomputer_inside/guest/__init__.py"
    assert (runtime / Path(cached).relative_to("/.oc")).is_file()


def test_the_runtimes_command_ignores_preloaded_libraries(inside: Inside) -> None:
    """A user's LD_PRELOAD belongs to another C library and must not break the programs behind `sudo`."""
    script = "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libz.so.1 /.oc/bin/python3 -I -S -c 'print(1)'"
    assert inside.run("sh", "-c", script) == "1\n"


def test_a_runtime_is_made_once_for_the_same_programs(tmp_path: Path) -> None:
    """Changed programs give another bundle and leave the one in use alone; the same ones give the same."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "hello.py").write_text("print('one')\n")
    first = ensure_runtime(tmp_path / "templates", programs)
    assert ensure_runtime(tmp_path / "templates", programs) == first
    (programs / "hello.py").write_text("print('two')\n")
    second = ensure_runtime(tmp_path / "templates", programs)
    assert second != first
    assert (first / "lib/opencomputer_inside/hello.py").read_text() == "print('one')\n"
    assert list((second / "lib/opencomputer_inside/__pycache__").glob("hello.*.pyc"))
