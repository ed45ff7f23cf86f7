"""Services put together from stores and machines. Which stores and machines is `main.py`'s choice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.brain_states import BrainStates
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.device_logins import DeviceLoginStore
from opencomputer.server.contracts.egress import EgressEventStore, EgressGate
from opencomputer.server.contracts.host import HostGauge
from opencomputer.server.contracts.images import ImageTables
from opencomputer.server.contracts.logs import LogStore
from opencomputer.server.contracts.machine import Machines
from opencomputer.server.contracts.models import KeyedModels, ModelProvider
from opencomputer.server.contracts.previews import PreviewStores
from opencomputer.server.contracts.runtimes import Runtime
from opencomputer.server.contracts.secrets import Keyring, SecretTables
from opencomputer.server.contracts.stores import (
    ApiKeyStore,
    MachineStore,
    OrganisationStore,
    PatchStore,
    SandboxStore,
    SnapshotStore,
)
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.contracts.usage import UsageTables
from opencomputer.server.contracts.webhooks import WebhookSender
from opencomputer.server.domain.capacity import AdmissionPolicy, PoolPolicy
from opencomputer.server.domain.limits import resolve_shape
from opencomputer.server.domain.previews import PreviewDomains
from opencomputer.server.durable import DurableParts, SessionStorage, compose_durable
from opencomputer.server.http.app import create_app
from opencomputer.server.http.metadata import create_metadata_app
from opencomputer.server.identity import NodeIdentity
from opencomputer.server.node import Parts
from opencomputer.server.services.access import Access
from opencomputer.server.services.background import Background
from opencomputer.server.services.device_logins import DeviceLogins
from opencomputer.server.services.facade import (
    Presentation,
    PreviewServices,
    Services,
    UsageServices,
)
from opencomputer.server.services.reconciler import Reconciler
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.agents import Agents
from opencomputer.server.services.sandboxes.audit import Audit
from opencomputer.server.services.sandboxes.autoscaling import Autoscaling
from opencomputer.server.services.sandboxes.boot import Boot, machine_limits
from opencomputer.server.services.sandboxes.builder_machines import HiddenMachines
from opencomputer.server.services.sandboxes.capture import Captures
from opencomputer.server.services.sandboxes.collection import Collection
from opencomputer.server.services.sandboxes.commands import Commands
from opencomputer.server.services.sandboxes.egress import Egress
from opencomputer.server.services.sandboxes.file_urls import FileUrls
from opencomputer.server.services.sandboxes.gateway import ModelGateway
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.idle import IdleTimeouts
from opencomputer.server.services.sandboxes.image_builds import ImageBuilder
from opencomputer.server.services.sandboxes.image_upkeep import ImageUpkeep
from opencomputer.server.services.sandboxes.images import Images, ImageStores
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.logs import Logs
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.named_snapshots import NamedSnapshots
from opencomputer.server.services.sandboxes.operations import Operations, operations
from opencomputer.server.services.sandboxes.pool import Pool, PoolSettings
from opencomputer.server.services.sandboxes.preview_door import PreviewDoor
from opencomputer.server.services.sandboxes.preview_grants import PreviewGrants
from opencomputer.server.services.sandboxes.preview_visits import Visits
from opencomputer.server.services.sandboxes.previews import Previews
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.reach import Reach
from opencomputer.server.services.sandboxes.recording import LogLimits, Recording
from opencomputer.server.services.sandboxes.scaling import Scaling
from opencomputer.server.services.sandboxes.sealing import Sealings
from opencomputer.server.services.sandboxes.secret_upkeep import SecretUpkeep
from opencomputer.server.services.sandboxes.sessions import Sessions
from opencomputer.server.services.sandboxes.tags import SandboxTags
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.server.services.sandboxes.usage_reports import UsageReports
from opencomputer.server.services.sandboxes.usage_sampler import UsageSampler
from opencomputer.server.services.sandboxes.warm import WarmMachines
from opencomputer.server.services.sandboxes.webhook_services import (
    LifecycleWebhookStorage,
    WebhookServices,
    webhook_services,
)
from opencomputer.server.services.secret_stores import SecretStores
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.settings import Settings

# What one idle machine adds to the host; bench density measures it.
_MACHINE_BYTES = 24 << 20


@dataclass(frozen=True)
class Plugins:
    """One of each kind of plug-in, chosen by the composition root."""

    organisations: OrganisationStore
    api_keys: ApiKeyStore
    device_logins: DeviceLoginStore
    sandboxes: SandboxStore
    machine_rows: MachineStore
    snapshots: SnapshotStore
    patches: PatchStore
    usage: UsageTables
    previews: PreviewStores
    images: ImageTables
    artefacts: Artefacts
    machines: Machines
    templates: TemplateCatalogue
    models: ModelProvider
    gauge: HostGauge
    clock: Clock
    metadata_at: tuple[str, int] | None
    secrets: SecretTables
    keyring: Keyring
    gate: EgressGate
    trust: str
    """The certificate, in PEM, of who may open TLS on the way out of machines."""
    egress_events: EgressEventStore
    logs: LogStore
    webhooks: WebhookSender
    lifecycle_webhooks: LifecycleWebhookStorage
    agent_tables: AgentTables
    runtimes: Mapping[str, Runtime]
    sessions: SessionStorage
    brain_states: BrainStates
    upstream_models: KeyedModels
    node: str
    """This node's own name, the same in each life of its process."""


