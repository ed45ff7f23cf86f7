"""What went wrong, as a model is told: what it was, and what to do next."""

from __future__ import annotations

from opencomputer.cli.mcp.sandboxes import NoSandbox
from opencomputer.sdk import errors
from opencomputer.sdk.http import httpx

_NEXT: tuple[tuple[type[Exception], str], ...] = (
    (errors.SandboxStoppedError, "Make another with create_sandbox."),
    (errors.NotFoundError, "list_sandboxes and list_files show what there is."),
    (errors.AuthError, "The person who set this server up has to give it another API key (`oc login`)."),
    (errors.RateLimitError, "Kill sandboxes that are not needed any more, or wait a moment."),
    (errors.UnavailableError, "Try again in a few seconds."),
    (errors.ConflictError, "Something else is under way with this sandbox; try again in a few seconds."),
    (errors.NotSupportedError, "This server cannot do it; find another way."),
)


def told(error: Exception) -> str | None:
    """One or two sentences; None for a fault of ours."""
    if isinstance(error, NoSandbox):
        return str(error)
    if isinstance(error, errors.OpenComputerError):
        return _joined(error.message, next((text for kind, text in _NEXT if isinstance(error, kind)), ""))
    if isinstance(error, httpx.TransportError):
        return _joined(
            f"The server cannot be reached: {error}", "Try again; if it stays so, tell the person."
        )
    if isinstance(error, errors.CheckpointFailedError | errors.BuildFailedError | errors.ExecFailedError):
        return str(error)
    return None


def _joined(what: str, next_step: str) -> str:
    what = what.rstrip()
    return f"{what}{'' if what.endswith('.') else '.'} {next_step}".strip()
