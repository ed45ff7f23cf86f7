"""What both OpenAPI documents permit, and much that they do not, sent to a node: does it keep its word?

`scripts/fuzz_api.py --seconds 600` starts a node on the fake driver, lets schemathesis make up requests, and
says what the node answered that its documents do not. Other options are passed on to `st run`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.node import Api

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))
DOCUMENTS = ("api", "v3")
CHECKS = (
    "failures_are_documented",
    "allow_names_every_method",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
)
_KEY_ENDS = "/credential$"
"""What takes the key from all requests that come after it."""


@dataclass(frozen=True)
class Target:
    """A node, a key of it, and ids of what it has: by document, and by the end of the path up to them."""

    url: str
    key: str
    ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


def command(
    target: Target, document: str, options: Sequence[str], *, without: Sequence[str] = ()
) -> list[str]:
    """The command that asks a node for all that one of its documents has, but for paths like those."""
    return [
        str(Path(sys.executable).with_name("st")),
        "run",
        f"{target.url}/{document}/openapi.json",
        f"--header=X-API-Key: {target.key}",
        f"--checks={','.join(CHECKS)}",
        f"--exclude-path-regex={'|'.join((_KEY_ENDS, *without))}",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
        *options,
    ]


def environment(target: Target, document: str) -> dict[str, str]:
    """What the command needs besides ours."""
    return {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.support.openapi_hooks",
        "PYTHONPATH": str(REPOSITORY),
        "OPENCOMPUTER_FUZZ_IDS": json.dumps(target.ids.get(document, {})),
    }


def ask(target: Target, options: Sequence[str]) -> int:
    """Both documents, one after the other. Returns 1 when an answer was none."""
    codes = [
        subprocess.run(command(target, each, options), env=environment(target, each), check=False).returncode
        for each in DOCUMENTS
    ]
    return int(any(codes))


async def target_of(api: Api) -> Target:
    """A node with one of each kind, for requests to be about something."""
    from tests.support.one_of_each import ids_of_sandboxes, ids_of_sessions

    return Target(api.url, api.key, {"api": await ids_of_sandboxes(api), "v3": await ids_of_sessions(api)})


async def ask_node_of_ours(options: Sequence[str]) -> int:
    """As `ask`, of a node that is there for as long as it takes."""
    from opencomputer.server.logs import configure_logs
    from tests.support.node import FIRST_KEY, NodeFolder, api_of, kill_all

    configure_logs("error")
    with TemporaryDirectory(prefix="opencomputer-fuzz-") as name:
        folder = NodeFolder(Path(name))
        running = folder.running(POOL_MAX="1", ALLOW_PRIVATE_WEBHOOKS="1")
        async with running as url, api_of(url, FIRST_KEY) as api:
            try:
                return await asyncio.to_thread(ask, await target_of(api), options)
            finally:
                await kill_all(api)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long, both documents together")
    given, more = parser.parse_known_args()
    return asyncio.run(ask_node_of_ours([f"--max-time={max(1, given.seconds // len(DOCUMENTS))}", *more]))


if __name__ == "__main__":
    sys.exit(main())
