"""The OCI bundle of a machine: what runsc reads to know what to start. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from opencomputer.server.contracts.driver import Json

GUEST_PROGRAM = (
    "import sys; sys.path.insert(0, '/.oc/lib/opencomputer_inside'); from guest.main import main; main()"
)
RUNTIME_MOUNT = "/.oc"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PAGE = 1 << 12

_CAPABILITIES = (
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_IPC_LOCK",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_ADMIN",
    "CAP_SYS_CHROOT",
    "CAP_SYS_NICE",
    "CAP_SYS_PTRACE",
    "CAP_SYS_RESOURCE",
)
"""What root may do inside. They are powers over the application kernel, not over the host."""
_SAME_NUMBERS: Json = {"containerID": 0, "hostID": 0, "size": (1 << 32) - 1}


@dataclass(frozen=True)
class Birth:
    """What was fixed when a machine was first started. A machine from its image must be told the same."""

    memory_bytes: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Birth:
        """Raises ValueError when it is something else."""
        try:
            return cls(int(json.loads(text)["memory_bytes"]))
        except (KeyError, TypeError) as error:
            raise ValueError("not the birth of a machine") from error


@dataclass(frozen=True)
class BundleSpec:
    """`interpreter` is the command line to which the guest program is appended."""

    root: Path
    runtime: Path
    interpreter: Sequence[str]
    token: str
    setuid: bool
    birth: Birth


def bundle_config(spec: BundleSpec) -> str:
    """The text of the bundle's `config.json`."""
    kinds = ("bounding", "effective", "permitted", "inheritable")
    capabilities: dict[str, Json] = dict.fromkeys(kinds, _CAPABILITIES)
    config: dict[str, Json] = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": [*spec.interpreter, "-c", GUEST_PROGRAM],
            "env": [f"PATH={_PATH}", f"OC_TOKEN={spec.token}", f"OC_SETUID={int(spec.setuid)}"],
            "cwd": "/",
            "capabilities": capabilities,
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}],
            "noNewPrivileges": False,
        },
        "root": {"path": str(spec.root), "readonly": False},
        "hostname": "sandbox",
        "mounts": _mounts(spec),
        "linux": {
            "namespaces": [
                *({"type": kind} for kind in ("pid", "ipc", "uts", "mount", "user")),
                # runsc is started inside the machine's network namespace, which has no name.
                {"type": "network", "path": "/proc/self/ns/net"},
            ],
            # The machine's kernel is a process of the host that has the powers listed above. In a user
            # namespace of its own it has them over its files and over nothing else of the host. The numbers
            # are the host's, so that layers need no translation.
            "uidMappings": [_SAME_NUMBERS],
            "gidMappings": [_SAME_NUMBERS],
        },
    }
    return json.dumps(config)


def _mounts(spec: BundleSpec) -> list[Json]:
    """`/dev` and `/dev/pts` are runsc's own. What programs use for short-lived files is kept in memory.

    A file there that is open but deleted does not stand in the way of a memory image on old builds.
    Their sizes are those of the machine's birth: runsc refuses an image when they differ.
    """
    memory_bytes = spec.birth.memory_bytes
    return [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {
            "destination": "/sys",
            "type": "sysfs",
            "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", "ro"],
        },
        _memory_mount("/dev/shm", "1777", memory_bytes // 2),
        _memory_mount("/tmp", "1777", memory_bytes // 2),
        _memory_mount("/var/tmp", "1777", memory_bytes // 4),
        _memory_mount("/run", "0755", memory_bytes // 8),
        {
            "destination": RUNTIME_MOUNT,
            "type": "bind",
            "source": str(spec.runtime),
            "options": ["ro", "rbind", "nosuid", "nodev"],
        },
    ]


def _memory_mount(destination: str, mode: str, size_bytes: int) -> Json:
    size = max(_PAGE, size_bytes // _PAGE * _PAGE)
    options = ["nosuid", "nodev", f"mode={mode}", f"size={size}"]
    return {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": options}


def memory_report(memory_bytes: int) -> str:
    """What runsc should find in /proc/meminfo: it tells the machine that it has as much as this."""
    kibibytes = memory_bytes // 1024
    return f"MemTotal: {kibibytes} kB\nMemFree: {kibibytes} kB\nMemAvailable: {kibibytes} kB\n"
