"""Secret stores: values come in, never go out, and reach the sandboxes that hold them, running or asleep."""

from __future__ import annotations

from datetime import timedelta

import pytest

from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.secrets import MAX_SECRETS
from opencomputer.server.services.sandboxes.egress import Refreshed
from opencomputer.wire.ids import SecretStoreId
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, on, settle
from tests.unit.server.services.vault import named, store_with, values

pytestmark = pytest.mark.anyio

NO_STORE = SecretStoreId("00000000-0000-0000-0000-000000000000")


async def test_nothing_that_is_answered_or_kept_has_the_value(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="canary")
        (secret,) = await process.secret_stores.list_secrets(ORG, store.id)
        assert (secret.name, secret.store_id, secret.hosts) == ("KEY", store.id, ())
        sandbox = await named(process, store)
        assert "canary" not in repr((secret, node.tables, sandbox, process.gate.rules))
        assert values(process, sandbox) == {"KEY": "canary"}


@pytest.mark.parametrize(
    ("name", "value", "hosts", "field"),
    [
        ("1KEY", "x", (), "name"),
        ("KEY", "", (), "value"),
        ("KEY", "x" * 65537, (), "value"),
        ("KEY", "x", ("",), "allowedHosts"),
        ("KEY", "x", ("https://a.org",), "allowedHosts"),
        ("KEY", "x", ("a.org",) * 501, "allowedHosts"),
    ],
)
async def test_what_is_no_secret_is_refused(
    node: Node, name: str, value: str, hosts: tuple[str, ...], field: str
) -> None:
    async with node.process() as process:
        store = await store_with(process)
        with pytest.raises(InvalidInput) as caught:
            await process.secret_stores.set_secret(ORG, store.id, name, value, hosts)
        assert caught.value.details == {"field": field}
        assert await process.secret_stores.list_secrets(ORG, store.id) == []


async def test_names_and_lists_of_stores_are_checked(node: Node) -> None:
    async with node.process() as process:
        stores = process.secret_stores
        made = await stores.create(ORG, "keys", ["API.Example.com.", "*.a.org", "api.example.com"])
        assert made.egress_allowlist == ("api.example.com", "*.a.org")
        with pytest.raises(Conflict):
            await stores.create(ORG, "keys", [])
        await stores.create(OTHER_ORG, "keys", [])
        with pytest.raises(InvalidInput) as caught:
            await stores.create(ORG, "other", ["", "a.org"])
        assert caught.value.details == {"field": "egressAllowlist"}
        assert [each.name for each in await stores.list(ORG)] == ["keys"]


async def test_an_update_changes_only_what_it_names(node: Node) -> None:
    async with node.process() as process:
        stores = process.secret_stores
        made = await stores.create(ORG, "keys", ["a.org"])
        assert await stores.update(ORG, made.id, name=None, egress_allowlist=None) == made
        renamed = await stores.update(ORG, made.id, name="better", egress_allowlist=None)
        assert (renamed.name, renamed.egress_allowlist) == ("better", ("a.org",))
        cleared = await stores.update(ORG, made.id, name=None, egress_allowlist=[])
        assert (cleared.name, cleared.egress_allowlist) == ("better", ())


async def test_another_organisations_store_is_not_there(node: Node) -> None:
    async with node.process() as process:
        stores, theirs = process.secret_stores, await store_with(process, KEY="x")
        for work in (
            stores.get(OTHER_ORG, theirs.id),
            stores.update(OTHER_ORG, theirs.id, name="mine", egress_allowlist=None),
            stores.delete(OTHER_ORG, theirs.id),
            stores.set_secret(OTHER_ORG, theirs.id, "KEY", "y", ()),
            stores.list_secrets(OTHER_ORG, theirs.id),
            stores.delete_secret(OTHER_ORG, theirs.id, "KEY"),
            stores.delete_secret(ORG, theirs.id, "NONE"),
            stores.get(ORG, NO_STORE),
        ):
            with pytest.raises(NotFound):
                await work


async def test_a_store_has_room_for_a_hundred(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, **{f"K{number}": "x" for number in range(MAX_SECRETS)})
        with pytest.raises(InvalidInput):
            await process.secret_stores.set_secret(ORG, store.id, "ONE_MORE", "x", ())
        await process.secret_stores.set_secret(ORG, store.id, "K1", "y", ())


async def test_a_secret_that_two_set_first_is_set_by_both(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process)

        async def another() -> None:
            await process.secret_stores.set_secret(ORG, store.id, "KEY", "theirs", ())

        node.tables.before = on("secrets.set", another, times=1)
        await process.secret_stores.set_secret(ORG, store.id, "KEY", "mine", ())
        assert values(process, await named(process, store)) == {"KEY": "mine"}


# Changes reach sandboxes


async def test_a_new_value_reaches_running_sandboxes_at_once_under_the_same_token(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="old", OTHER="kept")
        one, two, apart = await named(process, store), await named(process, store), await process.create()
        before = {each.id: process.gate.of(each.id) for each in (one, two)}
        told = len(process.gate.told)
        outcome = await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ["a.org"])
        assert outcome == Refreshed(2, 0)
        for each in (one, two):
            assert values(process, each) == {"KEY": "new", "OTHER": "kept"}
            after = process.gate.of(each.id)
            assert [each.token for each in after.secrets] == [each.token for each in before[each.id].secrets]
            assert {secret.name: secret.hosts for secret in after.secrets} == {"KEY": ("a.org",), "OTHER": ()}
        assert process.gate.of(apart.id).secrets == ()
        assert len(process.gate.told) == told + 2


