"""The audit log: read in pages or as JSON lines, filtered, after the sandbox's end, and by its owner only."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from opencomputer.sdk.sandbox import Sandbox
from opencomputer.server.contracts.egress import EgressEvent
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.egress_events import SqlEgressEventStore
from opencomputer.server.stores.sql.tables import sandboxes
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support.node import Api, NodeFolder

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def logged(folder: NodeFolder, api: Api) -> str:
    """A sandbox with five events, stopped by now."""
    sandbox = (await api.create())["sandboxID"]
    database = Database.sqlite(folder.data / "opencomputer.db")
    await database.open()
    row = await database.first(sa.select(sandboxes.c.org_id).where(sandboxes.c.id == sandbox))
    assert row is not None
    hosts = ("api.example.com", "evil.example", "a.pkg.example", "b.pkg.example", "203.0.113.9")
    events = [
        EgressEvent(
            at=datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC),
            org_id=OrgId(row.org_id),
            sandbox_id=SandboxId(sandbox),
            protocol="tls",
            host=host,
            port=443,
            decision="denied" if "evil" in host else "allowed",
            reason="allowlist" if "evil" in host else None,
            intercepted=second == 0,
            secrets=("API_KEY",) if second == 0 else (),
            bytes_out=10 * second,
        )
        for second, host in enumerate(hosts)
    ]
    await SqlEgressEventStore(database).add(events)
    await database.close()
    await api.delete(f"/sandboxes/{sandbox}")
    return sandbox


async def hosts(api: Api, sandbox: str, **params: str) -> list[str]:
    answer = await api.get(f"/sandboxes/{sandbox}/audit", params=params)
    assert answer.status_code == 200, answer.text
    return [each["host"] for each in answer.json()["events"]]


async def test_events_are_described_completely_and_oldest_first(api: Api, logged: str) -> None:
    answer = (await api.get(f"/sandboxes/{logged}/audit")).json()
    assert answer["events"][0] == {
        "position": answer["events"][0]["position"],
        "at": "2026-01-01T12:00:00Z",
        "protocol": "tls",
        "host": "api.example.com",
        "port": 443,
        "decision": "allowed",
        "reason": None,
        "address": None,
        "intercepted": True,
        "secrets": ["API_KEY"],
        "withheld": [],
        "bytesOut": 0,
        "bytesIn": 0,
        "lost": 0,
    }
    assert len(answer["events"]) == 5
    assert answer["next"] == answer["events"][-1]["position"]


async def test_a_log_can_be_followed(api: Api, logged: str) -> None:
    """Page after page, and at its end the place stays where it is."""
    first = (await api.get(f"/sandboxes/{logged}/audit", params={"limit": "2"})).json()
    place = str(first["next"])
    assert await hosts(api, logged, after=place) == ["a.pkg.example", "b.pkg.example", "203.0.113.9"]
    last = (await api.get(f"/sandboxes/{logged}/audit", params={"after": "99999"})).json()
    assert last == {"events": [], "next": 99999}


async def test_events_are_found_by_decision_and_host(api: Api, logged: str) -> None:
    assert await hosts(api, logged, decision="denied") == ["evil.example"]
    assert await hosts(api, logged, host="*.pkg.example", limit="1") == ["a.pkg.example"]
    assert await hosts(api, logged, host="API.example.com.") == ["api.example.com"]
    assert await hosts(api, logged, host="203.0.113.9") == ["203.0.113.9"]


async def test_the_log_is_exported_as_json_lines(api: Api, logged: str) -> None:
    answer = await api.get(f"/sandboxes/{logged}/audit", headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == (await api.get(f"/sandboxes/{logged}/audit")).json()["events"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"after": "-1"}, "after"),
        ({"after": "9" * 30}, "after"),
        ({"decision": "maybe"}, "decision"),
        ({"host": "https://a.example"}, "host"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    api: Api, logged: str, params: dict[str, str], field: str
) -> None:
    answer = await api.get(f"/sandboxes/{logged}/audit", params=params)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{field}:")


async def test_another_organisations_log_is_not_there(other: Api, logged: str) -> None:
    assert (await other.get(f"/sandboxes/{logged}/audit")).status_code == 404


async def test_the_sdk_reads_the_whole_log(api: Api, sandbox: str, logged: str) -> None:
    assert [event["host"] for event in await audit_of(api, logged, decision="denied")] == ["evil.example"]
    assert len(await audit_of(api, logged)) == 5
    assert await audit_of(api, sandbox) == []


async def audit_of(api: Api, sandbox: str, decision: str | None = None) -> list[dict[str, object]]:
    box = await Sandbox.connect(sandbox, api_key=api.key, api_url=api.url)
    try:
        return list(await box.audit(decision=decision))
    finally:
        await box.close()
