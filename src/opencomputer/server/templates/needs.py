"""Which builds the nodes of this host still need. Nodes may share templates, and know only of themselves.

TEMPLATES/.needs/KEY.json            what one node needs: its data folder, and the hashes of builds
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from opencomputer.server.domain.errors import OpenComputerError

_FOLDER = ".needs"
_FORGOTTEN_AFTER = timedelta(days=1)
"""A data folder that is gone may be on a disk that is away for a moment."""


class NeedsUnreadable(OpenComputerError):
    """What a node needs of its templates cannot be read, so nothing may be removed."""

    code = "template_needs_unreadable"


def declare(templates_dir: Path, node: Path, hashes: Collection[str]) -> None:
    """Say what the node with this data folder needs, in place of what it said before."""
    folder = templates_dir / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(node.resolve())).hexdigest()[:16]
    draft = folder / f".{name}"
    draft.write_text(json.dumps({"node": str(node.resolve()), "hashes": sorted(hashes)}))
    draft.replace(folder / f"{name}.json")


def needed(templates_dir: Path) -> Mapping[str, frozenset[Path]]:
    """The hashes that are needed, and the data folders of the nodes that need them."""
    found: dict[str, frozenset[Path]] = {}
    for node, hashes in _said(templates_dir).values():
        for hash in hashes:
            found[hash] = found.get(hash, frozenset()) | {node}
    return found


def forget_gone(templates_dir: Path, now: datetime) -> None:
    """Forget nodes that said nothing for a day and whose data folder is no more."""
    for file, (node, _) in _said(templates_dir).items():
        if not node.exists() and _written_at(file) < now - _FORGOTTEN_AFTER:
            file.unlink(missing_ok=True)


def _written_at(file: Path) -> datetime:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except FileNotFoundError:
        return datetime.max.replace(tzinfo=UTC)


def _said(templates_dir: Path) -> Mapping[Path, tuple[Path, Collection[str]]]:
    """To take what cannot be read for nothing would cost somebody his files."""
    said: dict[Path, tuple[Path, Collection[str]]] = {}
    for file in sorted((templates_dir / _FOLDER).glob("*.json")):
        try:
            fields = json.loads(file.read_text())
            said[file] = (Path(fields["node"]), cast(Collection[str], fields["hashes"]))
        except FileNotFoundError:
            continue  # another node has just forgotten it
        except (ValueError, KeyError, TypeError) as error:
            raise NeedsUnreadable(file=str(file)) from error
    return said
