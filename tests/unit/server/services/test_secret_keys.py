"""Keys of the keyring: changed under running sandboxes, and never dropped while something needs them."""

from __future__ import annotations

import pytest

from opencomputer.server.services.secret_keys import Rotated, forget_unreadable, rotate
from tests.support.memory.secrets import MemorySecretRows
from tests.unit.server.services.harness import ORG, Node, on
from tests.unit.server.services.vault import named, store_with, values

pytestmark = pytest.mark.anyio


async def test_every_secret_gets_the_new_key_and_old_keys_go_one_rotation_later(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, A="1", B="2")
        rows = MemorySecretRows(node.tables)
        assert await rotate(node.keyring, [rows]) == Rotated(2, encrypted=2, unreadable=0, dropped=[])
        assert {each.ciphertext.key_version for each in node.tables.secrets.values()} == {2}
        assert await rotate(node.keyring, [rows]) == Rotated(3, encrypted=2, unreadable=0, dropped=[1])
        assert node.keyring.versions == [2, 3]
        assert values(process, await named(process, store)) == {"A": "1", "B": "2"}


async def test_deleted_secrets_that_are_held_get_the_new_key_too(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, A="1")
        sandbox = await named(process, store)
        await process.secret_stores.delete(ORG, store.id)
        for _ in range(3):
            await rotate(node.keyring, [MemorySecretRows(node.tables)])
        await process.egress.refresh([sandbox.id])
        assert values(process, sandbox) == {"A": "1"}


async def test_a_value_that_is_set_meanwhile_is_not_overwritten(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, A="old")

        async def change() -> None:
            await process.secret_stores.set_secret(ORG, store.id, "A", "new", ())

        node.tables.before = on("secrets.recrypt", change, times=1)
        rotated = await rotate(node.keyring, [MemorySecretRows(node.tables)])
        assert rotated.encrypted == 0
        assert values(process, await named(process, store)) == {"A": "new"}


async def test_what_no_key_opens_is_counted_kept_and_removed_when_that_is_asked_for(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, LOST="1")
        node.keyring.newest = 7
        node.keyring.versions = [7]
        await process.secret_stores.set_secret(ORG, store.id, "KEPT", "2", ())
        rows = MemorySecretRows(node.tables)
        assert await rotate(node.keyring, [rows]) == Rotated(8, encrypted=1, unreadable=1, dropped=[])
        assert len(node.tables.secrets) == 2
        assert await forget_unreadable(node.keyring, [rows]) == 1
        assert [each.name for each in await process.secret_stores.list_secrets(ORG, store.id)] == ["KEPT"]
