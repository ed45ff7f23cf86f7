"""Which distribution this host runs and which authorities it trusts beyond the usual ones."""

from __future__ import annotations

import platform
import shlex
from dataclasses import dataclass
from pathlib import Path

EXTRA_CERTIFICATES = Path("/usr/local/share/ca-certificates")


@dataclass(frozen=True)
class Distribution:
    """`debian`/`bookworm`, `ubuntu`/`noble` … with the machine's architecture as the kernel names it."""

    id: str
    codename: str
    architecture: str
    name: str

    @property
    def is_debian_like(self) -> bool:
        """Templates can be built from it: its own packages are what `apt` installs."""
        return self.id in ("debian", "ubuntu") and bool(self.codename)

    def __str__(self) -> str:
        return f"{self.id}/{self.codename}/{self.architecture}"


def parse_os_release(text: str, architecture: str) -> Distribution:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.startswith("#"):
            fields[name.strip()] = " ".join(shlex.split(value))
    return Distribution(
        id=fields.get("ID", "unknown"),
        codename=fields.get("VERSION_CODENAME", ""),
        architecture=architecture,
        name=fields.get("PRETTY_NAME", "an unknown Linux"),
    )


def read_distribution() -> Distribution:
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        text = ""
    return parse_os_release(text, platform.machine())


def extra_certificates(folder: Path = EXTRA_CERTIFICATES) -> list[Path]:
    """Certificates this host's operator added to its trust, such as the one of an inspecting proxy."""
    return sorted(path for path in folder.rglob("*.crt") if path.is_file())
