"""Services put together from stores and machines. Which stores and machines is `main.py`'s choice."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.host import HostGauge
from opencomputer.server.contracts.images import ImageStore, NamedSnapshotStore, PrefixStore
from opencomputer.server.contracts.machine import Machines
from opencomputer.server.contracts.models import ModelProvider
from opencomputer.server.contracts.stores import (
    ApiKeyStore,
    MachineStore,
    OrganisationStore,
    PatchStore,
    SandboxStore,
    SnapshotStore,
)
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.domain.capacity import AdmissionPolicy, PoolPolicy
from opencomputer.server.domain.limits import resolve_shape
from opencomputer.server.http.app import create_app
from opencomputer.server.http.metadata import create_metadata_app
from opencomputer.server.node import Parts
from opencomputer.server.services.access import Access
from opencomputer.server.services.background import Background
from opencomputer.server.services.facade import Presentation, Services
from opencomputer.server.services.reconciler import Reconciler
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.agents import Agents
from opencomputer.server.services.sandboxes.boot import Boot, machine_limits
from opencomputer.server.services.sandboxes.builder_machines import HiddenMachines
from opencomputer.server.services.sandboxes.capture import Captures
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints
from opencomputer.server.services.sandboxes.collection import Collection
from opencomputer.server.services.sandboxes.commands import Commands
from opencomputer.server.services.sandboxes.diffs import Diffs
from opencomputer.server.services.sandboxes.forks import Forks
from opencomputer.server.services.sandboxes.gateway import ModelGateway
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.hibernation import Hibernation
from opencomputer.server.services.sandboxes.idle import IdleTimeouts
from opencomputer.server.services.sandboxes.image_builds import ImageBuilder
from opencomputer.server.services.sandboxes.image_upkeep import ImageUpkeep
from opencomputer.server.services.sandboxes.images import Images, ImageStores
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.named_snapshots import NamedSnapshots
from opencomputer.server.services.sandboxes.patches import Patches
from opencomputer.server.services.sandboxes.pool import Pool, PoolSettings
from opencomputer.server.services.sandboxes.power import Power
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.reach import Reach
from opencomputer.server.services.sandboxes.restores import Restores
from opencomputer.server.services.sandboxes.sessions import Sessions
from opencomputer.server.services.sandboxes.succession import Succession
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.server.settings import Settings

# What one idle machine adds to the host; bench density measures it.
_MACHINE_BYTES = 24 << 20


@dataclass(frozen=True)
class Plugins:
    """One of each kind of plug-in, chosen by the composition root."""

    organisations: OrganisationStore
    api_keys: ApiKeyStore
    sandboxes: SandboxStore
    machine_rows: MachineStore
    snapshots: SnapshotStore
    patches: PatchStore
    images: ImageStore
    image_prefixes: PrefixStore
    named_snapshots: NamedSnapshotStore
    artefacts: Artefacts
    machines: Machines
    templates: TemplateCatalogue
    models: ModelProvider
    gauge: HostGauge
    clock: Clock
    metadata_at: tuple[str, int] | None


@dataclass(frozen=True)
class _Machinery:
    """What the use cases share: machines, and who has which."""

    golden: GoldenImages
    provisioning: Provisioning
    admission: Admission
    pool: Pool
    boot: Boot
    captures: Captures
    live: LiveSandboxes
    transitions: Transitions
    lifecycle: Lifecycle


def compose(
    settings: Settings, plugins: Plugins, background: Background, token_secret: bytes, golden_folder: Path
) -> Parts:
    machinery = _machinery(settings, plugins, background, golden_folder)
    access = Access(plugins.organisations, plugins.api_keys, plugins.clock, token_secret)
    services = _services(settings, plugins, background, machinery, access)
    return Parts(
        app=create_app(services),
        metadata_app=create_metadata_app(services),
        metadata_at=plugins.metadata_at,
        access=access,
        lifecycle=machinery.lifecycle,
        pool=machinery.pool,
        reconciler=Reconciler(
            plugins.sandboxes,
            plugins.snapshots,
            plugins.artefacts,
            machinery.provisioning,
            machinery.lifecycle,
            machinery.pool,
            machinery.golden,
            plugins.templates,
            plugins.clock,
        ),
        keepers=(
            IdleTimeouts(plugins.sandboxes, machinery.live, services.hibernation, plugins.clock, background),
            Collection(
                plugins.artefacts, plugins.snapshots, machinery.golden, plugins.templates, plugins.clock
            ),
            ImageUpkeep(services.images, services.snapshots, plugins.clock),
        ),
    )


def _machinery(
    settings: Settings, plugins: Plugins, background: Background, golden_folder: Path
) -> _Machinery:
    provisioning = Provisioning(plugins.machines, plugins.machine_rows, plugins.clock)
    golden = GoldenImages(golden_folder, plugins.machines, provisioning, plugins.artefacts)
    parallel_starts = max(2, os.cpu_count() or 1)
    admission = Admission(
        AdmissionPolicy(_MACHINE_BYTES), plugins.gauge, provisioning, parallel_starts=parallel_starts
    )
    shape = resolve_shape(None, None, None, disk_cap_mb=settings.disk_cap_mb)
    policy = PoolPolicy(
        settings.pool.memory_share, _MACHINE_BYTES, settings.pool.minimum, settings.pool.maximum
    )
    pool_settings = PoolSettings(policy, machine_limits(shape), parallel_starts)
    pool = Pool(pool_settings, provisioning, golden, admission, plugins.gauge, plugins.clock)
    boot = Boot(pool, provisioning, admission, plugins.templates, plugins.artefacts)
    live = LiveSandboxes()
    transitions = Transitions()
    lifecycle = Lifecycle(
        plugins.sandboxes,
        live,
        boot,
        provisioning,
        plugins.templates,
        plugins.snapshots,
        transitions,
        plugins.clock,
        background,
        concurrency_limit=settings.sandboxes_per_org,
    )
    captures = Captures(plugins.artefacts, provisioning)
    return _Machinery(golden, provisioning, admission, pool, boot, captures, live, transitions, lifecycle)


def _services(
    settings: Settings, plugins: Plugins, background: Background, machinery: _Machinery, access: Access
) -> Services:
    clock, lifecycle, transitions = plugins.clock, machinery.lifecycle, machinery.transitions
    boot, captures, live = machinery.boot, machinery.captures, machinery.live
    patches = Patches(plugins.patches, plugins.snapshots, plugins.sandboxes, transitions, clock)
    checkpoints = Checkpoints(plugins.snapshots, lifecycle, transitions, captures, clock, background)
    succession = Succession(plugins.sandboxes, lifecycle, live, machinery.provisioning, clock, background)
    hibernation = Hibernation(
        plugins.sandboxes,
        plugins.snapshots,
        lifecycle,
        live,
        transitions,
        captures,
        boot,
        machinery.provisioning,
        patches,
        clock,
        background,
        concurrency_limit=settings.sandboxes_per_org,
    )
    images = _images(plugins, background, machinery)
    reach = Reach(lifecycle, live, transitions, hibernation)
    sessions = Sessions()
    gateway = ModelGateway(plugins.models)
    return Services(
        access=access,
        lifecycle=lifecycle,
        reach=reach,
        live=live,
        pool=machinery.pool,
        commands=Commands(clock, background),
        sessions=sessions,
        agents=Agents(sessions, gateway_available=gateway.available and plugins.metadata_at is not None),
        checkpoints=checkpoints,
        forks=Forks(checkpoints, lifecycle, reach, live, transitions, captures, patches, background),
        restores=Restores(checkpoints, lifecycle, transitions, succession, boot, background),
        hibernation=hibernation,
        power=Power(lifecycle, transitions, succession, captures, boot, background),
        patches=patches,
        diffs=Diffs(checkpoints, lifecycle, transitions, captures, plugins.artefacts, plugins.templates),
        images=images,
        snapshots=NamedSnapshots(plugins.named_snapshots, images, plugins.organisations, clock, background),
        templates=plugins.templates,
        gateway=gateway,
        clock=clock,
        presentation=Presentation(
            settings.public_url, settings.sandbox_domain, settings.region, settings.disk_cap_mb
        ),
    )


def _images(plugins: Plugins, background: Background, machinery: _Machinery) -> Images:
    stores = ImageStores(
        plugins.images,
        plugins.image_prefixes,
        plugins.named_snapshots,
        plugins.snapshots,
        plugins.artefacts,
    )
    machines = HiddenMachines(machinery.provisioning, machinery.admission, plugins.artefacts)
    builder = ImageBuilder(
        machines, machinery.captures, plugins.snapshots, plugins.image_prefixes, plugins.clock
    )
    return Images(stores, builder, plugins.templates, plugins.clock, background)