@dataclass(frozen=True)
class _Supply:
    """Where machines come from."""

    provisioning: Provisioning
    golden: GoldenImages
    admission: Admission
    pool: Pool
    warm: WarmMachines
    egress: Egress


@dataclass(frozen=True)
class _Doors:
    """What decides who may come in."""

    access: Access
    file_urls: FileUrls
    client_tokens: ClientTokens


@dataclass(frozen=True)
class _Sides:
    """What services have besides machinery."""

    supply: _Supply
    doors: _Doors
    recording: Recording


def compose(
    settings: Settings, plugins: Plugins, background: Background, identity: NodeIdentity, golden_folder: Path
) -> Parts:
    supply = _supply(settings, plugins, golden_folder)
    machinery = _machinery(settings, plugins, background, supply)
    doors = _doors(plugins, identity)
    recording = _recording(settings, plugins, machinery)
    services = _services(settings, plugins, machinery, _Sides(supply, doors, recording))
    return Parts(
        app=create_app(services),
        metadata_app=create_metadata_app(services),
        metadata_at=plugins.metadata_at,
        access=doors.access,
        lifecycle=machinery.lifecycle,
        pool=supply.pool,
        reconciler=Reconciler(machinery, supply.pool, supply.golden, plugins.usage.ledger),
        keepers=(
            IdleTimeouts(plugins.sandboxes, machinery.live, services.hibernation, plugins.clock, background),
            Autoscaling(machinery, services.scaling, settings.memory_cap_mb),
            Collection(plugins.artefacts, plugins.snapshots, supply.golden, plugins.templates, plugins.clock),
            SecretUpkeep(plugins.secrets.holdings, plugins.clock),
            ImageUpkeep(services.images, services.snapshots, plugins.clock),
            supply.warm,
            recording,
            _sampler(settings, plugins, machinery),
            services.durable.log,
            services.durable.box_upkeep,
            services.durable.engine,
            services.durable.resting,
            services.durable.delivery_keeper,
            services.durable.scheduler,
            services.webhooks.keeper,
            services.webhooks.upkeep,
        ),
    )


def _recording(settings: Settings, plugins: Plugins, machinery: Machinery) -> Recording:
    limits = LogLimits(timedelta(days=settings.logs.days), settings.logs.megabytes << 20)
    return Recording(plugins.logs, machinery.live, plugins.clock, machinery.background, limits)


def _sampler(settings: Settings, plugins: Plugins, machinery: Machinery) -> UsageSampler:
    age = timedelta(days=settings.usage_days)
    return UsageSampler(plugins.usage.ledger, machinery.live, plugins.clock, age)


def _doors(plugins: Plugins, identity: NodeIdentity) -> _Doors:
    return _Doors(
        Access(plugins.organisations, plugins.api_keys, plugins.clock, identity.token_secret),
        FileUrls(plugins.sandboxes, plugins.clock, identity.file_url_secret),
        ClientTokens(identity.client_token_secret, plugins.clock),
    )


def _supply(settings: Settings, plugins: Plugins, golden_folder: Path) -> _Supply:
    egress = Egress(plugins.gate, plugins.secrets.holdings, plugins.keyring)
    egress.trust_authority(plugins.trust)
    provisioning = Provisioning(plugins.machines, plugins.machine_rows, plugins.clock, egress)
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
    warm = WarmMachines(pool, provisioning, plugins.templates, plugins.clock)
    return _Supply(provisioning, golden, admission, pool, warm, egress)


def _machinery(settings: Settings, plugins: Plugins, background: Background, supply: _Supply) -> Machinery:
    boot = Boot(supply.pool, supply.provisioning, supply.admission, plugins.templates, plugins.artefacts)
    live = LiveSandboxes()
    transitions = Transitions()
    lifecycle = Lifecycle(
        plugins.sandboxes,
        live,
        boot,
        supply.provisioning,
        plugins.templates,
        plugins.snapshots,
        transitions,
        plugins.clock,
        background,
        concurrency_limit=settings.sandboxes_per_org,
    )
    return Machinery(
        sandboxes=plugins.sandboxes,
        snapshots=plugins.snapshots,
        artefacts=plugins.artefacts,
        templates=plugins.templates,
        provisioning=supply.provisioning,
        boot=boot,
        captures=Captures(plugins.artefacts, supply.provisioning),
        live=live,
        transitions=transitions,
        lifecycle=lifecycle,
        sealings=Sealings(plugins.secrets.holdings),
        clock=plugins.clock,
        background=background,
        concurrency_limit=settings.sandboxes_per_org,
    )


