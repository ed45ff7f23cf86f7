"""How the ids of durable sessions look (agent-sessions.md section 2.2)."""

from __future__ import annotations

import secrets

from opencomputer.wire.ids import (
    AgentId,
    DeliveryId,
    DeploymentId,
    DestinationId,
    EventId,
    ModelCredentialId,
    RevisionId,
    SessionId,
    TurnId,
)


def _random() -> str:
    return secrets.token_hex(12)


def new_agent_id() -> AgentId:
    return AgentId(f"agt_{_random()}")


def new_revision_id() -> RevisionId:
    return RevisionId(f"rev_{_random()}")


def new_deployment_id() -> DeploymentId:
    return DeploymentId(f"dep_{_random()}")


def new_model_credential_id() -> ModelCredentialId:
    return ModelCredentialId(f"cred_{_random()}")


def new_activation_id() -> str:
    return f"act_{_random()}"


def new_session_id() -> SessionId:
    return SessionId(f"ses_{_random()}")


def new_turn_id() -> TurnId:
    return TurnId(f"trn_{_random()}")


def new_event_id() -> EventId:
    return EventId(f"evt_{_random()}")


def new_destination_id() -> DestinationId:
    return DestinationId(f"dst_{_random()}")


def new_delivery_id() -> DeliveryId:
    return DeliveryId(f"dlv_{_random()}")
