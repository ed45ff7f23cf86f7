"""Named snapshots: images that an organisation built ahead and starts sandboxes from by name."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.images import NamedSnapshotStore
from opencomputer.server.contracts.stores import OrganisationStore
from opencomputer.server.domain import naming
from opencomputer.server.domain.builds import BuildState, NamedSnapshot
from opencomputer.server.domain.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    NotReady,
    OpenComputerError,
)
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.build_log import BuildLine, BuildLog, Listener, nobody
from opencomputer.server.services.sandboxes.image_builds import ImageRequest
from opencomputer.server.services.sandboxes.images import Images
from opencomputer.wire.ids import OrgId, SnapshotId

_log = structlog.get_logger(__name__)

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(eq=False)
class _Creation:
    log: BuildLog
    task: asyncio.Task[NamedSnapshot | OpenComputerError]


class NamedSnapshots:
    """Names are per organisation. The platform's own, which is the first, may publish some for all."""

    def __init__(
        self,
        store: NamedSnapshotStore,
        images: Images,
        organisations: OrganisationStore,
        clock: Clock,
        background: Background,
    ) -> None:
        self._store = store
        self._images = images
        self._organisations = organisations
        self._clock = clock
        self._background = background
        self._creations: dict[SnapshotId, _Creation] = {}

    async def begin(
        self, org_id: OrgId, name: str, image: ImageRequest, field: str = "name"
    ) -> NamedSnapshot:
        """Reserve the name and start to build; `follow` waits for it.

        The build goes on whoever leaves. Raises InvalidInput for a bad name, Conflict for one that is taken.
        """
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise InvalidInput(f"{field}: must have 1 to 128 of A-Z a-z 0-9 . _ -", field=field)
        definition = image.definition
        row = NamedSnapshot(
            id=naming.new_snapshot_id(),
            org_id=org_id,
            name=name,
            state=BuildState.BUILDING,
            content_hash=definition.content_hash,
            shown_manifest=definition.shown_manifest,
            created_at=self._clock.now(),
        )
        await self._store.reserve(row, definition.manifest)
        self._start(row, image)
        return row

    async def ensure(self, org_id: OrgId, name: str, image: ImageRequest) -> NamedSnapshot:
        """As `begin`, for a name in a manifest: a snapshot of it with the same content is the one."""
        present = await self._store.get(org_id, name)
        same = present is not None and present.content_hash == image.definition.content_hash
        if present is not None and same and present.state is not BuildState.FAILED:
            return present
        return await self.begin(org_id, name, image, "image.name")

    async def follow(self, row: NamedSnapshot, log: Listener = nobody) -> NamedSnapshot:
        """Wait until it is ready; `log` gets every line. Raises BuildFailed and what else ends a build."""
        creation = self._creations.get(row.id)
        if creation is None:
            return await self.get(row.org_id, row.name)
        async for line in creation.log.follow():
            await log(line)
        await asyncio.wait([creation.task])
        if creation.task.cancelled():
            raise NotReady("the server stops; the snapshot will be built when it is back")
        outcome = creation.task.result()
        if isinstance(outcome, OpenComputerError):
            raise outcome
        return outcome

    async def get(self, org_id: OrgId, name: str) -> NamedSnapshot:
        row = await self._store.get(org_id, name)
        if row is None:
            raise NotFound("there is no snapshot of this name")
        return row

    async def list(self, org_id: OrgId) -> Sequence[NamedSnapshot]:
        """Newest first."""
        return await self._store.list(org_id)

    async def delete(self, org_id: OrgId, name: str) -> None:
        """Remove a name. Sandboxes made from it go on."""
        if not await self._store.remove(org_id, name):
            raise NotFound("there is no snapshot of this name")

    async def publish(self, org_id: OrgId, name: str, *, public: bool) -> NamedSnapshot:
        """Let every organisation start from it, or no longer."""
        row = await self.get(org_id, name)
        if org_id != await self._platform():
            raise Forbidden("only the platform's own organisation can publish snapshots")
        await self._store.publish(row.id, public)
        return replace(row, is_public=public)

    async def lookup(self, org_id: OrgId, name: str) -> NamedSnapshot:
        """The snapshot that a sandbox may start from: the organisation's own, else a published one.

        Raises InvalidInput when there is none that is ready.
        """
        row = await self._find(org_id, name)
        if row is None:
            raise InvalidInput(f"snapshot: there is no snapshot {name!r}", field="snapshot")
        if row.state is not BuildState.READY:
            raise InvalidInput(f"snapshot: {name!r} is not ready ({row.state})", field="snapshot")
        return row

    async def resolve(self, org_id: OrgId, name: str, log: Listener = nobody) -> Snapshot:
        """What a sandbox of this name starts from; built again when files are gone. Raises as `lookup`."""
        row = await self.lookup(org_id, name)
        await log(BuildLine(0, "resolve", f"Starting from snapshot {name}"))
        snapshot = await self._images.cached(row.snapshot_id) or await self._rebuilt(row, log)
        await self._store.used(row.id, self._clock.now())
        return snapshot

    async def recover(self, before: datetime) -> None:
        """Go on with what an earlier process, one that ended `before`, did not finish."""
        for row in await self._store.all():
            if row.state is BuildState.BUILDING and row.created_at < before:
                try:
                    self._start(row, await self._request(row))
                except OpenComputerError as error:
                    await self._store.settle(row.id, BuildState.FAILED, None, error.message)

    async def _find(self, org_id: OrgId, name: str) -> NamedSnapshot | None:
        row = await self._store.get(org_id, name)
        platform = None if row is not None else await self._platform()
        if platform is None:
            return row
        published = await self._store.get(platform, name)
        return published if published is not None and published.is_public else None

    async def _platform(self) -> OrgId | None:
        first = await self._organisations.first()
        return None if first is None else first.id

    def _start(self, row: NamedSnapshot, image: ImageRequest) -> None:
        log = BuildLog()
        task = self._background.start(self._build(row, image, log), name=f"build snapshot {row.id}")
        self._creations[row.id] = _Creation(log, task)

    async def _build(
        self, row: NamedSnapshot, image: ImageRequest, log: BuildLog
    ) -> NamedSnapshot | OpenComputerError:
        async def listen(line: BuildLine) -> None:
            log.add(line.step, line.type, line.message)

        try:
            snapshot = await self._images.resolve(row.org_id, image, listen)
            await self._store.settle(row.id, BuildState.READY, snapshot.id, None)
            return replace(row, state=BuildState.READY, snapshot_id=snapshot.id)
        except Exception as error:
            # The top of a task: whatever went wrong, the name must not stay in between.
            known = error if isinstance(error, OpenComputerError) else OpenComputerError()
            if known is not error:
                _log.exception("a snapshot was not built", snapshot=row.id)
            if not isinstance(error, NotReady):  # then it is built when the server is back
                await self._store.settle(row.id, BuildState.FAILED, None, known.message)
            return known
        finally:
            log.close()
            self._creations.pop(row.id, None)

    async def _request(self, row: NamedSnapshot) -> ImageRequest:
        manifest = await self._store.manifest(row.id)
        if manifest is None:
            raise NotFound("there is no snapshot of this name")
        return await asyncio.to_thread(lambda: self._images.prepare(json.loads(manifest)))

    async def _rebuilt(self, row: NamedSnapshot, log: Listener) -> Snapshot:
        _log.warning("a snapshot has to be built again", snapshot=row.id)
        snapshot = await self._images.resolve(row.org_id, await self._request(row), log)
        await self._store.settle(row.id, BuildState.READY, snapshot.id, None)
        return snapshot
