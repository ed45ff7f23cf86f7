"""Secret stores in every store: unique names, secrets that come and go, and what sandboxes hold of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.secrets import EncryptedValue
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound
from opencomputer.server.domain.sandbox import SandboxState, StopReason
from opencomputer.server.domain.secrets import (
    Ciphertext,
    Layer,
    Seal,
    Sealing,
    Secret,
    SecretPlace,
    SecretStore,
)
from opencomputer.server.domain.snapshot import Origin
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support import rows
from tests.unit.server.stores.conftest import Stores

pytestmark = pytest.mark.anyio


def sealing(*held: tuple[SecretStore, Secret], inherited: tuple[Seal, ...] = ()) -> Sealing:
    """What a sandbox with a token for each of these secrets holds."""
    stores = tuple(dict.fromkeys(store.id for store, _ in held))
    seals = tuple(Seal(naming.new_sealed_token(), secret.name, secret.id) for _, secret in held)
    return Sealing(stores, (*seals, *inherited))


async def stop(stores: Stores, org: OrgId, sandbox_id: SandboxId) -> None:
    row = await stores.sandboxes.get(org, sandbox_id)
    assert row is not None
    assert await stores.sandboxes.move(
        sandbox_id, row.state, SandboxState.STOPPED, at=rows.at(9), reason=StopReason.USER_REQUESTED
    )


async def test_a_store_comes_back_as_it_was_given(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org, egress_allowlist=("*.example.com", "a.org"))
    assert await stores.secret_stores.get(org, store.id) == store
    assert await stores.secret_stores.get(await stores.new_org(), store.id) is None


async def test_stores_are_listed_by_name_and_only_ones_own(stores: Stores) -> None:
    org, other = await stores.new_org(), await stores.new_org()
    for name in ("b", "a", "C"):
        await stores.new_secret_store(org, name=name)
    await stores.new_secret_store(other, name="theirs")
    assert [store.name for store in await stores.secret_stores.list(org)] == ["C", "a", "b"]


async def test_a_name_is_taken_once_per_organisation_until_its_store_is_deleted(stores: Stores) -> None:
    org, other = await stores.new_org(), await stores.new_org()
    first = await stores.new_secret_store(org, name="keys")
    await stores.new_secret_store(other, name="keys")
    with pytest.raises(Conflict):
        await stores.new_secret_store(org, name="keys")
    second = await stores.new_secret_store(org, name="other keys")
    with pytest.raises(Conflict):
        await stores.secret_stores.update(org, second.id, {"name": "keys"}, rows.at(1))
    assert await stores.secret_stores.delete(org, first.id, rows.at(1))
    renamed = await stores.secret_stores.update(org, second.id, {"name": "keys"}, rows.at(2))
    assert renamed == replace(second, name="keys", updated_at=rows.at(2))


async def test_only_what_is_named_changes(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org, egress_allowlist=("a.org",))
    changed = await stores.secret_stores.update(org, store.id, {"egress_allowlist": ()}, rows.at(1))
    assert changed == replace(store, egress_allowlist=(), updated_at=rows.at(1))
    assert await stores.secret_stores.get(org, store.id) == changed
    assert await stores.secret_stores.update(await stores.new_org(), store.id, {}, rows.at(2)) is None


async def test_a_deleted_store_is_gone_with_its_secrets(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    await stores.new_secret(store)
    assert not await stores.secret_stores.delete(await stores.new_org(), store.id, rows.at(1))
    assert await stores.secret_stores.delete(org, store.id, rows.at(1))
    assert not await stores.secret_stores.delete(org, store.id, rows.at(2))
    assert await stores.secret_stores.get(org, store.id) is None
    assert await stores.secret_stores.list(org) == []
    assert await stores.secrets.list(store.id) == []
    assert await stores.holdings.layers(org, [store.name]) == []
    with pytest.raises(NotFound):
        await stores.new_secret(store)


async def test_setting_a_secret_again_replaces_value_and_hosts(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    first = await stores.new_secret(store, hosts=("a.org",))
    assert await stores.secrets.list(store.id) == [first]
    again = replace(
        first, ciphertext=Ciphertext(2, b"new"), hosts=(), created_at=rows.at(5), updated_at=rows.at(5)
    )
    expected = replace(again, created_at=first.created_at)
    assert await stores.secrets.set(again, most=1) == expected
    assert await stores.secrets.find(store.id, first.name) == expected
    with pytest.raises(Conflict):
        await stores.new_secret(store, name=first.name)


async def test_a_store_has_room_for_so_many(stores: Stores) -> None:
    store = await stores.new_secret_store(await stores.new_org())
    first = await stores.secrets.set(rows.secret(store.id, name="A"), most=2)
    await stores.secrets.set(rows.secret(store.id, name="B"), most=2)
    with pytest.raises(InvalidInput):
        await stores.secrets.set(rows.secret(store.id, name="C"), most=2)
    await stores.secrets.set(replace(first, updated_at=rows.at(1)), most=2)
    assert await stores.secrets.delete(store.id, "A", rows.at(2))
    await stores.secrets.set(rows.secret(store.id, name="C"), most=2)
    assert [each.name for each in await stores.secrets.list(store.id)] == ["B", "C"]
    with pytest.raises(InvalidInput):
        await stores.secrets.set(first, most=2)
    assert [each.name for each in await stores.secrets.list(store.id)] == ["B", "C"]


async def test_a_deleted_secret_comes_back_as_the_same_one(stores: Stores) -> None:
    store = await stores.new_secret_store(await stores.new_org())
    secret = await stores.new_secret(store)
    assert await stores.secrets.delete(store.id, secret.name, rows.at(1))
    assert not await stores.secrets.delete(store.id, secret.name, rows.at(2))
    found = await stores.secrets.find(store.id, secret.name)
    assert found == secret
    again = replace(secret, created_at=rows.at(3), updated_at=rows.at(3))
    assert await stores.secrets.set(again, most=100) == again
    assert await stores.secrets.list(store.id) == [again]


async def test_a_ciphertext_is_only_replaced_by_who_knows_it(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    secret = await stores.new_secret(store)
    new = Ciphertext(2, b"encrypted anew")
    assert not await stores.secrets.recrypt(secret.id, Ciphertext(1, b"another"), new)
    assert await stores.secrets.recrypt(secret.id, secret.ciphertext, new)
    place = SecretPlace(org, store.id, secret.id)
    assert await stores.secrets.values() == [EncryptedValue(secret.id, place, new)]
    assert await stores.secrets.remove(secret.id)
    assert not await stores.secrets.remove(secret.id)
    assert await stores.secrets.values() == []


async def test_layers_come_in_the_order_of_their_names(stores: Stores) -> None:
    org, other = await stores.new_org(), await stores.new_org()
    a, b = [await stores.new_secret_store(org, name=name) for name in ("a", "b")]
    await stores.new_secret_store(other, name="theirs")
    second, first = await stores.new_secret(b, name="Y"), await stores.new_secret(b, name="X")
    gone = await stores.new_secret(a, name="GONE")
    await stores.secrets.delete(a.id, gone.name, rows.at(1))
    layers = await stores.holdings.layers(org, ["missing", "b", "theirs", "a"])
    assert layers == [Layer(b, [first, second]), Layer(a, [])]


async def test_a_sandbox_holds_what_it_was_made_with(stores: Stores) -> None:
    org = await stores.new_org()
    one, two = await stores.new_secret_store(org), await stores.new_secret_store(org)
    key = await stores.new_secret(two)
    copied = Seal("osb_sealed_0", "LOST", None, inherited=True)
    made = Sealing((two.id, one.id), (*sealing((two, key)).seals, copied))
    sandbox = await stores.new_sandbox(org, made, secret_stores=("two", "one"), egress_allowlist=("a.org",))
    holding = await stores.holdings.holding(sandbox.id)
    assert holding.stores == [two, one]
    assert sorted(holding.seals, key=lambda seal: seal.inherited) == list(made.seals)
    assert holding.secrets == {key.id: key}
    assert await stores.holdings.seals(sandbox.id) == holding.seals
    assert await stores.sandboxes.get(org, sandbox.id) == sandbox
    nothing = await stores.holdings.holding((await stores.new_sandbox(org)).id)
    assert (nothing.stores, nothing.seals, nothing.secrets) == ([], [], {})


async def test_a_sandbox_that_is_refused_holds_nothing(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    key = await stores.new_secret(store)
    await stores.new_sandbox(org, idempotency_key="taken")
    with pytest.raises(Conflict):
        await stores.new_sandbox(org, sealing((store, key)), idempotency_key="taken")
    assert await stores.holdings.holders(store.id) == []


async def test_holders_are_sandboxes_that_have_not_ended(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    a, b = await stores.new_secret(store, name="A"), await stores.new_secret(store, name="B")
    both = await stores.new_sandbox(org, sealing((store, a), (store, b)), state=SandboxState.RUNNING)
    asleep = await stores.new_sandbox(org, sealing((store, a)), state=SandboxState.HIBERNATED)
    ended = await stores.new_sandbox(org, sealing((store, a)), state=SandboxState.STOPPED)
    assert ended.id not in await stores.holdings.holders(store.id)
    assert list(await stores.holdings.holders(store.id)) == sorted([both.id, asleep.id])
    assert list(await stores.holdings.holders(store.id, "A")) == sorted([both.id, asleep.id])
    assert list(await stores.holdings.holders(store.id, "B")) == [both.id]
    assert list(await stores.holdings.holders(store.id, "C")) == []


async def test_what_was_deleted_stays_for_its_holders_and_goes_with_the_last(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org, egress_allowlist=("a.org",))
    held, unheld = await stores.new_secret(store, name="A"), await stores.new_secret(store, name="B")
    sandbox = await stores.new_sandbox(org, sealing((store, held)), state=SandboxState.HIBERNATED)
    await stores.secret_stores.delete(org, store.id, rows.at(1))
    assert await stores.holdings.sweep(rows.at(1)) == 0
    assert await stores.holdings.sweep(rows.at(2)) == 1
    holding = await stores.holdings.holding(sandbox.id)
    assert (holding.stores, holding.secrets) == ([store], {held.id: held})
    assert await stores.secrets.find(store.id, unheld.name) is None
    await stop(stores, org, sandbox.id)
    assert await stores.holdings.sweep(rows.at(2)) == 1
    holding = await stores.holdings.holding(sandbox.id)
    assert (holding.stores, holding.seals, holding.secrets) == ([], [], {})
    assert await stores.secrets.values() == []


async def test_what_is_there_is_never_swept(stores: Stores) -> None:
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    key = await stores.new_secret(store)
    sandbox = await stores.new_sandbox(org, sealing((store, key)), state=SandboxState.STOPPED)
    assert await stores.holdings.sweep(rows.at(1000)) == 0
    assert await stores.secret_stores.list(org) == [store]
    assert await stores.secrets.list(store.id) == [key]
    assert await stores.holdings.seals(sandbox.id) == []


async def test_tokens_stay_as_long_as_something_can_be_made_of_their_sandbox(stores: Stores) -> None:
    """A sandbox made from a checkpoint has them in its memory."""
    org = await stores.new_org()
    store = await stores.new_secret_store(org)
    key = await stores.new_secret(store)
    made = sealing((store, key))
    sandbox = await stores.new_sandbox(org, made, state=SandboxState.STOPPED)
    origin = Origin("base", "h1", rows.SHAPE, secret_stores=(store.name,), egress_allowlist=("a.org",))
    checkpoint = await stores.new_checkpoint(org, sandbox.id, origin=origin)
    assert await stores.snapshots.get(checkpoint.id) == checkpoint
    await stores.holdings.sweep(rows.at(1000))
    assert tuple(await stores.holdings.seals(sandbox.id)) == made.seals
    await stores.snapshots.remove(checkpoint.id)
    await stores.holdings.sweep(rows.at(1000))
    assert await stores.holdings.seals(sandbox.id) == []


async def test_one_name_set_by_many_at_once_is_one_secret(stores: Stores) -> None:
    store = await stores.new_secret_store(await stores.new_org())
    outcomes = await asyncio.gather(
        *(stores.new_secret(store, name="A") for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(each, Secret) for each in outcomes) == 1
    assert all(isinstance(each, Secret | Conflict) for each in outcomes)
    assert len(await stores.secrets.list(store.id)) == 1
