"""Requests for sandboxes that go on from where another one is or was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.sdk.control_plane import post_once, with_timeout
from opencomputer.sdk.sandbox_link import path_below_sandboxes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import Call
    from opencomputer.sdk.sandbox_link import SandboxLink

_FORK_SECONDS = 120.0


@dataclass(frozen=True)
class ForkOptions:
    """What is different in a fork; None leaves it as it was."""

    timeout: int = 0
    envs: Mapping[str, str] | None = None
    metadata: Mapping[str, str] | None = None
    memory_mb: int | None = None
    secret_store: str | None = None

    def body(self) -> JsonObject:
        """The JSON that asks for it."""
        options: JsonObject = {
            "envs": self.envs,
            "metadata": self.metadata,
            "memoryMB": self.memory_mb,
            "secretStore": self.secret_store,
        }
        return {"timeout": self.timeout} | {key: value for key, value in options.items() if value is not None}


def from_checkpoint(checkpoint_id: str, options: ForkOptions) -> Call:
    """A sandbox made from a checkpoint."""
    path = path_below_sandboxes("from-checkpoint", checkpoint_id)
    return with_timeout(post_once(path, options.body()), _FORK_SECONDS)


def fork(link: SandboxLink, count: int, options: ForkOptions) -> Call:
    """So many sandboxes made from a running one."""
    body = {"count": count} | options.body()
    return with_timeout(post_once(link.path("fork"), body), _FORK_SECONDS)
