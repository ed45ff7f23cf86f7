"""The firewall tool `nft`, one transaction at a time."""

from __future__ import annotations

from opencomputer.server.host.subprocesses import run

_DEADLINE_SECONDS = 10.0


class FirewallRefused(Exception):
    """`nft` did not accept a ruleset; nothing of it is in force. The message is the tool's own."""


def apply_ruleset(text: str) -> None:
    """Load a ruleset: all of it or nothing. Blocks for some milliseconds.

    `-f -` reads the ruleset from standard input, which makes one transaction of it.
    """
    done = run(["nft", "-f", "-"], deadline_seconds=_DEADLINE_SECONDS, stdin=text.encode())
    if done.exit_code != 0:
        raise FirewallRefused(done.output.strip())


def table_exists(family: str, name: str) -> bool:
    listing = run(["nft", "list", "table", family, name], deadline_seconds=_DEADLINE_SECONDS)
    return listing.exit_code == 0
