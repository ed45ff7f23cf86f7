"""What bodies of checkpoints and forks ask for, and how state shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi import Request

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import Retention, SnapshotKind
from opencomputer.server.http import render
from opencomputer.server.http.sandbox_api.checkpoints import new_checkpoint
from opencomputer.server.http.sandbox_api.forks import fork_request
from opencomputer.server.services.facade import Presentation, Services
from opencomputer.wire.checkpoints import CreateCheckpoint
from opencomputer.wire.forks import ForkCheckpoint
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId
from opencomputer.wire.sandboxes import SandboxView
from tests.support import rows


def asked(**fields: Any) -> Any:
    return new_checkpoint(CreateCheckpoint.model_validate({"name": "before", **fields}))


def test_a_checkpoint_is_full_and_deletes_nothing_unless_told_otherwise() -> None:
    new = asked()
    assert (new.name, new.kind, new.retention) == ("before", SnapshotKind.FULL, Retention())
    assert asked(kind=None, retentionPolicy=None, promoteToFull=None) == new
    assert asked(retentionPolicy={"mode": "none", "maxCount": 99}) == new


@pytest.mark.parametrize(("kind", "limit"), [("full", 10), ("disk_only", 100)])
def test_retention_without_a_number_means_as_many_as_there_may_be(kind: str, limit: int) -> None:
    for policy in ({"mode": "delete_oldest"}, {"mode": "delete_oldest", "maxCount": 0}):
        assert asked(kind=kind, retentionPolicy=policy).retention == Retention(limit)
    assert asked(kind=kind, retentionPolicy={"mode": "delete_oldest", "maxCount": limit}).retention == (
        Retention(limit)
    )


@pytest.mark.parametrize(("kind", "count"), [("full", 11), ("disk_only", 101)])
def test_retention_of_more_than_there_may_be_is_refused(kind: str, count: int) -> None:
    with pytest.raises(InvalidInput, match="maxCount"):
        asked(kind=kind, retentionPolicy={"mode": "delete_oldest", "maxCount": count})


def test_promotion_is_for_what_has_no_memory() -> None:
    assert asked(kind="disk_only", promoteToFull=True) == asked(kind="disk_only", promoteToFull=False)
    assert asked(promoteToFull=False) == asked()
    with pytest.raises(InvalidInput, match="promoteToFull"):
        asked(promoteToFull=True)


@pytest.mark.parametrize("name", ["", "  ", "x" * 129])
def test_a_name_is_needed_and_not_too_long(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        asked(name=name)


def test_a_fork_changes_nothing_unless_told_otherwise() -> None:
    request = fork_request(ForkCheckpoint())
    assert (request.timeout_seconds, request.environment, request.metadata, request.memory_mb) == (
        0,
        {},
        {},
        None,
    )


@pytest.mark.parametrize(
    "fields", [{"envs": {"A=B": "x"}}, {"envs": {"A": "\0"}}, {"metadata": {"a": "x" * 70_000}}]
)
def test_a_fork_takes_no_more_than_a_create(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        fork_request(ForkCheckpoint.model_validate(fields))


def test_a_fork_may_name_a_secret_store() -> None:
    assert fork_request(ForkCheckpoint.model_validate({"secretStore": "mine"})).secret_store == "mine"
    assert fork_request(ForkCheckpoint.model_validate({"secretStore": ""})) == fork_request(ForkCheckpoint())


# What is shown


class AnyAccess:
    def sandbox_token(self, _org_id: OrgId, sandbox_id: SandboxId) -> str:
        return f"token of {sandbox_id}"


def shown(row: Sandbox) -> SandboxView:
    request = Request(
        {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": "/",
            "query_string": b"",
            "server": ("127.0.0.1", 8080),
            "headers": [],
        }
    )
    services = object.__new__(Services)
    object.__setattr__(services, "presentation", Presentation("https://oc.example", "localhost", "local", 0))
    object.__setattr__(services, "access", AnyAccess())
    return render.sandbox(request, services, row)


ORG = OrgId("an organisation")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (SandboxState.RUNNING, "running"),
        (SandboxState.HIBERNATING, "running"),
        (SandboxState.RESTORING, "running"),
        (SandboxState.REBOOTING, "running"),
        (SandboxState.HIBERNATED, "hibernated"),
        (SandboxState.WAKING, "hibernated"),
    ],
)
def test_what_is_under_way_does_not_show_and_all_can_be_reached(state: SandboxState, status: str) -> None:
    """One that sleeps wakes when it is used, so it has an address and a token as well."""
    view = shown(rows.sandbox(ORG, state=state))
    assert view.status == status
    assert (view.connect_url, view.token) == ("https://oc.example/api", f"token of {view.sandbox_id}")


def test_what_is_stopped_cannot_be_reached() -> None:
    view = shown(rows.sandbox(ORG, state=SandboxState.STOPPED))
    assert (view.status, view.connect_url, view.token) == ("stopped", None, None)


def test_what_went_wrong_with_a_sandbox_shows() -> None:
    row = rows.sandbox(ORG, state=SandboxState.RUNNING)
    plain = shown(row).model_dump(by_alias=True, exclude_none=True)
    assert {"fromCheckpointId", "patchError", "lastHibernateError", "recovered"}.isdisjoint(plain)
    marked = replace(
        row,
        from_checkpoint=SnapshotId("c"),
        patch_error="patch 1 failed",
        last_hibernate_error="no room",
        recovered=2,
    )
    view = shown(marked).model_dump(by_alias=True, exclude_none=True)
    assert view == plain | {
        "fromCheckpointId": "c",
        "patchError": "patch 1 failed",
        "lastHibernateError": "no room",
        "recovered": 2,
    }
