"""The environment of a new process: base, image, identity, request; later layers win."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .users import User

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IMAGE_FILE = "/etc/opencomputer/environment"


def base_environment(user: User) -> dict[str, str]:
    return {
        "HOME": user.home,
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": user.shell,
        "PATH": PATH,
        "LANG": "C.UTF-8",
    }


def parse_environment(text: str) -> dict[str, str]:
    """The `KEY=VALUE` lines of an environment file. Other lines and comments are passed over."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        key = key.strip()
        if equals and key and not key.startswith("#") and "\0" not in line:
            found[key] = value
    return found


def compose(user: User, *layers: Mapping[str, str]) -> dict[str, str]:
    environment = base_environment(user)
    for layer in layers:
        environment.update(layer)
    return environment