async def test_a_new_value_reaches_one_that_sleeps_when_it_wakes(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="old")
        sandbox = await named(process, store)
        (token,) = {secret.token for secret in process.gate.of(sandbox.id).secrets}
        await process.hibernation.hibernate(ORG, sandbox.id)
        await settle()
        assert process.gate.rules == {}
        assert await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ()) == Refreshed(0, 0)
        await process.hibernation.wake(ORG, sandbox.id)
        assert values(process, sandbox) == {"KEY": "new"}
        assert {secret.token for secret in process.gate.of(sandbox.id).secrets} == {token}


async def test_a_secret_that_is_added_is_for_new_sandboxes(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        sandbox = await named(process, store)
        assert await process.secret_stores.set_secret(ORG, store.id, "NEW", "y", ()) == Refreshed(0, 0)
        assert values(process, sandbox) == {"KEY": "x"}
        assert values(process, await named(process, store)) == {"KEY": "x", "NEW": "y"}


async def test_a_new_list_is_enforced_at_once_and_never_a_looser_one_in_between(node: Node) -> None:
    async with node.process() as process:
        store = await process.secret_stores.create(ORG, "hosts", [])
        sandbox = await named(process, store)
        machine = node.machine_of(sandbox)
        assert (process.gate.of(sandbox.id).mode, machine.egress) == (EgressMode.OPEN, EgressMode.OPEN)
        seen: list[tuple[EgressMode, EgressMode]] = []

        async def look() -> None:
            seen.append((machine.egress, process.gate.of(sandbox.id).mode))

        node.host.before = on("set_egress", look)
        await process.secret_stores.update(ORG, store.id, name=None, egress_allowlist=["a.org"])
        assert (process.gate.of(sandbox.id).mode, machine.egress) == (EgressMode.RESTRICTED,) * 2
        await process.secret_stores.update(ORG, store.id, name=None, egress_allowlist=[])
        assert (process.gate.of(sandbox.id).mode, machine.egress) == (EgressMode.OPEN,) * 2
        # Stricter: packets first. Looser: packets last.
        assert seen == [(EgressMode.OPEN, EgressMode.OPEN), (EgressMode.RESTRICTED, EgressMode.OPEN)]


async def test_one_that_cannot_be_told_is_counted_and_the_others_are_told(node: Node) -> None:
    async with node.process() as process:
        store = await process.secret_stores.create(ORG, "hosts", [])
        await process.secret_stores.set_secret(ORG, store.id, "KEY", "old", ())
        bad, good = await named(process, store), await named(process, store)

        async def fail_once() -> None:
            raise OSError("the link is gone")

        node.host.before = on("set_egress", fail_once, times=1)
        changed = await process.secret_stores.update(ORG, store.id, name=None, egress_allowlist=["a.org"])
        assert changed.egress_allowlist == ("a.org",)
        modes = {node.machine_of(each).egress for each in (bad, good)}
        assert modes == {EgressMode.WATCHED, EgressMode.RESTRICTED}
        outcome = await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ())
        assert outcome == Refreshed(2, 0)
        assert {node.machine_of(each).egress for each in (bad, good)} == {EgressMode.RESTRICTED}


# Deleting


async def test_what_is_deleted_goes_on_working_where_it_is_held(node: Node) -> None:
    async with node.process() as process:
        store = await process.secret_stores.create(ORG, "keys", ["a.org"])
        await process.secret_stores.set_secret(ORG, store.id, "KEY", "x", ())
        sandbox = await named(process, store)
        await process.secret_stores.delete(ORG, store.id)
        await _sweep(process)
        assert (values(process, sandbox), process.gate.of(sandbox.id).allowlist) == ({"KEY": "x"}, ("a.org",))
        await process.hibernation.hibernate(ORG, sandbox.id)
        await settle()
        await _sweep(process)
        await process.hibernation.wake(ORG, sandbox.id)
        assert (values(process, sandbox), process.gate.of(sandbox.id).allowlist) == ({"KEY": "x"}, ("a.org",))
        with pytest.raises(InvalidInput):
            await named(process, store)
        await process.lifecycle.kill(ORG, sandbox.id)
        await _sweep(process)
        assert (node.tables.secrets, node.tables.secret_stores, node.tables.held) == ({}, {}, {})


async def _sweep(process: Process) -> None:
    await settle(timedelta(minutes=11).total_seconds())
    await process.secret_upkeep.sweep()


async def test_a_secret_that_is_set_anew_after_it_was_deleted_reaches_its_holders(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="old")
        sandbox = await named(process, store)
        await process.secret_stores.delete_secret(ORG, store.id, "KEY")
        assert await process.secret_stores.list_secrets(ORG, store.id) == []
        assert await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ()) == Refreshed(1, 0)
        assert values(process, sandbox) == {"KEY": "new"}


async def test_a_sandboxes_own_store_is_deleted_with_it_unless_another_holds_it(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        one, two = await named(process, store), await named(process, store)
        assert await _killed_with_its_store(process, one) == [store.name]
        assert await _killed_with_its_store(process, two) == []
        assert await _killed_with_its_store(process, await process.create()) == []


async def _killed_with_its_store(process: Process, sandbox: Sandbox) -> list[str]:
    await process.lifecycle.kill(ORG, sandbox.id)
    await process.secret_stores.delete_attached(sandbox)
    return [each.name for each in await process.secret_stores.list(ORG)]
