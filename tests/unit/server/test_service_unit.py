"""The service: its unit, what installs it, and what the node tells whoever manages it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opencomputer.server import service_unit
from opencomputer.server.host.service_manager import READY, notify
from opencomputer.server.service_unit import ServiceFailed
from opencomputer.server.settings import load_settings
from tests.support.node import NodeFolder

_WRITTEN = Path(__file__).parents[3] / "deploy" / "systemd" / "opencomputer.service"
_SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
show) printf 'ActiveState=active\\nUnitFileState=enabled\\nMainPID=42\\n' ;;
esac
exit {code}
"""


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What it was called with, line by line."""
    return fake_systemctl(tmp_path, monkeypatch, 0)


def fake_systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> Path:
    log = folder / "called"
    program = folder / "bin" / "systemctl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_SYSTEMCTL.format(log=log, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return log


def test_the_unit_in_the_repository_is_the_one_that_is_installed() -> None:
    assert _WRITTEN.read_text() == service_unit.unit_text(Path("/opt/opencomputer/.venv/bin/oc"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / service_unit.NAME
    unit.write_text(service_unit.unit_text(Path(sys.executable).with_name("oc")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_installed_started_and_removed(tmp_path: Path, systemctl: Path) -> None:
    environment = tmp_path / "etc" / "opencomputer.env"
    oc = Path("/opt/oc")
    unit = service_unit.install(oc, start=True, units=tmp_path, environment=environment)
    assert "ExecStart=/opt/oc serve" in unit.read_text()
    assert environment.stat().st_mode & 0o777 == 0o600
    environment.write_text("OPENCOMPUTER_REGION=mine\n")
    service_unit.install(oc, start=False, units=tmp_path, environment=environment)
    assert environment.read_text() == "OPENCOMPUTER_REGION=mine\n", "what an operator wrote stays"
    state = service_unit.state(tmp_path)
    assert (state.installed, state.active, state.enabled, state.main_pid) == (True, "active", "enabled", 42)
    assert (service_unit.remove(tmp_path), service_unit.remove(tmp_path)) == (True, False)
    assert [line.split()[0] for line in systemctl.read_text().splitlines()] == [
        *("daemon-reload", "enable", "daemon-reload", "enable", "show", "disable", "daemon-reload")
    ]
    assert "enable --now opencomputer.service" in systemctl.read_text()


def test_what_systemd_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_systemctl(tmp_path, monkeypatch, 1)
    with pytest.raises(ServiceFailed, match="systemctl daemon-reload"):
        service_unit.install(Path("/opt/oc"), start=True, units=tmp_path, environment=tmp_path / "env")


@pytest.mark.anyio
async def test_a_node_says_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        async with NodeFolder(tmp_path).running(notify_socket=str(tmp_path / "notify")):
            assert manager.recv(100) == b"READY=1"
        assert manager.recv(100) == b"STOPPING=1"


def test_a_manager_in_the_abstract_namespace_is_told_too() -> None:
    name = f"opencomputer-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(10)
        assert notify(f"@{name}", READY)
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all"])
def test_without_a_manager_nothing_is_told(address: str | None) -> None:
    assert not notify(address, READY)


def test_the_manager_is_found_where_systemd_names_it() -> None:
    assert load_settings({"NOTIFY_SOCKET": "/run/systemd/notify"}).notify_socket == "/run/systemd/notify"
