"""Building an image: steps in hidden machines, files kept after each part, at last a machine to copy."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.images import PrefixRow, PrefixStore
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import SnapshotStore
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    ArtefactDamaged,
    ArtefactMissing,
    BuildFailed,
    GuestFault,
    MachineLost,
    SnapshotRefused,
    StartFailed,
)
from opencomputer.server.domain.image import (
    AddDirectory,
    AddFile,
    AptInstall,
    Env,
    ImageDefinition,
    ImageFacts,
    PipInstall,
    Run,
    Step,
    Workdir,
    command_steps_end,
)
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.limits import MIN_DISK_MB, TIERS
from opencomputer.server.domain.sandbox import SandboxShape
from opencomputer.server.domain.snapshot import (
    Origin,
    Snapshot,
    SnapshotKind,
    SnapshotPurpose,
    SnapshotState,
)
from opencomputer.server.services.sandboxes.build_log import BuildLog
from opencomputer.server.services.sandboxes.builder_machines import BuilderMachines
from opencomputer.server.services.sandboxes.capture import Captured, Captures, write_ready
from opencomputer.server.services.sandboxes.image_steps import (
    Program,
    StepFailed,
    clear_scratch,
    keep_scratch,
    restore_scratch,
    run_program,
    run_step,
)
from opencomputer.wire.ids import OrgId

_log = structlog.get_logger(__name__)

# What first commands need; the machine that is saved has it in its caches.
_WARM_UP = (
    ("/bin/sh", "-c", "true"),
    ("bash", "--noprofile", "--norc", "-c", "true"),
    ("node", "-v"),
    ("python3", "-c", "import json, os, sys"),
    ("git", "--version"),
)
_SHOWN_ITEMS = 5
_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class ImageRequest:
    """A definition and the build of a template that it is to be made from."""

    definition: ImageDefinition
    template: TemplateLayers

    @property
    def key(self) -> str:
        return self.definition.key(self.template.hash)

    def facts(self, count: int | None = None) -> ImageFacts:
        """What template and steps say about processes after the first `count` steps, or all."""
        steps = self.definition.facts(count)
        environment = {**self.template.environment, **steps.environment}
        return ImageFacts(environment, steps.workdir or self.template.workdir)


@dataclass(frozen=True)
class ImageJob:
    """One build, and whose it is."""

    org_id: OrgId
    image: ImageRequest
    log: BuildLog


@dataclass(frozen=True)
class _Files:
    """The files after the first `count` steps: layers above the template."""

    count: int
    layers: tuple[LayerId, ...]


class ImageBuilder:
    """Builds images. Whatever happens, no machine of a build is there afterwards."""

    def __init__(
        self,
        machines: BuilderMachines,
        captures: Captures,
        snapshots: SnapshotStore,
        prefixes: PrefixStore,
        clock: Clock,
    ) -> None:
        self._machines = machines
        self._captures = captures
        self._snapshots = snapshots
        self._prefixes = prefixes
        self._clock = clock

    async def build(self, job: ImageJob) -> Snapshot:
        """Run the steps whose files are not kept yet, and return a snapshot to start sandboxes from.

        Raises BuildFailed with the step's output, NoCapacity, HostDiskFull.
        """
        begun = await self._longest_prefix(job)
        try:
            return await self._build_from(job, begun)
        except (ArtefactMissing, ArtefactDamaged) as error:
            if begun.count == 0:
                raise
            _log.warning("files of an image's first steps are gone; building all of it", error=str(error))
        await self._forget_prefixes(job)
        return await self._build_from(job, _Files(0, ()))

    async def _build_from(self, job: ImageJob, files: _Files) -> Snapshot:
        steps = job.image.definition.steps
        for number, step in enumerate(steps[: files.count], 1):
            job.log.add(number, step.type, f"{_title(number, len(steps), step)}: cached")
        while files.count < len(steps):
            files = await self._run_part(job, files)
        return await self._finish(job, files.layers)

    async def _longest_prefix(self, job: ImageJob) -> _Files:
        keys = job.image.definition.prefix_keys(job.image.template.hash)
        known = await self._prefixes.find(job.org_id, keys[1:])
        for count in range(len(keys) - 1, 0, -1):
            snapshot_id = known.get(keys[count])
            snapshot = None if snapshot_id is None else await self._snapshots.get(snapshot_id)
            if snapshot is not None and snapshot.state is SnapshotState.READY:
                await self._prefixes.used(job.org_id, keys[count], self._clock.now())
                return _Files(count, snapshot.origin.layers)
        return _Files(0, ())

    async def _forget_prefixes(self, job: ImageJob) -> None:
        keys = job.image.definition.prefix_keys(job.image.template.hash)
        for key, snapshot_id in (await self._prefixes.find(job.org_id, keys)).items():
            await self._prefixes.remove(job.org_id, key)
            await self._snapshots.remove(snapshot_id)

    async def _run_part(self, job: ImageJob, files: _Files) -> _Files:
        """Steps up to the next one that runs programs, in a machine of their own.

        Each part's layer then has that part's changes and no others', and what an earlier step left running
        does not disturb.
        """
        definition = job.image.definition
        end = command_steps_end(definition.steps, files.count)
        shape = _shape(definition.builder_memory_mb)
        try:
            async with self._machines.running(job.image.template, files.layers, shape) as machine:
                await restore_scratch(machine)
                for number in range(files.count + 1, end + 1):
                    await self._run_step(job, machine, number)
                await keep_scratch(machine)
                async with self._captures.saving(machine, files.layers, memory=False, go_on=False) as saving:
                    layers, size = await saving.keep_files()
        except StepFailed as failed:
            raise BuildFailed(f"the files of a step could not be saved: {failed.reason}") from failed
        except (MachineLost, StartFailed, GuestFault, SnapshotRefused) as error:
            raise BuildFailed(f"the build's machine failed: {error.message}") from error
        await self._keep_prefix(job, _Files(end, layers), size)
        return _Files(end, layers)

    async def _run_step(self, job: ImageJob, machine: Machine, number: int) -> None:
        definition = job.image.definition
        step = definition.steps[number - 1]
        title = _title(number, len(definition.steps), step)
        job.log.add(number, step.type, f"{title}: {_summary(step)}")
        begun = self._clock.monotonic()
        try:
            await run_step(
                machine, step, job.image.facts(number), lambda line: job.log.add(number, step.type, line)
            )
        except StepFailed as failed:
            tail = f": {failed.tail}" if failed.tail else ""
            raise BuildFailed(
                f"step {number} ({step.type}) failed ({failed.reason}){tail}", step=number, type=step.type
            ) from failed
        job.log.add(number, step.type, f"{title} done in {self._clock.monotonic() - begun:.1f} s")

    async def _keep_prefix(self, job: ImageJob, files: _Files, size_bytes: int) -> None:
        definition = job.image.definition
        shape = _shape(definition.builder_memory_mb)
        snapshot = await self._keep(job, shape, files.count, Captured(files.layers, None, size_bytes))
        key = definition.prefix_keys(job.image.template.hash)[files.count]
        await self._prefixes.keep(PrefixRow(job.org_id, key, snapshot.id, self._clock.now()))

    async def _finish(self, job: ImageJob, layers: tuple[LayerId, ...]) -> Snapshot:
        """Boot what was built, as small as sandboxes of it may be, and keep that with its memory."""
        count = len(job.image.definition.steps)
        job.log.add(count + 1, "checkpoint", "Booting and saving the image")
        shape = _shape(job.image.definition.runtime_memory_mb)
        try:
            async with self._machines.running(job.image.template, layers, shape) as machine:
                await clear_scratch(machine)
                await _warm_up(machine)
                captured = await self._capture(machine, layers)
        except (StepFailed, MachineLost, StartFailed, GuestFault, SnapshotRefused) as error:
            reason = error.reason if isinstance(error, StepFailed) else error.message
            raise BuildFailed(
                f"the image was built, but a machine made from it does not work: {reason}"
            ) from error
        return await self._keep(job, shape, count, captured)

    async def _capture(self, machine: Machine, layers: tuple[LayerId, ...]) -> Captured:
        try:
            async with self._captures.saving(machine, layers, memory=True, go_on=False) as saving:
                return await saving.keep(memory=True)
        except SnapshotRefused as refused:
            _log.warning("an image has no memory; its sandboxes will start cold", reason=refused.message)
        async with self._captures.saving(machine, layers, memory=False, go_on=False) as saving:
            return await saving.keep(memory=False)

    async def _keep(self, job: ImageJob, shape: SandboxShape, count: int, captured: Captured) -> Snapshot:
        """Write the row. What it names was kept a moment ago, and is not collected before that."""
        facts = job.image.facts(count)
        snapshot = Snapshot(
            id=naming.new_snapshot_id(),
            org_id=job.org_id,
            purpose=SnapshotPurpose.IMAGE,
            kind=SnapshotKind.DISK_ONLY if captured.memory is None else SnapshotKind.FULL,
            state=SnapshotState.PROCESSING,
            origin=Origin(
                template=job.image.template.name,
                template_hash=job.image.template.hash,
                shape=shape,
                layers=captured.layers,
                environment=facts.environment,
                workdir=facts.workdir,
            ),
            created_at=self._clock.now(),
        )
        await self._snapshots.add(snapshot)
        await write_ready(self._snapshots, snapshot.id, captured, self._clock.now())
        kept = await self._snapshots.get(snapshot.id)
        assert kept is not None, "nobody else knows of it yet"
        return kept


async def _warm_up(machine: Machine) -> None:
    for argv in _WARM_UP:
        try:
            await run_program(machine, Program(argv, "sandbox"), lambda _: None)
        except StepFailed:
            continue  # as good as one that works: the template may not have this program


def _shape(memory_mb: int) -> SandboxShape:
    cpus = max(cpus for size, cpus in TIERS.items() if size <= memory_mb)
    return SandboxShape(memory_mb, cpus, MIN_DISK_MB)


def _title(number: int, count: int, step: Step) -> str:
    return f"Step {number}/{count} ({step.type})"


def _summary(step: Step) -> str:
    match step:
        case AptInstall(packages) | PipInstall(packages):
            text = _some(packages)
        case Run(commands):
            text = "; ".join(commands)
        case Env(variables):
            # Names only: a value may be a secret, and logs travel further than images.
            text = _some(tuple(variables))
        case Workdir(path):
            text = path
        case AddFile(file):
            text = f"{file.path} ({len(file.content)} bytes)"
        case AddDirectory(path, files):
            text = f"{path} ({len(files)} files)"
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN_ITEMS
    return ", ".join(names[:_SHOWN_ITEMS]) + (f" and {more} more" if more > 0 else "")
