"""What every driver promises about saving a machine, and about those that go on from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import LAYER, MEMORY, Stillness
from opencomputer.server.contracts.machine import Machine
from tests.support.driver_harness import DriverHarness
from tests.support.guest_probe import answers, wait_until_it_answers
from tests.support.machine_shell import open_machine

pytestmark = pytest.mark.anyio


async def test_a_saving_has_the_parts_that_were_asked_for(harness: DriverHarness) -> None:
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    await machine.save(harness.folder / "full")
    await machine.save(harness.folder / "files", memory=False)
    assert {path.name for path in (harness.folder / "full").iterdir()} == {LAYER, MEMORY}
    assert {path.name for path in (harness.folder / "files").iterdir()} == {LAYER}
    assert await answers(machine.guest_address)


@pytest.mark.parametrize("memory", [True, False])
async def test_a_machine_has_the_files_of_the_one_that_was_saved(
    harness: DriverHarness, memory: bool
) -> None:
    """Of the instant of the saving; and neither sees what the other does later."""
    saved = harness.folder / "saved"
    async with open_machine(harness) as machine:
        await write(machine, "kept", b"then")
        await machine.save(saved, memory=memory)
        await write(machine, "kept", b"later")
        first_spec, second_spec = (harness.spec(saved=saved, memory=memory) for _ in range(2))
        async with open_machine(harness, first_spec) as first, open_machine(harness, second_spec) as second:
            assert await read(first, "kept") == b"then"
            await write(first, "kept", b"mine")
            assert await read(second, "kept") == b"then"
            assert await read(machine, "kept") == b"later"


async def test_a_machine_goes_on_from_one_that_went_on(harness: DriverHarness) -> None:
    """Generation upon generation, each with what it added."""
    saved = harness.folder / "first"
    async with open_machine(harness) as machine:
        await write(machine, "file", b"0")
        await machine.save(saved)
    layers = [saved / LAYER]
    for generation in range(1, 4):
        spec = replace(harness.spec(saved=saved), layers=(*harness.layers, *layers))
        async with open_machine(harness, spec) as machine:
            assert await read(machine, "file") == str(generation - 1).encode()
            await write(machine, "file", str(generation).encode())
            saved = harness.folder / f"generation-{generation}"
            await machine.save(saved)
            layers.append(saved / LAYER)


async def test_a_machine_that_is_not_to_go_on_does_not(harness: DriverHarness) -> None:
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    for memory in (True, False):
        await machine.save(harness.folder / f"saved-{memory}", memory=memory, go_on=False)
        assert not await answers(machine.guest_address, within_seconds=0.3)
        await machine.go_on()
        await machine.go_on()
        assert await answers(machine.guest_address)
    await machine.save(harness.folder / "last", go_on=False)
    await machine.stop()
    assert harness.leftovers() == []
    copy = await harness.driver.start(harness.spec(saved=harness.folder / "last"))
    await wait_until_it_answers(copy.guest_address)


@pytest.mark.parametrize("memory", [True, False])
async def test_a_machine_that_was_to_be_stopped_goes_on_when_it_is_adopted(
    harness: DriverHarness, memory: bool
) -> None:
    """The server was killed between the saving and the stop."""
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    await machine.save(harness.folder / "saved", memory=memory, go_on=False)
    await harness.restart()
    adopted = await harness.driver.adopt(machine.record)
    assert adopted is not None
    assert await answers(adopted.guest_address)


async def test_a_machine_that_could_not_be_saved_goes_on(harness: DriverHarness) -> None:
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    (harness.folder / "taken").mkdir()
    with pytest.raises(FileExistsError):
        await machine.save(harness.folder / "taken", go_on=False)
    assert await answers(machine.guest_address)


async def test_what_must_be_still_is_entered_and_left_while_it_runs(harness: DriverHarness) -> None:
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)
    answered: list[bool] = []

    @asynccontextmanager
    async def still() -> AsyncGenerator[Stillness]:
        answered.append(await answers(machine.guest_address))
        yield Stillness()
        answered.append(await answers(machine.guest_address))

    await machine.save(harness.folder / "saved", still=still)
    assert answered == [True, True]


async def test_a_saving_that_is_given_up_while_still_leaves_no_trace(harness: DriverHarness) -> None:
    machine = await harness.driver.start(harness.spec())
    await wait_until_it_answers(machine.guest_address)

    @asynccontextmanager
    async def still() -> AsyncGenerator[Stillness]:
        raise asyncio.CancelledError
        yield Stillness()

    with pytest.raises(asyncio.CancelledError):
        await machine.save(harness.folder / "saved", still=still)
    assert [path.name for path in harness.folder.iterdir() if "saved" in path.name] == []
    assert await answers(machine.guest_address)


async def write(machine: Machine, path: str, data: bytes) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield data

    await machine.files.write(path, chunks())


async def read(machine: Machine, path: str) -> bytes:
    async with machine.files.read(path) as content:
        return b"".join([chunk async for chunk in content.chunks])
