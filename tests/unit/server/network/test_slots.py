"""Subnets of machines: nobody gets one that is in use, nothing is lost for good."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import NoCapacity
from opencomputer.server.network.slots import Slots, slot_of, subnet

NETWORK = IPv4Network("10.231.0.0/16")
TINY = IPv4Network("10.9.0.0/28")


def slots(
    folder: Path, *, network: IPv4Network = TINY, in_use: Callable[[str], bool] = lambda _: False
) -> Slots:
    return Slots(folder, network, in_use=in_use, first_try=lambda _: 0)


def take(where: Slots, holder: str = "m1", tag: str = "aaaaaa") -> int:
    return where.take(tag, holder, lambda number: f"oc{tag}n{number:04x}")


def test_addresses_of_a_slot() -> None:
    assert subnet(NETWORK, 0).gateway == "10.231.0.1"
    assert subnet(NETWORK, 0).guest == "10.231.0.2"
    assert subnet(NETWORK, 16383).guest == "10.231.255.254"


def test_a_machines_address_tells_its_slot_and_no_other_address_does() -> None:
    for slot in (0, 1, 16_383):
        assert slot_of(NETWORK, subnet(NETWORK, slot).guest) == slot
        with pytest.raises(ValueError, match="no machine"):
            slot_of(NETWORK, subnet(NETWORK, slot).gateway)
    for address in ("10.230.255.254", "10.232.0.2", "203.0.113.2"):
        with pytest.raises(ValueError, match="no machine"):
            slot_of(NETWORK, address)


def test_each_gets_another(tmp_path: Path) -> None:
    where = slots(tmp_path)
    assert [take(where) for _ in range(4)] == [0, 1, 2, 3]


def test_two_nodes_share_one_pool(tmp_path: Path) -> None:
    first, second = slots(tmp_path), slots(tmp_path)
    assert take(first, tag="aaaaaa") != take(second, tag="bbbbbb")
    assert list(first.owned("aaaaaa")) == [0]
    assert list(second.owned("bbbbbb")) == [1]


def test_a_full_pool_is_said_to_be_full(tmp_path: Path) -> None:
    where = slots(tmp_path)
    for _ in range(4):
        take(where)
    with pytest.raises(NoCapacity):
        take(where)


def test_what_is_given_back_is_free_again(tmp_path: Path) -> None:
    where = slots(tmp_path)
    taken = [take(where) for _ in range(4)]
    where.give_back(taken[2])
    where.give_back(taken[2])
    assert take(where) == taken[2]


def test_a_dead_owners_slot_is_given_out_again_only_when_its_link_is_gone(tmp_path: Path) -> None:
    """A machine outlives the server that started it, so a dead process alone proves nothing."""
    alive: set[str] = {"ocaaaaaan0000"}
    where = slots(tmp_path, in_use=lambda interface: interface in alive)
    for _ in range(4):
        take(where)
    pretend_the_takers_died(tmp_path)
    assert take(where) == 1
    alive.add("ocaaaaaan0001")
    pretend_the_takers_died(tmp_path)
    assert take(where) == 2


def test_free_slots_are_preferred_to_stale_ones(tmp_path: Path) -> None:
    where = slots(tmp_path)
    take(where)
    pretend_the_takers_died(tmp_path)
    assert take(where) == 1


def test_a_damaged_slot_does_not_block_the_pool(tmp_path: Path) -> None:
    where = slots(tmp_path)
    for _ in range(4):
        take(where)
    next(tmp_path.glob("*/00003")).write_text("half a w")
    assert take(where) == 3


def test_a_restarted_node_finds_its_own(tmp_path: Path) -> None:
    take(slots(tmp_path), holder="m7")
    (owner,) = slots(tmp_path).owned("aaaaaa").values()
    assert (owner.holder, owner.interface, owner.pid) == ("m7", "ocaaaaaan0000", os.getpid())


def test_a_node_is_abandoned_when_its_server_is_dead_and_no_machine_is_linked(tmp_path: Path) -> None:
    alive: set[str] = set()
    where = slots(tmp_path, in_use=lambda interface: interface in alive)
    take(where, holder="node", tag="aaaaaa")
    take(where, holder="m1", tag="aaaaaa")
    take(where, holder="node", tag="bbbbbb")
    assert where.abandoned_nodes("node") == set()
    pretend_the_takers_died(tmp_path)
    alive.add("ocaaaaaan0001")
    assert where.abandoned_nodes("node") == {"bbbbbb"}
    alive.clear()
    assert where.abandoned_nodes("node") == {"aaaaaa", "bbbbbb"}
    where.renew(0)
    assert where.abandoned_nodes("node") == {"bbbbbb"}


def test_processes_that_race_get_different_slots(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        taken = pool.map(_take_some, [str(tmp_path)] * 2)
    numbers = [number for some in taken for number in some]
    assert len(set(numbers)) == len(numbers) == 50


def _take_some(folder: str) -> list[int]:
    where = Slots(Path(folder), NETWORK, in_use=lambda _: True, first_try=lambda _: 0)
    return [take(where, holder=f"m{number}") for number in range(25)]


def pretend_the_takers_died(folder: Path) -> None:
    for file in folder.glob("*/0*"):
        content = json.loads(file.read_text())
        file.write_text(json.dumps(content | {"pid": 4194305}))
