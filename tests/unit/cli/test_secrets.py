"""`oc secret-store` and `oc secret`: a store is named by its name or by its id."""

from __future__ import annotations

import json

import pytest

from tests.support.fake_node import FakeNode
from tests.unit.cli.conftest import Oc
from tests.unit.cli.recorded import Recorded

ID = "0f0e0d0c-0b0a-4908-8706-050403020100"
STORES = "/secret-stores"
KEYS: dict[str, object] = {"id": ID, "name": "keys", "egressAllowlist": ["a.test"]}
OTHER: dict[str, object] = {"id": "11111111-2222-4333-8444-555555555555", "name": "other"}

COMMANDS = {
    "get": Recorded("secret-store get STORE", "GET", f"{STORES}/{ID}", KEYS),
    "update": Recorded(
        "secret-store update STORE --name new", "PUT", f"{STORES}/{ID}", KEYS, sent={"name": "new"}
    ),
    "delete": Recorded("secret-store delete STORE", "DELETE", f"{STORES}/{ID}", None, 204),
    "set": Recorded(
        "secret set STORE TOKEN v",
        "PUT",
        f"{STORES}/{ID}/secrets/TOKEN",
        {"name": "TOKEN", "refreshed": 0},
        sent={"value": "v", "allowedHosts": []},
    ),
    "list": Recorded("secret list STORE", "GET", f"{STORES}/{ID}/secrets", []),
    "unset": Recorded("secret rm STORE TOKEN", "DELETE", f"{STORES}/{ID}/secrets/TOKEN", None, 204),
}


def run(oc: Oc, command: Recorded, store: str) -> tuple[int, str, str]:
    outcome = oc(*(store if word == "STORE" else word for word in command.arguments("text")))
    return outcome.exit_code, outcome.stdout, outcome.stderr


def teach(node: FakeNode, *stores: dict[str, object]) -> None:
    Recorded("", "GET", STORES, list(stores)).teach(node)


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_store_is_found_by_its_name(oc: Oc, node: FakeNode, verb: str) -> None:
    teach(node, OTHER, KEYS)
    COMMANDS[verb].teach(node)
    code, _, told = run(oc, COMMANDS[verb], "keys")
    assert (code, told) == (0, "")
    COMMANDS[verb].check(node)


@pytest.mark.parametrize("verb", COMMANDS)
def test_an_id_is_used_as_it_is(oc: Oc, node: FakeNode, verb: str) -> None:
    COMMANDS[verb].teach(node)
    assert run(oc, COMMANDS[verb], ID)[0] == 0
    assert not node.requests("GET", "secret-stores")


@pytest.mark.parametrize("verb", COMMANDS)
def test_an_unknown_name_says_where_to_look(oc: Oc, node: FakeNode, verb: str) -> None:
    teach(node, OTHER)
    code, _, told = run(oc, COMMANDS[verb], "keys")
    assert code == 3
    assert told == (
        "Error: no secret store has the name or id 'keys'\nHint: see what is there: oc secret-store list\n"
    )


def test_what_was_deleted_by_its_name_is_told_by_its_id(oc: Oc, node: FakeNode) -> None:
    teach(node, KEYS)
    COMMANDS["delete"].teach(node)
    outcome = oc("--json", "secret-store", "delete", "keys")
    assert json.loads(outcome.stdout) == {"id": ID, "deleted": True}