def _services(settings: Settings, plugins: Plugins, machinery: Machinery, sides: _Sides) -> Services:
    clock, background = plugins.clock, machinery.background
    supply, doors, recorder = sides.supply, sides.doors, sides.recording.recorder
    state, images = operations(machinery, plugins.patches), _images(plugins, machinery, supply)
    sessions, gateway = Sessions(recorder), ModelGateway(plugins.models)
    return Services(
        access=doors.access,
        device_logins=DeviceLogins(plugins.device_logins, doors.access, clock),
        file_urls=doors.file_urls,
        lifecycle=machinery.lifecycle,
        live=machinery.live,
        pool=supply.pool,
        commands=Commands(clock, background, recorder),
        sessions=sessions,
        agents=_agents(plugins, supply, sessions, gateway),
        reach=state.reach,
        checkpoints=state.checkpoints,
        forks=state.forks,
        restores=state.restores,
        hibernation=state.hibernation,
        power=state.power,
        scaling=Scaling(machinery, supply.admission, settings.memory_cap_mb),
        patches=state.patches,
        diffs=state.diffs,
        usage=_usage(plugins, machinery),
        previews=_previews(settings, plugins, state.reach),
        webhooks=_webhooks(plugins),
        audit=Audit(plugins.egress_events, machinery.lifecycle),
        logs=Logs(sides.recording, machinery.lifecycle, machinery.live),
        images=images,
        snapshots=NamedSnapshots(plugins.images.named, images, plugins.organisations, clock, background),
        secret_stores=SecretStores(plugins.secrets, plugins.keyring, supply.egress, clock),
        sealings=machinery.sealings,
        egress=supply.egress,
        templates=plugins.templates,
        gateway=gateway,
        clock=clock,
        presentation=_presentation(settings),
        durable=compose_durable(settings, _durable(plugins, sides, machinery, state)),
    )


def _durable(plugins: Plugins, sides: _Sides, machinery: Machinery, state: Operations) -> DurableParts:
    return DurableParts(
        client_tokens=sides.doors.client_tokens,
        webhooks=plugins.webhooks,
        agents=plugins.agent_tables,
        runtimes=plugins.runtimes,
        models=plugins.models,
        keyring=plugins.keyring,
        sessions=plugins.sessions,
        clock=plugins.clock,
        states=plugins.brain_states,
        upstream=plugins.upstream_models,
        machinery=machinery,
        operations=state,
        warm=sides.supply.warm,
        recorder=sides.recording.recorder,
        node=plugins.node,
    )


def _usage(plugins: Plugins, machinery: Machinery) -> UsageServices:
    tables, lifecycle, clock = plugins.usage, machinery.lifecycle, plugins.clock
    return UsageServices(UsageReports(tables, lifecycle, clock), SandboxTags(tables.tags, lifecycle, clock))


def _webhooks(plugins: Plugins) -> WebhookServices:
    storage, sender = plugins.lifecycle_webhooks, plugins.webhooks
    return webhook_services(storage, plugins.sandboxes, sender, plugins.keyring, plugins.clock)


def _presentation(settings: Settings) -> Presentation:
    return Presentation(
        settings.public_url,
        settings.sandbox_domain,
        settings.region,
        settings.disk_cap_mb,
        settings.memory_cap_mb,
    )


def _previews(settings: Settings, plugins: Plugins, reach: Reach) -> PreviewServices:
    stores = plugins.previews
    domains, visits = PreviewDomains(settings.sandbox_domain, settings.preview_domains), Visits()
    return PreviewServices(
        Previews(stores, domains, visits, plugins.clock),
        PreviewGrants(stores, visits, plugins.clock),
        PreviewDoor(stores, domains, reach, visits, plugins.clock),
    )


def _agents(plugins: Plugins, supply: _Supply, sessions: Sessions, gateway: ModelGateway) -> Agents:
    reachable = gateway.available and plugins.metadata_at is not None
    return Agents(sessions, supply.egress.sealed_names, gateway_available=reachable)


def _images(plugins: Plugins, machinery: Machinery, supply: _Supply) -> Images:
    tables = plugins.images
    stores = ImageStores(tables.builds, tables.prefixes, tables.named, plugins.snapshots, plugins.artefacts)
    machines = HiddenMachines(supply.provisioning, supply.admission, plugins.artefacts)
    builder = ImageBuilder(machines, machinery.captures, plugins.snapshots, tables.prefixes, plugins.clock)
    return Images(stores, builder, plugins.templates, plugins.clock, machinery.background)
