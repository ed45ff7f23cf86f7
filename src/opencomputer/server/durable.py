"""Services of durable sessions put together: the part of `composition.py` that /v3 needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.brain_states import BrainStates
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.models import KeyedModels, ModelProvider
from opencomputer.server.contracts.runtimes import Brain, Runtime
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.contracts.starters import StarterTables
from opencomputer.server.contracts.webhooks import WebhookSender
from opencomputer.server.domain.egress import METADATA_URL
from opencomputer.server.services.sandboxes.gateway import ModelGateway
from opencomputer.server.services.sandboxes.log_recorder import LogRecorder
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.operations import Operations
from opencomputer.server.services.sandboxes.warm import WarmMachines
from opencomputer.server.services.sessions.agents import Agents
from opencomputer.server.services.sessions.boxes import BoxParts, SessionBoxes
from opencomputer.server.services.sessions.boxes_brains import BrainProcesses
from opencomputer.server.services.sessions.boxes_sandboxes import SessionSandboxes
from opencomputer.server.services.sessions.boxes_upkeep import BoxUpkeep
from opencomputer.server.services.sessions.brain_client import DialledBrain
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.credentials import Credentials
from opencomputer.server.services.sessions.deliveries import Deliveries, SessionMail
from opencomputer.server.services.sessions.deployments import Deployments
from opencomputer.server.services.sessions.destinations import Destinations
from opencomputer.server.services.sessions.editing import Editing
from opencomputer.server.services.sessions.engine import EngineSettings, TurnEngine
from opencomputer.server.services.sessions.facade import DurableServices
from opencomputer.server.services.sessions.hooks import Hooks
from opencomputer.server.services.sessions.joint_checkpoints import CheckpointParts, JointCheckpoints
from opencomputer.server.services.sessions.kept import KeptTurns
from opencomputer.server.services.sessions.log import SessionLog
from opencomputer.server.services.sessions.messages import Messages
from opencomputer.server.services.sessions.model_access import SessionModels
from opencomputer.server.services.sessions.resting import Resting
from opencomputer.server.services.sessions.scheduler import Scheduler
from opencomputer.server.services.sessions.schedules import Schedules
from opencomputer.server.services.sessions.session_tasks import SessionTasks
from opencomputer.server.services.sessions.sessions import DurableSessions
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.services.sessions.tools import Tools
from opencomputer.server.services.sessions.turn_parts import TurnParts
from opencomputer.server.services.webhooks.keeper import DeliveryKeeper, Postage
from opencomputer.server.settings import Settings


@dataclass(frozen=True)
class SessionStorage:
    """What is kept of durable sessions, and the signals that every change of it tells."""

    tables: SessionTables
    starters: StarterTables
    signals: ProcessSignals


@dataclass(frozen=True)
class DurableParts:
    """What durable sessions are made of."""

    client_tokens: ClientTokens
    webhooks: WebhookSender
    agents: AgentTables
    runtimes: Mapping[str, Runtime]
    models: ModelProvider
    keyring: Keyring
    sessions: SessionStorage
    clock: Clock
    states: BrainStates
    upstream: KeyedModels
    machinery: Machinery
    operations: Operations
    warm: WarmMachines
    recorder: LogRecorder | None
    node: str
    """This node's own name, the same in each life of its process."""


@dataclass(frozen=True)
class _Starters:
    """What starts sessions."""

    sessions: DurableSessions
    scheduler: Scheduler
    schedules: Schedules
    hooks: Hooks


def compose_durable(settings: Settings, parts: DurableParts) -> DurableServices:
    editing = Editing(parts.agents, parts.clock)
    credentials = Credentials(parts.agents, parts.keyring, parts.models, parts.clock)
    agents = Agents(parts.agents, editing, credentials, parts.runtimes)
    sessions, gateway = parts.sessions.tables.sessions, ModelGateway(parts.models)
    tools = Tools(parts.clock, settings.tool_event_level)
    boxes, starters = _boxes(parts, agents), _starters(parts, agents)
    turns, tasks = _turn_parts(parts, boxes, tools), SessionTasks()
    tables, postage = parts.sessions.tables, Postage(parts.webhooks, parts.sessions.signals.on_delivery)
    mail = SessionMail(tables, parts.keyring, parts.clock)
    return DurableServices(
        client_tokens=parts.client_tokens,
        log=SessionLog(parts.sessions.tables, parts.sessions.signals),
        tools=tools,
        destinations=Destinations(tables, parts.webhooks, parts.keyring, parts.clock),
        deliveries=Deliveries(tables, parts.clock),
        delivery_keeper=DeliveryKeeper(mail, postage, parts.clock),
        agents=agents,
        deployments=Deployments(parts.agents, editing, agents, credentials, starters.scheduler.look),
        credentials=credentials,
        boxes=boxes,
        checkpoints=_checkpoints(parts, boxes),
        box_upkeep=BoxUpkeep(parts.machinery.sandboxes, parts.machinery.lifecycle, sessions, parts.clock),
        models=SessionModels(sessions, credentials, gateway, parts.upstream),
        sessions=starters.sessions,
        scheduler=starters.scheduler,
        schedules=starters.schedules,
        hooks=starters.hooks,
        messages=Messages(parts.sessions.tables.sessions, agents, parts.clock),
        engine=TurnEngine(turns, tasks, parts.sessions.signals, EngineSettings(parts.node)),
        resting=Resting(turns, tasks),
    )


def _starters(parts: DurableParts, agents: Agents) -> _Starters:
    tables, kept, clock = parts.sessions.tables, parts.sessions.starters, parts.clock
    sessions = DurableSessions(tables, agents, clock, parts.webhooks.check)
    scheduler = Scheduler(kept.firings, sessions, tables.sessions, clock, parts.node)
    return _Starters(
        sessions, scheduler, Schedules(kept.schedules, scheduler, clock), Hooks(kept.hooks, sessions, clock)
    )


def _turn_parts(parts: DurableParts, boxes: SessionBoxes, tools: Tools) -> TurnParts:
    tables = parts.sessions.tables
    return TurnParts(
        sessions=tables.sessions,
        log=tables.log,
        turns=tables.turns,
        boxes=boxes,
        desk=tools,
        runtimes=parts.runtimes,
        clock=parts.clock,
        gateway_url=f"{METADATA_URL}/v1/model",
    )


def _checkpoints(parts: DurableParts, boxes: SessionBoxes) -> JointCheckpoints:
    machinery, store = parts.machinery, parts.sessions.tables.sessions
    return JointCheckpoints(
        CheckpointParts(store, parts.states, boxes, parts.operations.forks, machinery.lifecycle, parts.clock)
    )


def _boxes(parts: DurableParts, agents: Agents) -> SessionBoxes:
    machinery, operations, store = parts.machinery, parts.operations, parts.sessions.tables.sessions
    sandboxes = SessionSandboxes(
        machinery.lifecycle, operations.reach, operations.hibernation, store, parts.clock
    )
    kept = KeptTurns(store, parts.states, operations.checkpoints, machinery.snapshots)
    brains = BrainProcesses(_dial, parts.clock)
    return SessionBoxes(
        BoxParts(sandboxes, brains, parts.states, kept, agents, parts.clock, parts.warm, parts.recorder)
    )


def _dial(machine: Machine) -> Brain:
    return DialledBrain(machine.dial)
