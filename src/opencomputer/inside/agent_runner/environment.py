"""The runner's environment: whether the engine will find a credential, and what it is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
CLOUD_PROVIDERS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
"""With one of these the engine finds its credentials in that provider's own way."""

NO_CREDENTIAL = (
    "ANTHROPIC_API_KEY is not set: give the sandbox a key in its environment, or configure a model provider "
    "on the node"
)


def has_credential(environment: Mapping[str, str]) -> bool:
    """Whether the engine has something to authenticate with."""
    return any(environment.get(name) for name in (*CREDENTIALS, *CLOUD_PROVIDERS))


def engine_environment(environment: Mapping[str, str], user_id: int) -> dict[str, str]:
    """Variables to add for the engine. What the user has set stays as it is."""
    additions = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    if user_id == 0:
        # Otherwise the engine refuses to run as root without asking for permissions.
        additions["IS_SANDBOX"] = "1"
    return {name: value for name, value in additions.items() if name not in environment}


def forget_own_path(environment: MutableMapping[str, str]) -> None:
    """Take the runner's own folder off PYTHONPATH, where the programs of the agent would find it."""
    own = str(Path(__file__).resolve().parent.parent)
    entries = environment.pop("PYTHONPATH", "").split(os.pathsep)
    others = [entry for entry in entries if entry and os.path.realpath(entry) != own]
    if others:
        environment["PYTHONPATH"] = os.pathsep.join(others)
