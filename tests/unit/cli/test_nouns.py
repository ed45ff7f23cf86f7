"""Mounts, tags, usage and webhooks of sandboxes from the command line, against the contract's shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.fake_node import FakeNode, Rule
from tests.unit.cli.conftest import Oc
from tests.unit.cli.recorded import FORMS, Recorded, check_form

Golden = Callable[[str, str], None]

SB = "sb-00000001"
NOW = "2026-01-02T03:04:05Z"
BUCKET = {"path": "/data", "driver": "rclone", "readOnly": True, "remote": "s3:bucket", "backend": "s3"}
BY_COMMAND = {"path": "/d", "driver": "command", "readOnly": False, "command": ["mount it", "{mountpoint}"]}
TAGS = {"tags": {"team": "a", "job": "7\x1b[31m"}, "tagsLastUpdatedAt": NOW}
AMOUNTS = {"memoryGbSeconds": 120.25, "diskOverageGbSeconds": 0}
WEBHOOK = {
    "id": "wh_1",
    "name": "ours",
    "url": "https://a.test/h",
    "eventTypes": ["sandbox.*"],
    "sandboxId": None,
    "enabled": True,
    "hasSecret": True,
    "createdAt": NOW,
    "updatedAt": NOW,
}
WINDOW = {"from": NOW, "to": NOW}
BY_SANDBOX: dict[str, object] = {
    **WINDOW,
    "groupBy": "sandbox",
    "total": AMOUNTS,
    "items": [
        {"sandboxId": SB, "alias": "web", "status": "running", "tags": {"team": "a"}, **AMOUNTS},
        {"sandboxId": "sb-2", "tags": {}, "tagsLastUpdatedAt": None, **AMOUNTS},
    ],
    "nextCursor": "more",
}
BY_TAG = {
    **WINDOW,
    "groupBy": "tag:team",
    "total": AMOUNTS,
    "items": [{"tagKey": "team", "tagValue": "a", "sandboxCount": 2, **AMOUNTS}],
    "untagged": {"sandboxCount": 1, **AMOUNTS},
    "nextCursor": None,
}
OF_ONE = {
    "sandboxId": SB,
    **WINDOW,
    "totals": {
        "memoryAllocatedGbSeconds": 240.0,
        "memoryUsedGbSeconds": 61.5,
        "uptimeSeconds": 60,
        "memoryAllocatedPeakMb": 4096,
        "memoryUsedPeakMb": 1100,
    },
    "points": [
        {
            "ts": NOW,
            "memoryAllocatedGbSeconds": 240.0,
            "memoryUsedGbSeconds": 61.5,
            "uptimeSeconds": 60,
            "allocatedMemoryMb": 4096,
            "usedMemoryMbAvg": 1050.0,
            "usedMemoryMbPeak": 1100,
        }
    ],
}
DELIVERY = {
    "id": "msg_1",
    "attemptId": "at_1",
    "status": "failed",
    "responseStatusCode": 500,
    "timestamp": NOW,
}
NO_FILTER = {"groupBy": "sandbox", "sort": "-memoryGbSeconds", "limit": "50"}

MOUNTS, A_WEBHOOK = f"/sandboxes/{SB}/mounts", "/webhooks/wh_1"
CASES = {
    "mounts_add": Recorded(
        f"mounts add {SB} --path /data --remote s3:bucket --backend s3 --cred a=1,b=2 --opt --links",
        *("POST", MOUNTS, BUCKET, 201),
        {
            "path": "/data",
            "readOnly": True,
            "remote": "s3:bucket",
            "backend": "s3",
            "creds": {"a": "1", "b": "2"},
            "mountOptions": ["--links"],
        },
    ),
    "mounts_add_command": Recorded(
        f"mount add {SB} --path /d --command mount~it --command {{mountpoint}} --env A=1 --secret B=2"
        " --read-write",
        *("POST", MOUNTS, BY_COMMAND, 201),
        {
            "path": "/d",
            "readOnly": False,
            "driver": "command",
            "command": ["mount it", "{mountpoint}"],
            "env": {"A": "1"},
            "secrets": {"B": "2"},
        },
    ),
    "mounts_list": Recorded(f"mounts list {SB}", "GET", MOUNTS, [BUCKET, BY_COMMAND]),
    "mounts_rm": Recorded(f"mounts rm {SB} /data", "DELETE", MOUNTS, None, 204, query={"path": "/data"}),
    "tags_get": Recorded(f"tags get {SB}", "GET", f"/sandboxes/{SB}/tags", TAGS),
    "tags_set": Recorded(
        f"tags set {SB} team=a job=7", "PUT", f"/sandboxes/{SB}/tags", TAGS, sent={"team": "a", "job": "7"}
    ),
    "tags_clear": Recorded(
        *(f"tags set {SB} --clear", "PUT", f"/sandboxes/{SB}/tags"), {"tags": {}}, sent={}
    ),
    "tags_keys": Recorded(
        *("tags keys", "GET", "/tags"), {"keys": [{"key": "team", "sandboxCount": 3, "valueCount": 2}]}
    ),
    "usage": Recorded("usage", "GET", "/usage", BY_SANDBOX, query=NO_FILTER),
    "usage_by_tag": Recorded(
        *("usage --by-tag team --from 2026-01-01 --to 2026-01-03 --sort disk --filter job=7,8", "GET"),
        *("/usage", BY_TAG),
        query={
            "groupBy": "tag:team",
            "sort": "-diskOverageGbSeconds",
            "limit": "50",
            "from": "2026-01-01",
            "to": "2026-01-03",
            "filter[tag:job]": "7,8",
        },
    ),
    "usage_of_one": Recorded(
        f"usage {SB} --from {NOW}", "GET", f"/sandboxes/{SB}/usage", OF_ONE, query={"from": NOW}
    ),
    "webhook_create": Recorded(
        f"webhook create https://a.test/h --event-type sandbox.* --name ours --sandbox {SB}",
        *("POST", "/webhooks", {**WEBHOOK, "secret": "whsec_x"}, 201),
        {"url": "https://a.test/h", "name": "ours", "eventTypes": ["sandbox.*"], "sandboxId": SB},
    ),
    "webhook_list": Recorded("webhook list", "GET", "/webhooks", {"data": [WEBHOOK]}),
    "webhook_get": Recorded("webhook get wh_1", "GET", A_WEBHOOK, WEBHOOK),
    "webhook_update": Recorded(
        "webhook update wh_1 --all-events --disable --rotate-secret --url https://b.test",
        *("PATCH", A_WEBHOOK, {**WEBHOOK, "secret": "whsec_y"}),
        sent={"url": "https://b.test", "eventTypes": None, "enabled": False, "rotateSecret": True},
    ),
    "webhook_secret": Recorded("webhook secret wh_1", "GET", f"{A_WEBHOOK}/secret", {"secret": "whsec_x"}),
    "webhook_test": Recorded(
        *("webhook test wh_1", "POST", f"{A_WEBHOOK}/test"),
        {"ok": True, "eventType": "sandbox.test", "messageId": "msg_2"},
    ),
    "webhook_delete": Recorded("webhook delete wh_1", "DELETE", A_WEBHOOK, None, 204),
    "webhook_deliveries": Recorded(
        "webhook deliveries wh_1", "GET", f"{A_WEBHOOK}/deliveries", {"data": [DELIVERY]}
    ),
    "webhook_redeliver": Recorded(
        *("webhook redeliver wh_1 msg_1", "POST", f"{A_WEBHOOK}/deliveries/msg_1/redeliver", {"ok": True}),
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


@pytest.fixture
def node(server: FakeNode) -> FakeNode:
    """One node for all tests here: all that it knows is what they teach it."""
    server.rules.clear()
    server.seen.clear()
    return server


@pytest.mark.parametrize("name", CASES)
def test_requests_and_results_are_as_written_down(oc: Oc, node: FakeNode, golden: Golden, name: str) -> None:
    """As text, as JSON, and as what `--quiet` leaves."""
    case = CASES[name]
    case.teach(node)
    for form in FORMS:
        node.seen.clear()
        outcome = oc(*case.arguments(form))
        assert outcome.exit_code == 0, outcome.stderr
        case.check(node)
        check_form(form, outcome.stdout)
        golden(f"nouns/{name}.{form}", outcome.stdout)


@pytest.mark.parametrize(
    ("command", "path", "answer", "said"),
    [
        (f"mounts list {SB}", MOUNTS, [], "No mounts."),
        (f"tags get {SB}", f"/sandboxes/{SB}/tags", {"tags": {}}, "No tags."),
        ("tags keys", "/tags", {"keys": []}, "No tags."),
        ("usage", "/usage", {"items": [], "total": AMOUNTS}, "No usage."),
        ("webhook list", "/webhooks", [], "No webhooks."),
        ("webhook deliveries wh_1", f"{A_WEBHOOK}/deliveries", {"data": []}, "No deliveries."),
    ],
)
def test_empty_lists_say_so(
    oc: Oc, node: FakeNode, command: str, path: str, answer: object, said: str
) -> None:
    Recorded(command, "GET", path, answer).teach(node)
    assert oc(*command.split()).stdout == f"{said}\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"mounts add {SB} --path /d", "--remote or --command"),
        (f"mounts add {SB} --path /d --remote a:b --command c", "--remote or --command"),
        (f"mounts add {SB} --path /d --remote a:b --env A=1", "belong to --command"),
        (f"mounts add {SB} --path /d --command c --backend s3", "belong to --remote"),
        (f"mounts add {SB} --path /d --remote a:b --config-file /no --cred a=1", "takes the place"),
        (f"mounts add {SB} --path /d --remote a:b --config-file /no/such", "cannot be read"),
        (f"mounts add {SB} --path /d --remote a:b --backend disk", "disk"),
        (f"tags set {SB}", "--clear"),
        (f"tags set {SB} team", "NAME=VALUE"),
        (f"usage {SB} --by-tag team", "not for one"),
        ("usage --filter team", "KEY=VALUE"),
        ("webhook update wh_1", "nothing to change"),
        ("webhook update wh_1 --all-events --event-type a", "exclude each other"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    oc: Oc, node: FakeNode, command: str, said: str
) -> None:
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stdout, node.seen) == (1, "", [])
    assert said in outcome.stderr


def test_an_rclone_configuration_is_sent_as_it_is(oc: Oc, node: FakeNode, tmp_path: Path) -> None:
    (tmp_path / "rclone.conf").write_text("[mine]\ntype = s3\n")
    case = Recorded("", "POST", MOUNTS, BUCKET, 201)
    case.teach(node)
    oc("mounts", "add", SB, "--path", "/d", "--remote", "mine:x", "--config-file", f"{tmp_path}/rclone.conf")
    (sent,) = node.requests("POST", "/mounts")
    assert sent.body == {
        "path": "/d",
        "readOnly": True,
        "remote": "mine:x",
        "rcloneConfig": "[mine]\ntype = s3\n",
    }


@pytest.mark.parametrize(
    ("command", "method", "path"),
    [
        (f"mounts list {SB}", "GET", MOUNTS),
        ("usage", "GET", "/usage"),
        (f"tags get {SB}", "GET", f"/sandboxes/{SB}/tags"),
        ("webhook list", "GET", "/webhooks"),
    ],
)
def test_what_a_server_does_not_offer_is_one_line(
    oc: Oc, node: FakeNode, command: str, method: str, path: str
) -> None:
    refusal = {"error": "not supported by this server yet", "code": "not_supported"}
    node.rules.append(Rule(method, path, 501, refusal))
    outcome = oc(*command.split())
    assert (outcome.exit_code, outcome.stdout) == (5, "")
    assert outcome.stderr.startswith("Error: not supported by this server yet")


def test_making_a_webhook_twice_by_a_lost_answer_makes_one(oc: Oc, node: FakeNode) -> None:
    node.rules.append(Rule("POST", "/webhooks", 503, {"error": "busy"}))
    Recorded("", "POST", "/webhooks", WEBHOOK, 201).teach(node)
    assert oc("webhook", "create", "https://a.test").exit_code == 0
    first, second = node.requests("POST", "/webhooks")
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
