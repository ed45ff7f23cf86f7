"""How ids and secrets look. Randomness comes in as an argument-free source so that tests can own it."""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid

from opencomputer.wire.ids import (
    ApiKeyId,
    GrantId,
    OrgId,
    PatchId,
    PreviewId,
    ProcessId,
    SandboxId,
    SecretId,
    SecretStoreId,
    SnapshotId,
)

API_KEY_PREFIX = "osb_"
SEALED_PREFIX = "osb_sealed_"
_SHOWN_OF_KEY = 12
_API_KEY = re.compile(r"osb_[0-9a-f]{64}")


def new_sandbox_id() -> SandboxId:
    return SandboxId(f"sb-{secrets.token_hex(4)}")


def new_machine_id() -> str:
    return f"m{secrets.token_hex(8)[:15]}"


def new_process_id() -> ProcessId:
    return ProcessId(secrets.token_hex(4))


def new_snapshot_id() -> SnapshotId:
    return SnapshotId(str(uuid.uuid4()))


def new_patch_id() -> PatchId:
    return PatchId(str(uuid.uuid4()))


def new_preview_id() -> PreviewId:
    return PreviewId(str(uuid.uuid4()))


def new_grant_id() -> GrantId:
    return GrantId(str(uuid.uuid4()))


def new_preview_token() -> str:
    """256 random bits that need no escaping in a URL, a header or a cookie: for previews and their grants."""
    return secrets.token_urlsafe(32)


def new_secret_store_id() -> SecretStoreId:
    return SecretStoreId(str(uuid.uuid4()))


def new_secret_id() -> SecretId:
    return SecretId(str(uuid.uuid4()))


def new_sealed_token() -> str:
    """What a sandbox has in place of a secret: 128 random bits, meant for one sandbox alone."""
    return SEALED_PREFIX + secrets.token_hex(16)


def new_org_id() -> OrgId:
    return OrgId(str(uuid.uuid4()))


def new_api_key_id() -> ApiKeyId:
    return ApiKeyId(str(uuid.uuid4()))


def new_api_key() -> str:
    return API_KEY_PREFIX + secrets.token_hex(32)


def is_api_key(text: str) -> bool:
    return _API_KEY.fullmatch(text) is not None


def new_guest_token() -> str:
    return secrets.token_hex(32)


def secret_hash(secret: str) -> str:
    """Keys are 256 random bits, so a plain hash is as good as a slow one and costs nothing per request."""
    return hashlib.sha256(secret.encode()).hexdigest()


def shown_prefix(key: str) -> str:
    return key[:_SHOWN_OF_KEY]


def process_id_for(idempotency_key: str, sandbox_id: SandboxId) -> ProcessId:
    """The same key in the same sandbox names the same process: the guest then starts it once."""
    return ProcessId(hashlib.sha256(f"{sandbox_id}\0{idempotency_key}".encode()).hexdigest()[:8])
