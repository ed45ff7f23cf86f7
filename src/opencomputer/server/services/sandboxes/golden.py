"""Golden memory images: a machine saved when its guest is ready, from which all others start."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.driver import LAYER, MEMORY, Limits, MachineSpec
from opencomputer.server.contracts.machine import Machines
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import ArtefactDamaged, ArtefactMissing, OpenComputerError
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.rehearsal import rehearse

_SAVED = "saved"
_FACTS = "golden.json"

_log = structlog.get_logger(__name__)

# Run once before the image is taken, so that the first command of every sandbox finds warm caches.
_WARM_UP: Sequence[tuple[str, ...]] = (
    ("/bin/sh", "-c", "true"),
    ("bash", "--noprofile", "--norc", "-c", "true"),
    ("node", "-v"),
    ("python3", "-c", "import json, os, sys"),
    ("git", "--version"),
)


@dataclass(frozen=True)
class GoldenImage:
    """What a machine of a template goes on from: a kept layer above the template's, the memory that knows it,
    and the secret its guest accepts."""

    layer: LayerId
    layer_folder: Path
    memory: Path
    guest_token: str


class GoldenImages:
    """Makes and remembers one image per template, memory size and image version.

    A machine believes to have the memory it was born with. A template that cannot be saved has no image:
    its machines start cold.
    """

    def __init__(
        self, folder: Path, machines: Machines, provisioning: Provisioning, artefacts: Artefacts
    ) -> None:
        self._folder = folder
        self._artefacts = artefacts
        self._machines = machines
        self._provisioning = provisioning
        self._locks: dict[str, asyncio.Lock] = {}
        self._refused: set[str] = set()

    async def get(self, template: TemplateLayers, limits: Limits) -> GoldenImage | None:
        """The image of a template; the first caller makes it, the others wait."""
        if not self._machines.capabilities.memory_snapshots:
            return None
        key = f"{self._family(template)}-{limits.memory_bytes >> 20}"
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key in self._refused:
                return None
            image = await self._load(key)
            return image or await self._make(template, limits, key)

    async def remove_stale(self, templates: Sequence[TemplateLayers]) -> None:
        """Delete images that no present template and build can use."""
        wanted = {self._family(template) for template in templates}
        await asyncio.to_thread(self._remove_others, wanted)

    def _family(self, template: TemplateLayers) -> str:
        parts = (template.hash, self._machines.image_version, *map(str, template.layers))
        return f"{template.name}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"

    async def layers(self) -> frozenset[LayerId]:
        """Layers that images stand on: they are needed although no machine may stand on them right now."""
        return await asyncio.to_thread(self._present_layers)

    def _present_layers(self) -> frozenset[LayerId]:
        if not self._folder.is_dir():
            return frozenset()
        facts = (_read_facts(entry) for entry in self._folder.iterdir())
        return frozenset(each.layer for each in facts if each is not None)

    async def _load(self, key: str) -> GoldenImage | None:
        folder = self._folder / key
        facts = await asyncio.to_thread(_read_facts, folder)
        if facts is None:
            return None
        try:
            layer_folder = await self._artefacts.layer(facts.layer)
        except (ArtefactMissing, ArtefactDamaged):
            return None
        return GoldenImage(facts.layer, layer_folder, folder / MEMORY, facts.guest_token)

    async def _make(self, template: TemplateLayers, limits: Limits, key: str) -> GoldenImage | None:
        token = naming.new_guest_token()
        draft = self._folder / _draft_name(key)
        await asyncio.to_thread(_fresh_folder, draft)
        spec = MachineSpec(self._provisioning.new_id(), template.layers, limits, token)
        machine = await self._provisioning.start(spec, template.hash, guest_token=token)
        try:
            await rehearse(machine, token, _WARM_UP, limits)
            await machine.save(draft / _SAVED)
            layer = await self._artefacts.keep_layer(draft / _SAVED / LAYER)
            facts = _Facts(layer.id, token)
            await asyncio.to_thread(_publish, draft / _SAVED, self._folder / key, facts)
        except OpenComputerError as error:
            self._refused.add(key)
            _log.warning(
                "no golden image; machines will start cold", template=template.name, error=str(error)
            )
            return None
        finally:
            await self._provisioning.stop(machine)
            await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)
        _log.info("golden image ready", template=template.name)
        return await self._load(key)

    def _remove_others(self, wanted: set[str]) -> None:
        if not self._folder.is_dir():
            return
        for entry in self._folder.iterdir():
            # The draft of an image that is being made right now has its name behind a dot.
            if entry.name.removeprefix(".").rpartition("-")[0] not in wanted:
                shutil.rmtree(entry, ignore_errors=True)


def _draft_name(key: str) -> str:
    return f".{key}.draft"


def _fresh_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)


@dataclass(frozen=True)
class _Facts:
    layer: LayerId
    guest_token: str


def _read_facts(folder: Path) -> _Facts | None:
    """None when there is no usable image in the folder."""
    if not (folder / MEMORY).is_dir():
        return None
    try:
        found = json.loads((folder / _FACTS).read_text())
        return _Facts(LayerId(found["layer"]), found["guestToken"])
    except (OSError, ValueError, KeyError):
        return None


def _publish(saved: Path, final: Path, facts: _Facts) -> None:
    (saved / _FACTS).write_text(json.dumps({"layer": facts.layer, "guestToken": facts.guest_token}))
    (saved / _FACTS).chmod(0o600)
    shutil.rmtree(final, ignore_errors=True)
    saved.rename(final)
