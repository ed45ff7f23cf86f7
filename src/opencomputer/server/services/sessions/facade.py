"""Everything that `/v3` may call, in one frozen bundle that the composition root fills."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.domain.sessions.destinations import Delivery
from opencomputer.server.services.sessions.agents import Agents
from opencomputer.server.services.sessions.boxes import SessionBoxes
from opencomputer.server.services.sessions.boxes_upkeep import BoxUpkeep
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.credentials import Credentials
from opencomputer.server.services.sessions.deliveries import Deliveries
from opencomputer.server.services.sessions.deployments import Deployments
from opencomputer.server.services.sessions.destinations import Destinations
from opencomputer.server.services.sessions.engine import TurnEngine
from opencomputer.server.services.sessions.hooks import Hooks
from opencomputer.server.services.sessions.joint_checkpoints import JointCheckpoints
from opencomputer.server.services.sessions.log import SessionLog
from opencomputer.server.services.sessions.messages import Messages
from opencomputer.server.services.sessions.model_access import SessionModels
from opencomputer.server.services.sessions.resting import Resting
from opencomputer.server.services.sessions.scheduler import Scheduler
from opencomputer.server.services.sessions.schedules import Schedules
from opencomputer.server.services.sessions.sessions import DurableSessions
from opencomputer.server.services.sessions.tools import Tools
from opencomputer.server.services.webhooks.keeper import DeliveryKeeper


@dataclass(frozen=True)
class DurableServices:
    """The services of durable sessions, one field each."""

    client_tokens: ClientTokens
    log: SessionLog
    tools: Tools
    destinations: Destinations
    deliveries: Deliveries
    delivery_keeper: DeliveryKeeper[Delivery]
    agents: Agents
    deployments: Deployments
    credentials: Credentials
    sessions: DurableSessions
    messages: Messages
    boxes: SessionBoxes
    box_upkeep: BoxUpkeep
    models: SessionModels
    engine: TurnEngine
    resting: Resting
    checkpoints: JointCheckpoints
    schedules: Schedules
    scheduler: Scheduler
    hooks: Hooks
