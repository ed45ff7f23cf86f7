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
