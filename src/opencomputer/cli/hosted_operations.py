"""Waiting for what a hosted agent's server does in the background, and saying why it failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.cli.failures import LOCAL_FAILURE, REFUSED, SERVER_FAILURE, CommandError
from opencomputer.cli.progress import Steps
from opencomputer.sdk.answers import is_json_object, text
from opencomputer.sdk.errors import OpenComputerError
from opencomputer.sdk.http import httpx

if TYPE_CHECKING:
    from opencomputer.cli.output import Output
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.hosted.client import HostedAgents
    from opencomputer.sdk.hosted.records import Operation

POLL_SECONDS = 2.0
WAIT_SECONDS = 180.0
_FAILED_POLLS = 3


@dataclass(frozen=True)
class _Explained:
    exit_code: int
    advice: str


_ERRORS = {
    "checkpoint_org_mismatch": _Explained(REFUSED, "use a checkpoint of this organisation, or publish it"),
    "checkpoint_not_found": _Explained(REFUSED, "see `oc checkpoint list`: the one it starts from is gone"),
    "telegram_unauthorized": _Explained(REFUSED, "ask @BotFather for the bot's token again"),
    "webhook_register_failed": _Explained(LOCAL_FAILURE, "see that the server can be reached from outside"),
    "secret_store_failed": _Explained(LOCAL_FAILURE, "see `oc secret-store list`, and try again"),
    "core_not_ready": _Explained(SERVER_FAILURE, "see `oc agent logs`, then `oc agent restart`"),
    "core_install_failed": _Explained(SERVER_FAILURE, "see `oc agent logs`, and try again"),
    "channel_not_ready": _Explained(SERVER_FAILURE, "see `oc agent logs`, then connect it again"),
    "package_verify_failed": _Explained(LOCAL_FAILURE, "see `oc agent events`, and install it again"),
    "sandbox_provision_timeout": _Explained(SERVER_FAILURE, "the server may be busy: try again later"),
    "git_clone_failed": _Explained(SERVER_FAILURE, "see that the server can reach the package's source"),
}
_UNKNOWN = _Explained(LOCAL_FAILURE, "see `oc agent events`")


class StillGoingOn(Exception):
    """It goes on, and it was not waited for any longer."""


async def wait(hosted: HostedAgents, agent: str, operation: Operation, output: Output) -> Operation:
    """The operation when it has succeeded; each phase is told once.

    Raises StillGoingOn when that takes too long or nothing is heard of it, and CommandError when it failed.
    """
    failures, phase = 0, ""
    try:
        with Steps(output, f"{operation.kind or 'waiting for'} {agent}") as progress:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    if operation.phase and operation.phase != phase:
                        phase = operation.phase
                        told = f": {operation.message}" if operation.message else ""
                        progress.line(f"{phase}{told}")
                    if not operation.active:
                        break
                    await asyncio.sleep(POLL_SECONDS)
                    try:
                        operation = await hosted.get_operation(agent, operation.id)
                        failures = 0
                    except (OpenComputerError, httpx.TransportError) as error:
                        failures += 1
                        if failures == _FAILED_POLLS:
                            raise StillGoingOn from error
    except TimeoutError as error:
        raise StillGoingOn from error
    if operation.outcome != "succeeded":
        raise failure(operation, output)
    return operation


def failure(operation: Operation, output: Output) -> CommandError:
    """Why it failed, with what may help; the code of the error decides the exit code."""
    error: JsonObject = operation.error if is_json_object(operation.error) else {}
    code = text(error, "code")
    told = text(error, "message") or (operation.error if isinstance(operation.error, str) else "")
    phase = text(error, "phase") or operation.phase or "-"
    explained = _ERRORS.get(code, _UNKNOWN)
    message = told or operation.message or "the server gave no reason"
    if not output.json:
        for label, value in (("Phase", phase), ("Code", code or "-"), ("Message", message)):
            output.note(f"{label + ':':<9}{value}")
        output.note(f"{'Try:':<9}{explained.advice}")
    in_words = f" ({code})" if code else ""
    return CommandError(
        f"{operation.kind or 'the operation'} {operation.outcome} in {phase}{in_words}: {message}",
        explained.exit_code,
    )


def in_progress(agent: str) -> JsonObject:
    """What is said of an agent that was not waited for any longer."""
    return {
        "id": agent,
        "status": "starting",
        "async": True,
        "check_with": f"oc agent get {agent} --hosted",
        "note": "It goes on in the background.",
    }
