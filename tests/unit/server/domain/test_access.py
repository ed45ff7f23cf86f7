"""Who may touch what."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.access import KeyCaller, TokenCaller, check_data_plane
from opencomputer.server.domain.errors import Forbidden
from opencomputer.wire.ids import ApiKeyId, OrgId, SandboxId

ORG = OrgId("org")
MINE, OTHER = SandboxId("sb-00000001"), SandboxId("sb-00000002")


def test_a_sandbox_token_opens_its_own_sandbox_only() -> None:
    caller = TokenCaller(ORG, MINE)
    check_data_plane(caller, MINE)
    with pytest.raises(Forbidden):
        check_data_plane(caller, OTHER)


def test_a_key_opens_every_sandbox_as_far_as_this_check_goes() -> None:
    caller = KeyCaller(ORG, ApiKeyId("key"))
    check_data_plane(caller, MINE)
    check_data_plane(caller, OTHER)
