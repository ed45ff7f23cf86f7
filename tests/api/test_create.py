"""`POST /api/sandboxes`: what is accepted, what is refused, and how."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.node import Api

pytestmark = pytest.mark.anyio


async def ids(api: Api) -> list[str]:
    return [sandbox["sandboxID"] for sandbox in (await api.get("/sandboxes?status=all")).json()]


async def refused(api: Api, status: int, body: Any = None, **options: Any) -> dict[str, Any]:
    """Create with this body, see that nothing was made, and return the error."""
    before = await ids(api)
    if body is not None:
        options["json"] = body
    answer = await api.post("/sandboxes", **options)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()
    assert isinstance(error["error"], str)
    assert error["error"]
    assert await ids(api) == before
    return error


async def test_the_answer_has_what_both_published_clients_read(api: Api) -> None:
    body = {"templateID": "base", "timeout": 0, "envs": {"A": "b"}, "metadata": {"k": "v"}}
    answer = await api.post("/sandboxes", json=body, headers={"x-oc-sdk-version": "1.1.0"})
    assert answer.status_code == 201
    sandbox = answer.json()
    assert re.fullmatch(r"sb-[0-9a-f]{8}", sandbox["sandboxID"])
    assert sandbox["status"] == "running"
    assert sandbox["connectURL"] == f"{api.url}/api"
    assert re.fullmatch(r"[A-Za-z0-9._-]+", sandbox["token"])
    assert (sandbox["templateID"], sandbox["template"]) == ("base", "base")
    assert (sandbox["memoryMB"], sandbox["cpuCount"], sandbox["diskMB"]) == (4096, 1, 20480)
    assert (sandbox["metadata"], sandbox["tags"], sandbox["timeout"]) == ({"k": "v"}, {}, 0)
    assert sandbox["sandboxDomain"] == "localhost"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", sandbox["startedAt"])


async def test_what_does_not_exist_is_left_out(api: Api) -> None:
    """A zero date would be read as a deadline, an empty token as one that was generated."""
    sandbox = await api.create()
    for name in ("endAt", "previewAuthToken", "webhooks", "fromCheckpointId", "stoppedAt", "alias"):
        assert name not in sandbox


@pytest.mark.parametrize("content", [b"", b' {"unknownField": [1, {"x": null}]} '])
async def test_an_empty_body_is_an_empty_object_and_unknown_fields_mean_nothing(
    api: Api, content: bytes
) -> None:
    answer = await api.post("/sandboxes", content=content)
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("type_", ["text/plain", "application/x-www-form-urlencoded", "nonsense", ""])
async def test_the_content_type_decides_nothing(api: Api, type_: str) -> None:
    error = await refused(api, 400, content=b'{"timeout": 1.5}', headers={"content-type": type_})
    assert error["field"] == "timeout"


async def test_the_base_template_has_aliases(api: Api) -> None:
    assert (await api.create(templateID="ubuntu"))["templateID"] == "base"


@pytest.mark.parametrize("template", ["nope", "../base", "base/h1", ".", "a\nb", "x" * 5000, "ünï"])
async def test_an_unknown_template_is_not_found(api: Api, template: str) -> None:
    error = await refused(api, 404, {"templateID": template})
    assert (error["code"], error["field"]) == ("not_found", "templateID")


@pytest.mark.parametrize(
    ("fields", "memory", "cpus"),
    [
        ({"cpuCount": 4}, 16384, 4),
        ({"memoryMB": 8192, "cpuCount": 2, "diskMB": 20480}, 8192, 2),
        ({"memoryMB": None, "cpuCount": None, "diskMB": None}, 4096, 1),
    ],
)
async def test_sizes_are_tiers(api: Api, fields: dict[str, Any], memory: int, cpus: int) -> None:
    sandbox = await api.create(**fields)
    assert (sandbox["memoryMB"], sandbox["cpuCount"]) == (memory, cpus)


INVALID: list[tuple[str, Any]] = [
    ("templateID", 5),
    ("templateID", None),
    ("templateID", ["base"]),
    ("timeout", -1),
    ("timeout", "60"),
    ("timeout", 1.5),
    ("timeout", None),
    ("timeout", True),
    ("timeout", 10**18),
    ("timeout", [1]),
    ("envs", []),
    ("envs", "A=b"),
    ("envs", {"A": 1}),
    ("envs", {"A": None}),
    ("envs", {"": "x"}),
    ("envs", {"A=B": "x"}),
    ("envs", {"A": "x\0y"}),
    ("envs", {"A\0": "x"}),
    ("envs", {"A": "x" * 200_000}),
    ("envs", {f"A{number}": "x" for number in range(1001)}),
    ("metadata", ["x"]),
    ("metadata", {"k": {}}),
    ("metadata", {"k": "x" * 70_000}),
    ("memoryMB", 0),
    ("memoryMB", -1024),
    ("memoryMB", 2048),
    ("memoryMB", 65536),
    ("memoryMB", "4096"),
    ("memoryMB", 4096.5),
    ("memoryMB", 10**30),
    ("memoryMB", True),
    ("cpuCount", 0),
    ("cpuCount", 3),
    ("cpuCount", "1"),
    ("diskMB", 20479),
    ("diskMB", 262145),
    ("diskMB", -1),
    ("diskMB", "20480"),
    ("alias", 5),
    ("alias", "x" * 1001),
    ("networkEnabled", "yes"),
    ("networkEnabled", 1),
    ("burst", "true"),
    ("sandboxFamily", 1),
]


@pytest.mark.parametrize(("field", "value"), INVALID)
async def test_an_invalid_field_is_named_and_nothing_is_made(api: Api, field: str, value: Any) -> None:
    error = await refused(api, 400, {field: value})
    assert error["code"] == "invalid_request"
    assert field in error["error"]
    assert error["field"].split(".")[0] == field


async def test_sizes_that_contradict_each_other_are_refused(api: Api) -> None:
    assert (await refused(api, 400, {"memoryMB": 8192, "cpuCount": 1}))["field"] == "cpuCount"


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b"[]",
        b"5",
        b'"x"',
        b"{",
        b"{'a': 1}",
        b'{"timeout": 1,}',
        b'{"timeout": NaN}',
        b'{"timeout": Infinity}',
        b'{"timeout": 1e999}',
        b"\xff\xfe",
        b'{"alias": "\xff"}',
        b'{"alias": "\\ud800"}',
        b"\x00",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 100_000,
    ],
)
async def test_a_body_that_is_no_json_object_is_refused_in_our_words(api: Api, content: bytes) -> None:
    error = await refused(api, 400, content=content)
    assert error["code"] == "invalid_request"
    assert "pydantic" not in str(error)


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    content = b'{"ignored": "' + b"x" * (49 << 20) + b'"}'
    assert (await refused(api, 400, content=content))["code"] == "invalid_request"


@pytest.mark.parametrize("url", ["https://127.0.0.1/x", "https://[::1]/", "http://example.com/"])
async def test_webhooks_go_to_no_private_addresses_unless_the_operator_lets_them(api: Api, url: str) -> None:
    for path, body in [("/webhooks", {"url": url}), ("/sandboxes", {"webhooks": [{"url": url}]})]:
        answer = await api.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_image_and_snapshot_exclude_each_other(api: Api) -> None:
    assert (await refused(api, 400, {"image": {"x": 1}, "snapshot": "y"}))["code"] == "invalid_request"


@pytest.mark.parametrize(
    "fields", [{"image": None, "snapshot": "", "secretStore": None, "previewAuth": None, "webhooks": []}]
)
async def test_offering_nothing_of_a_later_part_is_not_asking_for_it(
    api: Api, fields: dict[str, Any]
) -> None:
    await api.create(**fields)


# Idempotency


async def test_the_same_idempotency_key_gives_the_same_sandbox(api: Api) -> None:
    headers = {"Idempotency-Key": "create-once"}
    first, second = [
        await api.post("/sandboxes", json={"metadata": {"a": "1"}}, headers=headers) for _ in range(2)
    ]
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["sandboxID"] == second.json()["sandboxID"]


async def test_the_same_key_for_something_else_is_a_conflict(api: Api) -> None:
    headers = {"Idempotency-Key": "create-other"}
    await api.post("/sandboxes", json={"timeout": 1}, headers=headers)
    error = await refused(api, 409, {"timeout": 2}, headers=headers)
    assert error["code"] == "idempotency_mismatch"


async def test_keys_of_organisations_have_nothing_to_do_with_each_other(api: Api, other: Api) -> None:
    headers = {"Idempotency-Key": "shared"}
    mine, theirs = [
        (await each.post("/sandboxes", json={}, headers=headers)).json()["sandboxID"] for each in (api, other)
    ]
    assert mine != theirs


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_idempotency_key_has_a_reasonable_length(api: Api, key: str) -> None:
    error = await refused(api, 400, {}, headers={"Idempotency-Key": key})
    assert error["field"] == "Idempotency-Key"


# How clients reach it


async def test_the_address_is_the_one_the_caller_used(api: Api) -> None:
    headers = {"Host": "oc.example:8443", "X-Forwarded-Proto": "https"}
    answer = await api.post("/sandboxes", json={}, headers=headers)
    assert answer.json()["connectURL"] == "https://oc.example:8443/api"
