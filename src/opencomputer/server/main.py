"""The composition root: the only file that names concrete plug-ins. It wires, and does nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import uvloop

import opencomputer.inside
from opencomputer.server.clock import SystemClock
from opencomputer.server.composition import Plugins, compose
from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.driver import Driver
from opencomputer.server.contracts.images import ImageTables
from opencomputer.server.contracts.models import ModelProvider
from opencomputer.server.contracts.previews import PreviewStores
from opencomputer.server.contracts.runtimes import Runtime
from opencomputer.server.contracts.secrets import EncryptedRows, SecretTables
from opencomputer.server.contracts.usage import UsageTables
from opencomputer.server.domain.model_apis import ANTHROPIC, OPENAI
from opencomputer.server.domain.sessions.hooks import Hook
from opencomputer.server.drivers.fake.driver import FakeConfig, FakeDriver
from opencomputer.server.drivers.gvisor.config import GvisorConfig
from opencomputer.server.drivers.gvisor.driver import GvisorDriver
from opencomputer.server.durable import SessionStorage
from opencomputer.server.host.gauge import SystemGauge
from opencomputer.server.host.runsc_build import find_runsc
from opencomputer.server.identity import DataFolder, NodeIdentity
from opencomputer.server.logs import configure_logs
from opencomputer.server.machines.launcher import Launcher
from opencomputer.server.models.anthropic import DEFAULT_BASE_URL, AnthropicModel
from opencomputer.server.models.scripted import ScriptedModel
from opencomputer.server.models.upstream import UpstreamModels
from opencomputer.server.network.egress_table import EgressTableInMemory
from opencomputer.server.network.links import MachineLinks, NetworkConfig
from opencomputer.server.network.names import Names
from opencomputer.server.network.packet_log import PacketLog
from opencomputer.server.network.proxy.assembly import Surroundings, egress_proxy
from opencomputer.server.network.proxy.authority import open_authority
from opencomputer.server.network.resolver import ResolverConfig, Upstreams
from opencomputer.server.node import running, until_stopped
from opencomputer.server.runtimes.claude.runtime import ClaudeRuntime
from opencomputer.server.runtimes.codex.runtime import CodexRuntime
from opencomputer.server.runtimes.custom.runtime import load_runtimes
from opencomputer.server.runtimes.scripted.runtime import ScriptedRuntime
from opencomputer.server.services.access import Access
from opencomputer.server.services.background import Background
from opencomputer.server.services.egress_writer import EgressWriter, Retention
from opencomputer.server.services.hints import Bell
from opencomputer.server.services.sandboxes.webhook_services import LifecycleWebhookStorage
from opencomputer.server.services.secret_keys import Rotated, forget_unreadable, rotate
from opencomputer.server.services.sessions.leaked_hooks import LeakedHooks
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.settings import Overrides, Settings, load_settings
from opencomputer.server.stores.artefacts.brain_states import BlobBrainStates
from opencomputer.server.stores.artefacts.store import BlobArtefacts
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.logs.files import FileLogStore
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.device_logins import SqlDeviceLoginStore
from opencomputer.server.stores.sql.egress_events import SqlEgressEventStore
from opencomputer.server.stores.sql.holdings import SqlHoldingRows
from opencomputer.server.stores.sql.images import SqlImageStore, SqlNamedSnapshotStore, SqlPrefixStore
from opencomputer.server.stores.sql.machines import SqlMachineStore
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.patches import SqlPatchStore
from opencomputer.server.stores.sql.previews import SqlGrantStore, SqlPreviewStore
from opencomputer.server.stores.sql.sandboxes import SqlSandboxStore
from opencomputer.server.stores.sql.secrets import SqlSecretRows, SqlSecretStoreRows
from opencomputer.server.stores.sql.sessions.agent_history import SqlAgentHistory
from opencomputer.server.stores.sql.sessions.agents import SqlAgentStore
from opencomputer.server.stores.sql.sessions.credentials import SqlCredentialStore
from opencomputer.server.stores.sql.sessions.destinations import session_signing_secrets
from opencomputer.server.stores.sql.sessions.stores import session_tables, starter_tables
from opencomputer.server.stores.sql.snapshots import SqlSnapshotStore
from opencomputer.server.stores.sql.tags import SqlTagStore
from opencomputer.server.stores.sql.usage import SqlUsageStore
from opencomputer.server.stores.sql.webhooks import webhook_signing_secrets, webhook_tables
from opencomputer.server.templates.layers import InstalledTemplates
from opencomputer.server.templates.runtime import ensure_runtime
from opencomputer.server.webhooks.sender import HttpWebhookSender


@dataclass(frozen=True)
class _Isolation:
    driver: Driver
    metadata_at: tuple[str, int] | None
    trust: str


def serve(listen: str | None = None, data: Path | None = None, templates: Path | None = None) -> None:
    """Run a node until SIGINT or SIGTERM. Raises SettingsError, AddressInUse, DataFolderBusy."""
    settings = load_settings(os.environ, Overrides(listen, data, templates))
    configure_logs(settings.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    async with node(settings):
        await until_stopped()


@asynccontextmanager
async def node(settings: Settings) -> AsyncGenerator[str]:
    """A whole node in this process; yields the URL of its API."""
    async with AsyncExitStack() as stack:
        folder = DataFolder(settings.data)
        identity = folder.open()
        stack.callback(folder.close)
        database = Database.sqlite(folder.database)
        await database.open()
        stack.push_async_callback(database.close)
        plugins = await _plugins(settings, identity, database, stack)
        background = await stack.enter_async_context(Background())
        parts = compose(settings, plugins, background, identity, folder.golden)
        yield await stack.enter_async_context(running(settings, folder, parts))


async def _plugins(
    settings: Settings, identity: NodeIdentity, database: Database, stack: AsyncExitStack
) -> Plugins:
    clock = SystemClock()
    names = await _names(settings, egress_events := SqlEgressEventStore(database), stack)
    isolation = await _isolation(settings, identity, names, stack)
    bell = Bell()
    return Plugins(
        organisations=SqlOrganisationStore(database),
        api_keys=SqlApiKeyStore(database),
        device_logins=SqlDeviceLoginStore(database),
        sandboxes=SqlSandboxStore(database, bell.ring),
        machine_rows=SqlMachineStore(database),
        snapshots=SqlSnapshotStore(database, bell.ring),
        patches=SqlPatchStore(database),
        usage=UsageTables(SqlUsageStore(database), SqlTagStore(database)),
        previews=_preview_stores(database, bell),
        images=_image_tables(database),
        artefacts=await asyncio.to_thread(BlobArtefacts, settings.data / "artefacts", clock),
        machines=Launcher(isolation.driver, clock),
        templates=InstalledTemplates(settings.templates, settings.data),
        models=_model_provider(settings, clock, stack),
        gauge=SystemGauge(settings.data),
        clock=clock,
        metadata_at=isolation.metadata_at,
        secrets=_secret_tables(database),
        keyring=await _open_keyring(settings.data, _encrypted(database)),
        gate=names.table,
        trust=isolation.trust,
        egress_events=egress_events,
        logs=FileLogStore(settings.data / "logs"),
        webhooks=_webhook_sender(settings, stack),
        lifecycle_webhooks=LifecycleWebhookStorage(webhook_tables(database, bell.ring), bell),
        agent_tables=_agent_tables(database),
        runtimes=_runtimes(settings),
        sessions=_session_storage(database),
        brain_states=await asyncio.to_thread(BlobBrainStates, settings.data / "brain-states"),
        upstream_models=_upstream_models(settings, stack),
        node=identity.tag,
    )


async def _names(settings: Settings, events: SqlEgressEventStore, stack: AsyncExitStack) -> Names:
    clock = SystemClock()
    log = await stack.enter_async_context(EgressWriter(events, clock, _retention(settings)))
    return Names(EgressTableInMemory(), log, clock)


def _session_storage(database: Database) -> SessionStorage:
    signals = ProcessSignals()
    return SessionStorage(session_tables(database, signals), starter_tables(database), signals)


def _retention(settings: Settings) -> Retention:
    return Retention(timedelta(days=settings.audit.days), settings.audit.events)


def _webhook_sender(settings: Settings, stack: AsyncExitStack) -> HttpWebhookSender:
    sender = HttpWebhookSender(allow_private=settings.allow_private_webhooks)
    stack.push_async_callback(sender.close)
    return sender


async def _isolation(
    settings: Settings, identity: NodeIdentity, names: Names, stack: AsyncExitStack
) -> _Isolation:
    if settings.driver == "fake":
        fake = FakeDriver(FakeConfig(settings.data, Path(opencomputer.inside.__path__[0])))
        await fake.open()
        stack.push_async_callback(fake.close)
        return _Isolation(fake, None, "")
    resolver = ResolverConfig(settings.name_servers)
    network = MachineLinks(NetworkConfig(identity.tag, settings.machine_network, resolver=resolver), names)
    build = await asyncio.to_thread(find_runsc, settings.runsc)
    runtime = await asyncio.to_thread(ensure_runtime, settings.templates)
    driver = GvisorDriver(GvisorConfig(settings.data, identity.tag, build.path, runtime), network)
    await driver.open()
    stack.push_async_callback(_leave_host, driver, network)
    packets = PacketLog(names.table, names.log, SystemClock())
    packets.open(network.log_group)
    stack.callback(packets.close)
    trust = await _open_proxy(settings, network, names, stack)
    return _Isolation(driver, network.metadata_address, trust)


async def _open_proxy(settings: Settings, network: MachineLinks, names: Names, stack: AsyncExitStack) -> str:
    """Let machines out that only get out through the proxy. Returns the certificate that they must trust."""
    clock = SystemClock()
    file = DataFolder(settings.data).egress_authority
    authority = await asyncio.to_thread(open_authority, file, clock.now())
    upstreams = Upstreams(network.config.resolver)
    surroundings = Surroundings(names.table, names.log, names.told, clock, upstreams.current)
    proxy = egress_proxy(surroundings, authority)
    stack.push_async_callback(proxy.close)
    await proxy.open(network.node_address, network.config.proxy_port, network.config.transparent_port)
    return authority.certificate_pem


async def _leave_host(driver: GvisorDriver, network: MachineLinks) -> None:
    """Machines outlive the server, and with them what they need; without any, nothing stays on the host."""
    machines = await driver.survey()
    await driver.close()
    if not machines:
        await network.dismantle()


def _model_provider(settings: Settings, clock: SystemClock, stack: AsyncExitStack) -> ModelProvider:
    options = settings.models
    if options.provider == "scripted":
        return ScriptedModel.from_file(options.script, clock)
    model = AnthropicModel(options.anthropic_api_key, base_url=options.anthropic_base_url or DEFAULT_BASE_URL)
    stack.push_async_callback(model.close)
    return model


def _runtimes(settings: Settings) -> Mapping[str, Runtime]:
    runtimes: list[Runtime] = [ClaudeRuntime(), CodexRuntime()]
    if settings.models.provider == "scripted":
        runtimes.append(_scripted_runtime(settings))
    if settings.runtimes is not None:
        runtimes += load_runtimes(settings.runtimes)
    return {each.name: each for each in runtimes}


def _scripted_runtime(settings: Settings) -> ScriptedRuntime:
    if settings.driver == "fake":
        # Its machines are this host.
        return ScriptedRuntime(sys.executable, opencomputer.inside.__path__[0])
    return ScriptedRuntime()


def _upstream_models(settings: Settings, stack: AsyncExitStack) -> UpstreamModels:
    options = settings.models
    upstream = UpstreamModels({ANTHROPIC: options.anthropic_base_url, OPENAI: options.openai_base_url})
    stack.push_async_callback(upstream.close)
    return upstream


async def create_organisation(name: str, data: Path) -> tuple[str, str]:
    """Add an organisation, whether or not a server is running. Returns its id and its first key."""
    database = Database.sqlite(data / "opencomputer.db")
    await database.open()
    try:
        # Tokens are not made here, so the secret that signs them does not matter.
        access = Access(
            SqlOrganisationStore(database), SqlApiKeyStore(database), SystemClock(), token_secret=b""
        )
        created = await access.create_organisation(name)
    finally:
        await database.close()
    return created.record.org_id, created.secret


async def revoke_leaked_hook(token: str, data: Path) -> Hook:
    """Revoke the hook of a token that others have seen, whether or not a server runs. Raises NotFound."""
    database, clock = Database.sqlite(data / "opencomputer.db"), SystemClock()
    await database.open()
    try:
        return await LeakedHooks(starter_tables(database).hooks, clock).revoke(token)
    finally:
        await database.close()


def _preview_stores(database: Database, bell: Bell) -> PreviewStores:
    records = SqlPreviewStore(database, bell.ring)
    return PreviewStores(SqlSandboxStore(database), records, SqlGrantStore(database))


def _image_tables(database: Database) -> ImageTables:
    return ImageTables(SqlImageStore(database), SqlPrefixStore(database), SqlNamedSnapshotStore(database))


def _secret_tables(database: Database) -> SecretTables:
    return SecretTables(SqlSecretStoreRows(database), SqlSecretRows(database), SqlHoldingRows(database))


def _agent_tables(database: Database) -> AgentTables:
    return AgentTables(SqlAgentStore(database), SqlAgentHistory(database), SqlCredentialStore(database))


def _encrypted(database: Database) -> Sequence[EncryptedRows]:
    """Every table with something that the keyring opens."""
    signing = (session_signing_secrets(database), webhook_signing_secrets(database))
    return SqlSecretRows(database), SqlCredentialStore(database), *signing


async def _open_keyring(data: Path, tables: Sequence[EncryptedRows]) -> FileKeyring:
    stored = sum([len(await rows.values()) for rows in tables])
    return await asyncio.to_thread(FileKeyring.open_or_create, DataFolder(data).keyring, stored=stored)


async def rotate_keyring(data: Path) -> Rotated:
    """Make a new key and encrypt everything with it, whether or not a server is running.

    Raises KeyringDamaged.
    """
    async with _stored_values(data) as tables:
        return await rotate(await _open_keyring(data, tables), tables)


async def forget_secrets(data: Path) -> int:
    """Remove everything that no key opens, and make a new key where there is none. Returns how many."""
    async with _stored_values(data) as tables:
        versions = [value.ciphertext.key_version for rows in tables for value in await rows.values()]
        # Never a version that some ciphertext names already: that was another key.
        first = max(versions, default=0) + 1
        keyring = FileKeyring.open_or_create(DataFolder(data).keyring, first_version=first)
        return await forget_unreadable(keyring, tables)


@asynccontextmanager
async def _stored_values(data: Path) -> AsyncGenerator[Sequence[EncryptedRows]]:
    database = Database.sqlite(DataFolder(data).database)
    await database.open()
    try:
        yield _encrypted(database)
    finally:
        await database.close()
