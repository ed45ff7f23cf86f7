"""The systemd unit of a node, and what installs it, shows it and removes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.host.subprocesses import CommandTimedOut, run

NAME = "opencomputer.service"
UNITS = Path("/etc/systemd/system")
ENVIRONMENT = Path("/etc/opencomputer/opencomputer.env")
_DEADLINE_SECONDS = 300.0

_ENVIRONMENT_TEXT = """# Settings of the node, one OPENCOMPUTER_… a line, as in docs/guides/settings.md.
# OPENCOMPUTER_LISTEN=127.0.0.1:8080
# OPENCOMPUTER_PUBLIC_URL=https://sandboxes.example.com
"""

_UNIT = """[Unit]
Description=OpenComputer node
Wants=network-online.target
# `nftables.service` empties the whole firewall when it starts: the node's rules come after it.
After=network-online.target nftables.service time-sync.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={oc} serve
EnvironmentFile=-{environment}
Restart=always
RestartSec=2
# Machines belong to the host, not to this process: a stop or a restart leaves them alone, and the next start
# takes them over.
KillMode=process
TimeoutStartSec=300
TimeoutStopSec=90
# The memory of a machine that runs out ends that machine and nothing else.
OOMPolicy=continue
# The node makes the control groups of its machines itself.
Delegate=yes
LimitNOFILE=1048576
TasksMax=infinity
StandardOutput=journal
StandardError=journal
SyslogIdentifier=opencomputer
# Whatever is set here is inherited by every machine. So there is nothing that filters system calls, hides
# devices or forbids namespaces; what is taken is what neither the node nor a machine's kernel has use for.
UMask=0077
ProtectSystem=full
ProtectHome=read-only
CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_TIME CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND \\
    CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_LEASE CAP_SYS_PACCT CAP_SYS_TTY_CONFIG
KeyringMode=private

[Install]
WantedBy=multi-user.target
"""


class ServiceFailed(Exception):
    """systemd did not do what it was asked to; the message has its own words."""


@dataclass(frozen=True)
class ServiceState:
    """`active` and `enabled` in systemd's words."""

    installed: bool
    active: str
    enabled: str
    main_pid: int


def unit_text(oc: Path, environment: Path = ENVIRONMENT) -> str:
    """The unit for this program."""
    return _UNIT.format(oc=oc, environment=environment)


def install(oc: Path, *, start: bool, units: Path = UNITS, environment: Path = ENVIRONMENT) -> Path:
    """Write the unit, and a file for settings where there is none; enable it and start it.

    A unit that is there is replaced, and a node that runs goes on with it from its next start. Raises
    ServiceFailed.
    """
    if not environment.exists():
        environment.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        environment.touch(mode=0o600)
        environment.write_text(_ENVIRONMENT_TEXT)
    unit = units / NAME
    unit.write_text(unit_text(oc, environment))
    _systemctl("daemon-reload")
    _systemctl("enable", *(["--now"] if start else []), NAME)
    return unit


def remove(units: Path = UNITS) -> bool:
    """Stop the node and forget the unit; data, settings and running sandboxes stay. False: there was none.

    Raises ServiceFailed.
    """
    unit = units / NAME
    if not unit.exists():
        return False
    _systemctl("disable", "--now", NAME)
    unit.unlink()
    _systemctl("daemon-reload")
    return True


def state(units: Path = UNITS) -> ServiceState:
    """Raises ServiceFailed."""
    shown = _systemctl("show", NAME, "--property=ActiveState,UnitFileState,MainPID")
    fields: dict[str, str] = dict(_pair(line) for line in shown.splitlines())
    return ServiceState(
        (units / NAME).exists(),
        fields.get("ActiveState", ""),
        fields.get("UnitFileState", ""),
        int(fields.get("MainPID") or 0),
    )


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name, value


def _systemctl(*arguments: str) -> str:
    try:
        done = run(["systemctl", *arguments], deadline_seconds=_DEADLINE_SECONDS)
    except (OSError, CommandTimedOut) as error:
        raise ServiceFailed(f"systemctl cannot be run: {error}") from error
    if done.exit_code != 0:
        raise ServiceFailed(f"systemctl {arguments[0]}: {' '.join(done.output.split())}")
    return done.output
