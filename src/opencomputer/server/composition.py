"""Services put together from stores and machines. Which stores and machines is `main.py`'s choice."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.host import HostGauge
from opencomputer.server.contracts.machine import Machines
from opencomputer.server.contracts.models import ModelProvider
from opencomputer.server.contracts.stores import ApiKeyStore, MachineStore, OrganisationStore, SandboxStore
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
from opencomputer.server.services.sandboxes.agents import Agents
from opencomputer.server.services.sandboxes.commands import Commands
from opencomputer.server.services.sandboxes.gateway import ModelGateway
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle, machine_limits
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.pool import Pool, PoolSettings
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.sessions import Sessions
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
    machines: Machines
    templates: TemplateCatalogue
    models: ModelProvider
    gauge: HostGauge
    clock: Clock
    metadata_at: tuple[str, int] | None


def compose(
    settings: Settings, plugins: Plugins, background: Background, token_secret: bytes, golden_folder: Path
) -> Parts:
    shape = resolve_shape(None, None, None, disk_cap_mb=settings.disk_cap_mb)
    access = Access(plugins.organisations, plugins.api_keys, plugins.clock, token_secret)
    provisioning = Provisioning(plugins.machines, plugins.machine_rows, plugins.clock)
    golden = GoldenImages(golden_folder, plugins.machines, provisioning)
    pool_settings = PoolSettings(
        policy=PoolPolicy(
            settings.pool.memory_share, _MACHINE_BYTES, settings.pool.minimum, settings.pool.maximum
        ),
        admission=AdmissionPolicy(_MACHINE_BYTES),
        limits=machine_limits(shape),
        parallel_starts=max(2, os.cpu_count() or 1),
    )
    pool = Pool(pool_settings, provisioning, golden, plugins.gauge, plugins.clock)
    live = LiveSandboxes()
    lifecycle = Lifecycle(
        plugins.sandboxes,
        live,
        pool,
        provisioning,
        plugins.templates,
        plugins.clock,
        background,
        concurrency_limit=settings.sandboxes_per_org,
    )
    sessions = Sessions()
    gateway = ModelGateway(plugins.models)
    services = Services(
        access=access,
        lifecycle=lifecycle,
        live=live,
        pool=pool,
        commands=Commands(plugins.clock, background),
        sessions=sessions,
        agents=Agents(sessions, gateway_available=gateway.available and plugins.metadata_at is not None),
        templates=plugins.templates,
        gateway=gateway,
        clock=plugins.clock,
        presentation=Presentation(
            settings.public_url, settings.sandbox_domain, settings.region, settings.disk_cap_mb
        ),
    )
    return Parts(
        app=create_app(services),
        metadata_app=create_metadata_app(services),
        metadata_at=plugins.metadata_at,
        access=access,
        lifecycle=lifecycle,
        pool=pool,
        reconciler=Reconciler(
            plugins.sandboxes, provisioning, lifecycle, pool, golden, plugins.templates, plugins.clock
        ),
    )
