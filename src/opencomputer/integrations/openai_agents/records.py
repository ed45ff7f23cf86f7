"""What a sandbox is made from, and what is kept of a session so that it can be taken up again."""

from __future__ import annotations

from typing import Any, Literal

from agents.sandbox.session import BaseSandboxClientOptions, SandboxSessionState

BACKEND: Literal["opencomputer"] = "opencomputer"
_OF_THE_SESSION = frozenset({"type", "hibernate_on_exit", "exposed_ports", "port_grant_seconds"})


class OpenComputerSandboxClientOptions(BaseSandboxClientOptions):
    """The options of `Sandbox.create`, `image` as `Image.to_dict()` gives it, and those of a session.

    A session that ends removes its sandbox, or with `hibernate_on_exit` puts it to sleep, to be woken when
    the session is resumed. The `exposed_ports` are reached by everybody who knows their address; with
    `port_grant_seconds` addresses carry a grant that ends after so long, and nobody else gets in.
    """

    # The framework registers this class by the default, and wants it like this.
    type: Literal["opencomputer"] = BACKEND  # pyright: ignore[reportIncompatibleVariableOverride]
    template: str = "base"
    image: dict[str, Any] | None = None
    snapshot: str | None = None
    memory_mb: int | None = None
    cpu_count: int | None = None
    disk_mb: int | None = None
    envs: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    secret_store: str | None = None
    egress_allowlist: list[str] | None = None
    timeout: int = 0
    hibernate_on_exit: bool = False
    exposed_ports: tuple[int, ...] = ()
    port_grant_seconds: int | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments for `Sandbox.create`."""
        given = self.model_dump(exclude_none=True).items()
        arguments = {name: value for name, value in given if name not in _OF_THE_SESSION}
        return arguments if self.port_grant_seconds is None else arguments | {"preview_auth": {}}


class OpenComputerSandboxSessionState(SandboxSessionState):
    """All that is needed to find a session's sandbox again, or to make another like it."""

    # The framework registers this class by the default, and wants it like this.
    type: Literal["opencomputer"] = BACKEND  # pyright: ignore[reportIncompatibleVariableOverride]
    sandbox_id: str
    options: OpenComputerSandboxClientOptions
