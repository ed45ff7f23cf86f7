"""Images: found by content, built once, shared by all who ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

import structlog

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.images import ImageStore, NamedSnapshotStore, PrefixStore
from opencomputer.server.contracts.stores import SnapshotStore
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.domain.builds import BuildState, ImageRow
from opencomputer.server.domain.errors import (
    ArtefactDamaged,
    ArtefactMissing,
    InvalidInput,
    NotReady,
    OpenComputerError,
)
from opencomputer.server.domain.image import parse_manifest
from opencomputer.server.domain.snapshot import Snapshot, SnapshotPurpose, SnapshotState
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.build_log import BuildLine, BuildLog, Listener, nobody
from opencomputer.server.services.sandboxes.image_builds import ImageBuilder, ImageJob, ImageRequest
from opencomputer.wire.ids import OrgId, SnapshotId

_log = structlog.get_logger(__name__)

BUILDS_AT_ONCE = 2
_KEEP_UNUSED = timedelta(days=30)
_KEEP_UNUSED_PREFIX = timedelta(days=7)
_YOUNG = timedelta(hours=1)

_Key = tuple[OrgId, str]


@dataclass(frozen=True)
class ImageStores:
    """Where images are written down, and where what they consist of is kept."""

    images: ImageStore
    prefixes: PrefixStore
    named: NamedSnapshotStore
    snapshots: SnapshotStore
    artefacts: Artefacts


@dataclass(eq=False)
class _Flight:
    """A build under way."""

    log: BuildLog
    task: asyncio.Task[Snapshot | OpenComputerError]


class Images:
    """A build goes on when those who asked for it leave. One that failed is forgotten."""

    def __init__(
        self,
        stores: ImageStores,
        builder: ImageBuilder,
        templates: TemplateCatalogue,
        clock: Clock,
        background: Background,
    ) -> None:
        self._stores = stores
        self._builder = builder
        self._templates = templates
        self._clock = clock
        self._background = background
        self._flights: dict[_Key, _Flight] = {}
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(BUILDS_AT_ONCE)

    def prepare(self, manifest: object) -> ImageRequest:
        """Understand a manifest. Raises InvalidInput, and does nothing else."""
        definition = parse_manifest(manifest)
        template = self._templates.get(definition.base)
        if template is None:
            raise InvalidInput(f"image.base: there is no template {definition.base!r}", field="image.base")
        return ImageRequest(definition, template)

    async def resolve(self, org_id: OrgId, image: ImageRequest, log: Listener = nobody) -> Snapshot:
        """What sandboxes of this image start from; builds it when that is needed.

        `log` gets every line of the build, from the first. Raises BuildFailed, NoCapacity, HostDiskFull, and
        NotReady when the server stops.
        """
        key = org_id, image.key
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            found = self._flights.get(key) or await self._cached(org_id, image) or self._begin(org_id, image)
        if isinstance(found, Snapshot):
            await log(BuildLine(0, "cache_hit", "The image is built already"))
            return found
        return await self._follow(found, log)

    async def cached(self, snapshot_id: SnapshotId | None) -> Snapshot | None:
        """A snapshot that is ready and whose files are all there."""
        snapshot = None if snapshot_id is None else await self._stores.snapshots.get(snapshot_id)
        if snapshot is None or snapshot.state is not SnapshotState.READY:
            return None
        origin = snapshot.origin
        if self._templates.find(origin.template, origin.template_hash) is None:
            return None
        try:
            for layer in origin.layers:
                await self._stores.artefacts.layer(layer)
        except (ArtefactMissing, ArtefactDamaged) as error:
            _log.warning("files of an image are gone; it will be built again", error=str(error))
            return None
        return snapshot

    async def list(self, org_id: OrgId) -> Sequence[ImageRow]:
        """The organisation's builds that are ready, newest first."""
        return await self._stores.images.list(org_id)

    async def row(self, org_id: OrgId, image: ImageRequest) -> ImageRow | None:
        return await self._stores.images.get(org_id, image.key)

    async def recover(self, before: datetime) -> None:
        """Forget what an earlier process, one that ended `before`, did not finish."""
        for row in await self._stores.images.all():
            if row.state is not BuildState.READY and row.created_at < before:
                await self._stores.images.remove(row.org_id, row.key)
        snapshots = self._stores.snapshots
        for state in (SnapshotState.PROCESSING, SnapshotState.FAILED):
            for snapshot in await snapshots.in_state(state, SnapshotPurpose.IMAGE):
                if snapshot.created_at < before:
                    await snapshots.remove(snapshot.id)
        await self._remove_orphans(before)

    async def remove_unused(self) -> None:
        """Forget builds that nobody has used for long. Named ones stay, and so do sandboxes."""
        now = self._clock.now()
        stores = self._stores
        for row in await stores.images.all():
            building = (row.org_id, row.key) in self._flights
            if row.last_used_at < now - _KEEP_UNUSED and not building:
                await stores.images.remove(row.org_id, row.key)
        for row in await stores.prefixes.all():
            if row.last_used_at < now - _KEEP_UNUSED_PREFIX:
                await stores.prefixes.remove(row.org_id, row.key)
        await self._remove_orphans(now - _YOUNG)

    async def _cached(self, org_id: OrgId, image: ImageRequest) -> Snapshot | None:
        row = await self._stores.images.get(org_id, image.key)
        if row is None or row.state is not BuildState.READY:
            return None
        snapshot = await self.cached(row.snapshot_id)
        if snapshot is not None:
            await self._stores.images.used(org_id, image.key, self._clock.now())
        return snapshot

    def _begin(self, org_id: OrgId, image: ImageRequest) -> _Flight:
        log = BuildLog()
        work = self._fly(ImageJob(org_id, image, log))
        task = self._background.start(work, name=f"build image {image.definition.content_hash[:12]}")
        flight = self._flights[org_id, image.key] = _Flight(log, task)
        task.add_done_callback(lambda _: self._land(org_id, image.key, flight))
        return flight

    def _land(self, org_id: OrgId, key: str, flight: _Flight) -> None:
        flight.log.close()
        if self._flights.get((org_id, key)) is flight:
            del self._flights[org_id, key]

    async def _follow(self, flight: _Flight, log: Listener) -> Snapshot:
        async for line in flight.log.follow():
            await log(line)
        await asyncio.wait([flight.task])
        if flight.task.cancelled():
            raise NotReady("the server stops; try again shortly")
        outcome = flight.task.result()
        if isinstance(outcome, OpenComputerError):
            raise outcome
        return outcome

    async def _fly(self, job: ImageJob) -> Snapshot | OpenComputerError:
        """How a build ended, for all who wait: that a step fails is nothing to be logged as an error."""
        try:
            return await self._build(job)
        except OpenComputerError as error:
            _log.info("an image was not built", org=job.org_id, code=error.code)
            return error

    async def _build(self, job: ImageJob) -> Snapshot:
        definition, now = job.image.definition, self._clock.now()
        row = ImageRow(
            org_id=job.org_id,
            key=job.image.key,
            content_hash=definition.content_hash,
            state=BuildState.BUILDING,
            shown_manifest=definition.shown_manifest,
            created_at=now,
            last_used_at=now,
        )
        await self._stores.images.begin(row)
        try:
            if self._places.locked():
                job.log.add(0, "build", "Waiting for other builds")
            async with self._places:
                job.log.add(0, "build", f"Building from {job.image.template.name}")
                snapshot = await self._builder.build(job)
            await self._stores.images.ready(row.org_id, row.key, snapshot.id)
        except BaseException:
            await asyncio.shield(self._stores.images.remove(row.org_id, row.key))
            raise
        return snapshot

    async def _remove_orphans(self, before: datetime) -> None:
        """Remove what no image, prefix or name refers to; what is younger may not be referred to yet."""
        stores = self._stores
        referred = {row.snapshot_id for row in await stores.images.all()}
        referred |= {row.snapshot_id for row in await stores.prefixes.all()}
        referred |= {row.snapshot_id for row in await stores.named.all()}
        for snapshot in await stores.snapshots.in_state(SnapshotState.READY, SnapshotPurpose.IMAGE):
            if snapshot.id not in referred and snapshot.created_at < before:
                await stores.snapshots.remove(snapshot.id)
