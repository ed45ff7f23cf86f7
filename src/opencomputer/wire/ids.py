"""Distinct types for the ids that appear on the wire. Clients treat all of them as opaque."""

from __future__ import annotations

from typing import NewType

SandboxId = NewType("SandboxId", str)
"""`sb-` and 8 lower-case hex digits; becomes the left part of a DNS label."""

OrgId = NewType("OrgId", str)
"""A UUID."""

ApiKeyId = NewType("ApiKeyId", str)
"""A UUID; never the key itself."""

ProcessId = NewType("ProcessId", str)
"""8 lower-case hex digits, unique within one sandbox: exec, agent and terminal sessions."""

SnapshotId = NewType("SnapshotId", str)
"""A UUID: a checkpoint, a hibernation, or what an image was built into."""

PatchId = NewType("PatchId", str)
"""A UUID."""

PreviewId = NewType("PreviewId", str)
"""A UUID."""

GrantId = NewType("GrantId", str)
"""A UUID; never the grant's token."""

SecretStoreId = NewType("SecretStoreId", str)
"""A UUID."""

SecretId = NewType("SecretId", str)
"""A UUID."""

AgentId = NewType("AgentId", str)
"""`agt_` and 24 lower-case hex digits: the configuration that sessions are started from."""

RevisionId = NewType("RevisionId", str)
"""`rev_` and 24 lower-case hex digits."""

DeploymentId = NewType("DeploymentId", str)
"""`dep_` and 24 lower-case hex digits."""

ModelCredentialId = NewType("ModelCredentialId", str)
"""`cred_` and 24 lower-case hex digits; the word `managed` stands for the operator's own."""

SessionId = NewType("SessionId", str)
"""`ses_` and 24 lower-case hex digits: a durable session, not a process in a sandbox."""

TurnId = NewType("TurnId", str)
"""`trn_` and 24 lower-case hex digits."""

EventId = NewType("EventId", str)
"""`evt_` and 24 lower-case hex digits."""

WebhookId = NewType("WebhookId", str)
"""`whk_` and 24 lower-case hex digits: where events of sandboxes are sent."""

MessageId = NewType("MessageId", str)
"""`msg_` and 24 lower-case hex digits: one event on its way to one webhook."""

DestinationId = NewType("DestinationId", str)
"""`dst_` and 24 lower-case hex digits."""

DeliveryId = NewType("DeliveryId", str)
"""`dlv_` and 24 lower-case hex digits."""

ScheduleId = NewType("ScheduleId", str)
"""`sch_` and 24 lower-case hex digits."""

ScheduleRunId = NewType("ScheduleRunId", str)
"""`srn_` and 24 lower-case hex digits."""

HookId = NewType("HookId", str)
"""`hk_` and 24 lower-case hex digits; never the hook's token."""
