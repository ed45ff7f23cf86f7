"""Rules of sandboxes: told before a machine learns whose it is, kept in step, taken back in time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.domain.egress import EgressMode, EgressRules, proxy_environment
from opencomputer.server.domain.errors import InvalidInput, SecretUnreadable
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import SnapshotKind
from opencomputer.server.services.sandboxes.egress import Refreshed
from opencomputer.server.services.sandboxes.forks import Forked, ForkRequest
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, on, pool_of, settle
from tests.unit.server.services.steps import check_rest
from tests.unit.server.services.vault import environment, named, store_with, values

pytestmark = pytest.mark.anyio

OPEN, WATCHED = EgressMode.OPEN, EgressMode.WATCHED
RESTRICTED, CLOSED = EgressMode.RESTRICTED, EgressMode.CLOSED


def tokens(process: Process, sandbox: Sandbox) -> dict[str, str]:
    return {secret.token: secret.value for secret in process.gate.of(sandbox.id).secrets}


async def fork(process: Process, sandbox: Sandbox, **changes: object) -> Forked:
    (made,) = await process.forks.fork(ORG, sandbox.id, 1, replace(ForkRequest(), **changes))  # pyright: ignore[reportArgumentType] - names are fields
    return made


async def test_variables_have_tokens_and_what_programs_need_for_the_proxy(node: Node) -> None:
    async with node.process() as process:
        process.egress.trust_authority("a certificate")
        store = await store_with(process, KEY="x", SHADOWED="y", HTTP_PROXY="z")
        sandbox = await named(process, store, environment={"SHADOWED": "plain", "PIP_CERT": "mine"})
        rules, variables = process.gate.of(sandbox.id), environment(node, sandbox)
        by_name = {secret.name: secret.token for secret in rules.secrets}
        assert set(by_name) == {"KEY", "HTTP_PROXY"}
        assert variables["KEY"] == by_name["KEY"]
        assert variables["HTTP_PROXY"] == by_name["HTTP_PROXY"]
        assert (variables["SHADOWED"], variables["PIP_CERT"]) == ("plain", "mine")
        for name in set(proxy_environment()) - {"HTTP_PROXY", "PIP_CERT"}:
            assert variables[name] == proxy_environment()[name]
        identity = node.machine_of(sandbox).identity
        assert identity is not None
        assert identity.trust == "a certificate"
        assert process.egress.sealed_names(node.machine_of(sandbox)) == {"KEY", "HTTP_PROXY"}


async def test_a_sandbox_with_plain_variables_only_goes_straight_out(node: Node) -> None:
    async with node.process() as process:
        process.egress.trust_authority("a certificate")
        steps: list[str] = []
        node.tables.before = lambda step: _note(steps, step)
        sandbox = await process.create()
        assert process.gate.of(sandbox.id) == EgressRules(ORG, sandbox.id)
        assert environment(node, sandbox) == {"GREETING": "hello"}
        identity = node.machine_of(sandbox).identity
        assert identity is not None
        assert identity.trust == ""
        assert not [step for step in steps if step.startswith(("secret", "holdings"))]


async def _note(steps: list[str], step: str) -> None:
    steps.append(step)


@pytest.mark.parametrize(
    ("hosts", "secrets", "enabled", "allowlist", "mode"),
    [
        ([], {}, True, (), OPEN),
        ([], {"KEY": "x"}, True, (), WATCHED),
        (["a.org"], {}, True, (), RESTRICTED),
        ([], {"KEY": "x"}, True, ("b.org",), RESTRICTED),
        (["a.org"], {"KEY": "x"}, False, ("b.org",), CLOSED),
    ],
)
async def test_the_mode_follows_from_stores_and_lists(
    node: Node,
    hosts: list[str],
    secrets: dict[str, str],
    enabled: bool,
    allowlist: tuple[str, ...],
    mode: str,
) -> None:
    async with node.process() as process:
        store = await store_with(process, **secrets)
        await process.secret_stores.update(ORG, store.id, name=None, egress_allowlist=hosts)
        sandbox = await named(process, store, network_enabled=enabled, egress_allowlist=allowlist)
        rules = process.gate.of(sandbox.id)
        assert (rules.mode, node.machine_of(sandbox).egress) == (mode, mode)
        assert rules.allowlist == (*hosts, *allowlist)
        with_proxy = "HTTPS_PROXY" in environment(node, sandbox)
        assert with_proxy is (mode in (WATCHED, RESTRICTED))


@pytest.mark.parametrize("pool", [0, 1])
async def test_rules_are_in_force_before_a_machine_learns_whose_it_is(node: Node, pool: int) -> None:
    """Also for one of the pool, which is open until it is claimed."""
    node.policy = pool_of(pool)
    async with node.process() as process:
        for template in node.templates.list():
            process.pool.stock(template)
        await settle(30)
        store = await store_with(process, KEY="x")
        seen: list[tuple[str, EgressMode]] = []

        async def look(step: str, machine_id: MachineId) -> None:
            machine = node.host.machines.get(machine_id)
            if step == "identify" and machine is not None and machine.address in process.gate.rules:
                seen.append((process.gate.rules[machine.address].mode, machine.egress))

        node.host.before = look
        sandbox = await named(process, store)
        checkpoint = await process.checkpoint(sandbox)
        await process.power.reboot(ORG, sandbox.id)
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())
        assert seen == [(WATCHED, WATCHED)] * 5


async def test_machines_with_rules_start_with_nothing_let_out(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        sandbox = await named(process, store)
        await fork(process, sandbox)
        plain = await process.create()
        await fork(process, plain)
        assert [spec.egress for spec in node.host.started] == [OPEN, CLOSED, OPEN, OPEN]


async def test_tokens_stay_through_reboot_restore_and_sleep(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        sandbox = await named(process, store)
        before, variables = tokens(process, sandbox), environment(node, sandbox)
        checkpoint = await process.checkpoint(sandbox)
        await process.power.reboot(ORG, sandbox.id)
        await settle()
        assert tokens(process, sandbox) == before
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await settle()
        assert tokens(process, sandbox) == before
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        await settle()
        assert tokens(process, sandbox) == before
        assert environment(node, sandbox) == variables


async def test_a_machine_is_dismissed_before_its_address_is_free(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        machine = node.machine_of(sandbox)

        async def look() -> None:
            assert process.gate.rules == {}

        node.host.before = on("stop", look)
        await process.lifecycle.kill(ORG, sandbox.id)
        await settle()
        assert process.gate.told == [("admit", machine.address), ("dismiss", machine.address)]
        check_rest(node, process)


async def test_a_create_that_fails_leaves_no_rules(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        node.host.before = on("identify", OSError("out of order"))
        with pytest.raises(OSError):
            await named(process, store)
        await settle()
        assert process.gate.rules == {}
        check_rest(node, process)


async def test_a_change_while_a_machine_is_made_is_not_missed(node: Node) -> None:
    """Wherever it comes in between, the machine has the new value in the end."""
    for step in ("started", "set_egress", "identify"):
        async with node.process() as process:
            store = await store_with(process, f"for {step}", KEY="old")

            change = process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ())
            changing: list[asyncio.Task[Refreshed]] = []

            async def begin(change: Coroutine[Any, Any, Refreshed] = change) -> None:
                changing.append(asyncio.create_task(change))  # noqa: B023 - it has come before the next one
                await asyncio.sleep(0.1)

            node.host.before = on(step, begin, times=1)
            sandbox = await named(process, store)
            await changing[0]
            assert values(process, sandbox) == {"KEY": "new"}, step
            await process.lifecycle.kill(ORG, sandbox.id)
            await settle()


# At the start of a node


async def test_sandboxes_that_are_adopted_get_their_rules_back(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="old")
        sandbox = await named(process, store)
        before = set(tokens(process, sandbox))
    async with node.process(recover=True) as process:
        await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ())
        assert (set(tokens(process, sandbox)), values(process, sandbox)) == (before, {"KEY": "new"})
        assert node.machine_of(sandbox).egress is WATCHED
        assert process.egress.sealed_names(node.machine_of(sandbox)) == {"KEY"}


async def test_what_cannot_be_decrypted_is_left_out_and_nothing_is_lost(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x", BROKEN="y")
        await process.secret_stores.update(ORG, store.id, name=None, egress_allowlist=["a.org"])
        sandbox = await named(process, store)
        broken = next(each for each in node.tables.secrets.values() if each.name == "BROKEN")
        damaged = replace(broken, ciphertext=replace(broken.ciphertext, data=b"damaged"))
        node.tables.secrets[broken.id] = damaged
    async with node.process(recover=True) as process:
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        assert values(process, sandbox) == {"KEY": "x"}
        assert process.gate.of(sandbox.id).allowlist == ("a.org",)
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        outcome = await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ())
        assert (outcome.count, outcome.errors) == (0, 1)
        assert values(process, sandbox) == {"KEY": "new"}
        with pytest.raises(SecretUnreadable, match="BROKEN"):
            await named(process, store)
        await settle()
        check_rest(node, process)


# Forks


async def test_a_fork_has_tokens_of_its_own_and_answers_to_those_it_was_copied_with(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        source = await named(process, store)
        one, two = [(await fork(process, source)).sandbox for _ in range(2)]
        (old,) = tokens(process, source)
        for each in (one, two):
            own = environment(node, each)["KEY"]
            assert own != old
            assert tokens(process, each) == {own: "x", old: "x"}
        assert environment(node, one)["KEY"] not in tokens(process, two)
        assert tokens(process, source) == {old: "x"}


@pytest.mark.parametrize("kind", list(SnapshotKind))
async def test_a_fork_of_a_checkpoint_answers_to_the_tokens_in_it(node: Node, kind: SnapshotKind) -> None:
    """Also of files alone: programs may have written them down. And when the source is gone."""
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        source = await named(process, store)
        (old,) = tokens(process, source)
        checkpoint = await process.checkpoint(source, kind)
        await process.lifecycle.kill(ORG, source.id)
        await settle(700)
        await process.secret_upkeep.sweep()
        made = await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())
        assert old in tokens(process, made.sandbox)


async def test_forks_layer_stores_by_name_over_four_generations(node: Node) -> None:
    async with node.process() as process:
        sandbox: Sandbox | None = None
        for generation in range(4):
            store = await store_with(
                process, f"s{generation}", **{f"OWN_{generation}": "x", "SHARED": str(generation)}
            )
            hosts = [f"g{generation}.org"] if generation % 2 else []
            await process.secret_stores.update(ORG, store.id, name=None, egress_allowlist=hosts)
            if sandbox is None:
                sandbox = await named(process, store)
            else:
                sandbox = (await fork(process, sandbox, secret_store=store.name)).sandbox
        assert sandbox is not None
        assert sandbox.secret_stores == ("s0", "s1", "s2", "s3")
        found = values(process, sandbox)
        assert found == {"OWN_0": "x", "OWN_1": "x", "OWN_2": "x", "OWN_3": "x", "SHARED": "3"}
        assert process.gate.of(sandbox.id).allowlist == ("g1.org", "g3.org")
        # Three generations of copies, and its own.
        shared = [each for each in process.gate.of(sandbox.id).secrets if each.name == "SHARED"]
        assert len(shared) == 4


async def test_the_winner_of_a_name_brings_its_own_hosts(node: Node) -> None:
    async with node.process() as process:
        weak, strong = await store_with(process, "weak"), await store_with(process, "strong")
        await process.secret_stores.set_secret(ORG, weak.id, "KEY", "weak", ["old.org"])
        await process.secret_stores.set_secret(ORG, strong.id, "KEY", "strong", ["new.org"])
        source = await named(process, weak)
        made = await fork(process, source, secret_store="strong")
        assert {(each.value, each.hosts) for each in process.gate.of(made.sandbox.id).secrets} == {
            ("strong", ("new.org",))
        }


async def test_a_fork_gets_values_of_now(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="old")
        source = await named(process, store)
        checkpoint = await process.checkpoint(source)
        await process.secret_stores.set_secret(ORG, store.id, "KEY", "new", ())
        await process.secret_stores.set_secret(ORG, store.id, "ADDED", "too", ())
        made = await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())
        assert values(process, made.sandbox) == {"KEY": "new", "ADDED": "too"}


async def test_a_store_that_is_gone_is_skipped_when_inherited_and_refused_when_named(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="x")
        source = await named(process, store)
        await process.secret_stores.delete(ORG, store.id)
        made = await fork(process, source)
        assert made.warnings == ("secret store 'keys', which this would inherit, does not exist any more",)
        assert process.gate.of(made.sandbox.id).secrets == ()
        assert values(process, source) == {"KEY": "x"}
        with pytest.raises(InvalidInput) as caught:
            await fork(process, source, secret_store="none")
        assert caught.value.details == {"field": "secretStore"}
        await settle()
        check_rest(node, process)
        # Its name is kept: who makes a store of this name again gets it back in later copies, old tokens too.
        await store_with(process, KEY="again")
        again = await fork(process, made.sandbox)
        assert set(tokens(process, again.sandbox).values()) == {"again"}
        assert set(tokens(process, source)) <= set(tokens(process, again.sandbox))


async def test_variables_of_user_and_fork_win_and_are_warned_of(node: Node) -> None:
    async with node.process() as process:
        store = await store_with(process, A="secret", B="secret", C="secret")
        source = await named(process, store, environment={"A": "at create"})
        assert environment(node, source)["A"] == "at create"
        made = await fork(process, source, environment={"B": "at fork"})
        variables = environment(node, made.sandbox)
        assert (variables["A"], variables["B"]) == ("at create", "at fork")
        assert variables["C"].startswith("osb_sealed_")
        assert [each.split("'")[1] for each in made.warnings] == ["A", "B"]


async def test_a_copy_keeps_the_hosts_it_was_created_with_and_its_closed_network(node: Node) -> None:
    async with node.process() as process:
        listed = await process.create(egress_allowlist=("a.org",))
        closed = await process.create(network_enabled=False)
        for source, mode in ((listed, RESTRICTED), (closed, CLOSED)):
            checkpoint = await process.checkpoint(source)
            made = await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())
            rules = process.gate.of(made.sandbox.id)
            assert (rules.mode, rules.allowlist) == (mode, source.egress_allowlist)


async def test_a_public_checkpoint_brings_neither_its_owners_secrets_nor_uses_those_of_its_users(
    node: Node,
) -> None:
    async with node.process() as process:
        store = await store_with(process, KEY="the owner's")
        theirs = await process.secret_stores.create(OTHER_ORG, store.name, [])
        await process.secret_stores.set_secret(OTHER_ORG, theirs.id, "KEY", "the user's", ())
        checkpoint = await process.checkpoint(await named(process, store))
        await process.checkpoints.publish(ORG, checkpoint.id, public=True)
        made = await process.forks.from_checkpoint(OTHER_ORG, checkpoint.id, ForkRequest())
        assert made.sandbox.secret_stores == ()
        assert process.gate.of(made.sandbox.id) == EgressRules(OTHER_ORG, made.sandbox.id)
        request = ForkRequest(secret_store=theirs.name)
        made = await process.forks.from_checkpoint(OTHER_ORG, checkpoint.id, request)
        assert values(process, made.sandbox) == {"KEY": "the user's"}
        assert len(process.gate.of(made.sandbox.id).secrets) == 1


# What is shown


async def test_allowed_hosts_tell_stores_lists_and_the_hosts_of_each_secret(node: Node) -> None:
    async with node.process() as process:
        base, own = await store_with(process, "base", FREE="x"), await store_with(process, "own")
        await process.secret_stores.set_secret(ORG, own.id, "BOUND", "y", ["a.org", "*.b.org"])
        await process.secret_stores.update(ORG, own.id, name=None, egress_allowlist=["a.org", "*.b.org"])
        source = await named(process, base, egress_allowlist=("c.org",))
        made = await fork(process, source, secret_store="own")
        shown = await process.egress.allowed_hosts(made.sandbox)
        assert shown.stores == ("base", "own")
        assert shown.allowlist == ("a.org", "*.b.org", "c.org")
        assert shown.by_secret == {"BOUND": ("a.org", "*.b.org")}
        nothing = await process.egress.allowed_hosts(await process.create())
        assert (nothing.stores, nothing.allowlist, nothing.by_secret) == ((), (), {})
