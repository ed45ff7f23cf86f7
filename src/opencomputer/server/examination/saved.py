"""What is saved of sandboxes: is all of it there that the database refers to, and is it what it was?"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from opencomputer.server.examination.check import Check
from opencomputer.server.stores.artefacts.digests import digest_file
from opencomputer.server.stores.artefacts.manifest import Manifest
from opencomputer.server.stores.sql.copies import CopyFacts, facts_of

_BLOBS = Path("artefacts/blobs")


def look_at_saved(data: Path, *, deep: bool) -> Check:
    """Layers and memory images. Whether layers are whole is seen elsewhere; of images only if `deep`."""
    database = data / "opencomputer.db"
    try:
        faults = _faults(data / _BLOBS, facts_of(database), deep=deep)
        # A node that runs lets go of some meanwhile: what it does not refer to any more is not missed.
        after = facts_of(database) if faults else None
    except (sqlite3.Error, ValueError):
        return Check("saved states", "ok", "Not looked at: the database does not say what there has to be.")
    wanted = frozenset[str]() if after is None else {*after.layers, *after.memories}
    return judge_saved([fault for id, fault in faults.items() if id in wanted])


def judge_saved(faults: list[str]) -> Check:
    if not faults:
        return Check("saved states", "ok", "All that the database refers to is there.")
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return Check(
        "saved states",
        "fail",
        f"What saved sandboxes stand on is not there as it was: {faults[0]}{more}.",
        "They cannot start again. Stop the node and restore a backup (docs/operating/backup.md), or delete "
        "the checkpoints and sandboxes that do not start.",
    )


def _faults(blobs: Path, facts: CopyFacts, *, deep: bool) -> Mapping[str, str]:
    """By the id of the layer or image."""
    found = {
        str(layer): f"layer {layer} is missing"
        for layer in facts.layers
        if not (blobs / "layers" / f"{layer}.tar").is_file()
    }
    for memory in facts.memories:
        fault = _fault_of_image(blobs / "memories" / memory, memory, deep=deep)
        if fault is not None:
            found[str(memory)] = f"memory image {memory} {fault}"
    return found


def _fault_of_image(folder: Path, memory: str, *, deep: bool) -> str | None:
    try:
        content = (folder / "manifest.json").read_bytes()
        if hashlib.sha256(content).hexdigest() != memory:
            return "is damaged"
        for number, file in enumerate(Manifest.from_bytes(content).files):
            blob = folder / str(number)
            if blob.stat().st_size != file.size_bytes or (deep and digest_file(blob) != file.digest):
                return "is damaged"
    except (FileNotFoundError, NotADirectoryError):
        return "is missing, or not whole"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None
