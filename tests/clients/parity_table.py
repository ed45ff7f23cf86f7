"""In what our Python SDK and the published one differ, and why. See test_python_parity.py."""

from __future__ import annotations

from collections.abc import Mapping

_MADE_BY_A_SANDBOX = "a part of a sandbox, which makes it: users never made one"
_REQUEST = "returns an object that is awaited as before and can be given to `async with` directly as well"

DIFFERENT: Mapping[str, str] = {
    "Agent.__init__: absent": _MADE_BY_A_SANDBOX,
    "Exec.__init__: absent": _MADE_BY_A_SANDBOX,
    "Sandbox.create: a coroutine function in one of them only": _REQUEST,
    "Sandbox.create_from_checkpoint: a coroutine function in one of them only": _REQUEST,
}
"""What code for the published SDK could notice."""

OTHER_ERRORS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "no_such_session": (
        ("websockets.InvalidHandshake", "websockets.InvalidStatus", "websockets.WebSocketException"),
        "an error status is an `httpx.HTTPStatusError`, also where it answers the opening of a socket",
    ),
    "an_answer_that_is_not_json": (
        ("builtins.ValueError", "json.JSONDecodeError"),
        "`UnexpectedAnswerError` names the path; no part of the contract answers so",
    ),
}
"""Faults that raise something which does not have all kinds that the published SDK's error has."""

_FOLLOWING = {"on_exit", "on_scrollback_end", "reconnect"}

ADDED_OPTIONS: Mapping[str, set[str]] = {
    "Agent.attach": _FOLLOWING,
    "Agent.start": _FOLLOWING | {"resume"},
    "AgentSession.configure": {"mcp_servers", "resume"},
    "AgentSession.wait": {"until"},
    "Exec.attach": {"reconnect"},
    "Exec.background": {"on_scrollback_end", "reconnect"},
    "Exec.run": {"client_timeout"},
    "Exec.start": {"reconnect"},
    "Image.add_file": {"mode"},
    "Image.base": {"template"},
    "Pty.create": {"shell"},
    "Sandbox.create": {"cpu_count", "egress_allowlist", "webhooks"},
    "Sandbox.create_from_checkpoint": {"memory_mb", "metadata"},
}
"""Parameters that methods of the published SDK have only in ours: all optional, and behind the others."""
