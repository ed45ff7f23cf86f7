"""Shapes of checkpoints, forks, patches and diffs keep the exact spelling of the wire contract."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from opencomputer.wire.checkpoints import CheckpointView, CreateCheckpoint, RestoreView, SandboxConfig
from opencomputer.wire.diffs import ChangeView, DiffView
from opencomputer.wire.forks import ForkCheckpoint, ForkSandbox
from opencomputer.wire.patches import MAX_SCRIPT_BYTES, CreatePatch, PatchAdded, PatchView
from opencomputer.wire.sandboxes import HibernatedView, Wake

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def keys(view: BaseModel) -> set[str]:
    return set(json.loads(view.model_dump_json()))


def checkpoint() -> CheckpointView:
    config = SandboxConfig(
        template_id="base",
        cpu_count=1,
        memory_mb=1024,
        disk_mb=20480,
        envs={},
        metadata={},
        network_enabled=True,
    )
    return CheckpointView(
        id="c",
        sandbox_id="sb-1",
        org_id="o",
        name="n",
        kind="full",
        status="ready",
        size_bytes=1,
        created_at=NOON,
        is_public=False,
        sandbox_config=config,
    )


def test_a_checkpoint_has_both_spellings_of_its_sandboxs_id() -> None:
    shown = json.loads(checkpoint().model_dump_json())
    assert shown["sandboxId"] == shown["sandboxID"] == "sb-1"


def test_keys_are_the_contracts() -> None:
    assert keys(checkpoint()) == {
        *("id", "sandboxId", "sandboxID", "orgId", "name", "kind", "status", "sizeBytes", "createdAt"),
        *("readyAt", "isPublic", "sandboxConfig", "errorMsg", "failedAt"),
    }
    assert keys(RestoreView(sandbox_id="s", checkpoint_id="c")) == {"sandboxId", "checkpointId", "status"}
    patch = PatchView(id="p", checkpoint_id="c", sequence=1, script="x", created_at=NOON)
    assert keys(patch) == {
        *("id", "checkpointId", "sequence", "script", "description", "strategy", "createdAt"),
    }
    assert keys(PatchAdded(patch=patch)) == {"patch"}
    change = ChangeView(path="/x", kind="added", size=1, is_directory=False)
    assert keys(change) == {"path", "kind", "size", "isDirectory"}
    assert keys(DiffView(changes=[change])) == {"changes"}
    asleep = HibernatedView(sandbox_id="s", status="hibernated")
    assert keys(asleep) == {"sandboxID", "status", "hibernationKey", "sizeBytes"}


def test_the_names_of_an_inherited_configuration_are_those_of_create() -> None:
    shown = json.loads(checkpoint().sandbox_config.model_dump_json())
    assert {"templateID", "cpuCount", "memoryMB", "diskMB", "envs", "metadata", "networkEnabled"} <= set(
        shown
    )


@pytest.mark.parametrize("model", [ForkCheckpoint, ForkSandbox, Wake])
def test_a_body_may_be_empty(model: type[BaseModel]) -> None:
    assert model.model_validate_json("{}").model_dump(exclude_none=True) == {}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CreateCheckpoint, {}),
        (CreateCheckpoint, {"name": 5}),
        (CreateCheckpoint, {"name": "x", "kind": "half"}),
        (CreateCheckpoint, {"name": "x", "promoteToFull": "yes"}),
        (CreateCheckpoint, {"name": "x", "retentionPolicy": "none"}),
        (CreateCheckpoint, {"name": "x", "retentionPolicy": {"mode": "newest"}}),
        (CreateCheckpoint, {"name": "x", "retentionPolicy": {"mode": "delete_oldest", "maxCount": -1}}),
        (CreateCheckpoint, {"name": "x", "retentionPolicy": {"mode": "delete_oldest", "maxCount": "3"}}),
        (ForkCheckpoint, {"timeout": -1}),
        (ForkCheckpoint, {"envs": {"A": 1}}),
        (ForkCheckpoint, {"memoryMB": 0}),
        (ForkSandbox, {"count": 0}),
        (ForkSandbox, {"count": "2"}),
        (Wake, {"timeout": -1}),
        (Wake, {"timeout": True}),
        (CreatePatch, {}),
        (CreatePatch, {"script": ""}),
        (CreatePatch, {"script": " \n"}),
        (CreatePatch, {"script": "true\0"}),
        (CreatePatch, {"script": "é" * (MAX_SCRIPT_BYTES // 2 + 1)}),
        (CreatePatch, {"script": "true", "description": "x" * 1001}),
    ],
)
def test_what_does_not_fit_is_refused(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate_json(json.dumps(body))


def test_a_script_may_be_as_long_as_one_argument() -> None:
    assert CreatePatch(script="x" * MAX_SCRIPT_BYTES).script
