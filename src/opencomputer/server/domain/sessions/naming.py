"""How the ids of durable sessions look (agent-sessions.md section 2.2)."""

from __future__ import annotations

import secrets

from opencomputer.wire.ids import (
    AgentId,
    DeliveryId,
    DeploymentId,
    DestinationId,
    EventId,
    HookId,
    ModelCredentialId,
    RevisionId,
    ScheduleId,
    ScheduleRunId,
    SessionId,
    TurnId,
)

HOOK_TOKEN_PREFIX = "ochk_v1_"


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


def new_schedule_id() -> ScheduleId:
    return ScheduleId(f"sch_{_random()}")


def new_schedule_run_id() -> ScheduleRunId:
    return ScheduleRunId(f"srn_{_random()}")


def new_hook_id() -> HookId:
    return HookId(f"hk_{_random()}")


def new_hook_token() -> str:
    """What a hook's URL ends with. Whoever has it may start sessions."""
    return HOOK_TOKEN_PREFIX + secrets.token_urlsafe(32)
