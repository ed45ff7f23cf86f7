"""One way for tests to hold any driver: start machines with it, lose it, see what it left."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import opencomputer.inside
from opencomputer.server.contracts.driver import LAYER, MEMORY, Driver, Limits, MachineId, MachineSpec
from opencomputer.server.drivers.fake.driver import FakeConfig, FakeDriver
from opencomputer.server.drivers.fake.faults import FakeFaults
from opencomputer.server.drivers.gvisor.config import GvisorConfig
from opencomputer.server.drivers.gvisor.driver import GvisorDriver
from opencomputer.server.host.runsc_build import RunscMissing, find_runsc
from opencomputer.server.network.links import MachineLinks, NetworkConfig
from opencomputer.server.templates.runtime import ensure_runtime
from tests.support.host_state import host_state, left_after_a_moment, processes_with

TEMPLATES_DIR = Path("/var/lib/opencomputer/templates")
SMALL = Limits(memory_bytes=512 << 20, cpu_percent=200, disk_bytes=1 << 30)
TOKEN = "a-token-of-the-test"

FailAt = Callable[[str], None]


def new_machine_id() -> MachineId:
    return MachineId(f"m{secrets.token_hex(8)[1:]}")


class DriverHarness:
    """A driver with what belongs around it. `driver` may be replaced by `restart`."""

    driver: Driver
    layers: tuple[Path, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.before_step: FailAt = lambda _: None

    def spec(self, *, saved: Path | None = None, memory: bool = True, limits: Limits = SMALL) -> MachineSpec:
        """A new machine of this driver. It goes on from what another was `saved` as."""
        plain = MachineSpec(new_machine_id(), self.layers, limits, TOKEN)
        if saved is None:
            return plain
        return replace(
            plain, layers=(*self.layers, saved / LAYER), memory_image=saved / MEMORY if memory else None
        )

    async def restart(self) -> None:
        """Forget the driver without telling it, and take a new one, as a killed server does."""
        raise NotImplementedError

    async def remove_all(self) -> None:
        for machine_id in await self.driver.survey():
            await self.driver.discard(machine_id)

    def leftovers(self) -> list[str]:
        raise NotImplementedError

    def make_half_a_machine(self) -> MachineId:
        """Leave what a server leaves that is killed in the middle of a start."""
        raise NotImplementedError


class FakeHarness(DriverHarness):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.faults = FakeFaults()

    async def restart(self) -> None:
        inside = Path(opencomputer.inside.__path__[0])
        driver = FakeDriver(FakeConfig(self.data_dir, inside), self.faults)
        await driver.open()
        self.driver = driver

    def leftovers(self) -> list[str]:
        found = [f"folder {path.name}" for path in (self.data_dir / "machines").glob("*")]
        return found + [f"process {pid}" for pid in processes_with(str(self.data_dir))]

    def make_half_a_machine(self) -> MachineId:
        machine_id = new_machine_id()
        (self.data_dir / "machines" / machine_id).mkdir()
        return machine_id


class GvisorHarness(DriverHarness):
    def __init__(self, folder: Path, *, runsc: Path, runtime: Path, layers: tuple[Path, ...]) -> None:
        super().__init__(folder)
        self.layers = layers
        self.node_tag = secrets.token_hex(3)
        self.runsc = runsc
        self.runtime = runtime
        self._config = GvisorConfig(self.data_dir, self.node_tag, runsc, runtime)
        self._network: MachineLinks | None = None

    @property
    def network(self) -> MachineLinks:
        assert self._network is not None
        return self._network

    async def restart(self) -> None:
        if self._network is not None:
            await self._network.close()  # the ports of a killed process are free at once, ours are not
        self._network = MachineLinks(NetworkConfig(self.node_tag))
        driver = GvisorDriver(self._config, self._network, before_step=lambda step: self.before_step(step))
        await driver.open()
        self.driver = driver

    async def use_instead_of_runsc(self, program: Path, *, start_deadline_seconds: float = 30) -> None:
        """Start machines with another program that is asked for nothing else.

        What it is and can do is still what the real one says.
        """
        stand_in = self.folder / "stand-in"
        stand_in.write_text(
            f'#!/bin/sh\ncase "$1" in --version|flags) exec {self.runsc} "$@";; esac\nexec {program} "$@"\n'
        )
        stand_in.chmod(0o755)
        self._config = replace(self._config, runsc=stand_in, start_deadline_seconds=start_deadline_seconds)
        await self.restart()

    async def keep_layers_in_folders(self) -> None:
        self._config = replace(self._config, limit_disks=False)
        await self.restart()

    async def dismantle(self) -> None:
        self.before_step = lambda _: None
        await self.remove_all()
        assert isinstance(self.driver, GvisorDriver)
        await self.driver.close()
        await self.network.dismantle()

    def leftovers(self) -> list[str]:
        return host_state(self.node_tag, self.data_dir)

    def make_half_a_machine(self) -> MachineId:
        machine_id = new_machine_id()
        self.network.reserve(machine_id)
        return machine_id


def why_no_gvisor() -> str | None:
    """What is missing for real machines on this host, in words; None when nothing is."""
    if os.geteuid() != 0:
        return "real machines need root"
    try:
        if find_runsc(os.environ.get("OPENCOMPUTER_TEST_RUNSC")).too_old:
            return "runsc is too old: make setup"
    except RunscMissing as error:
        return f"{error} make setup"
    if not (TEMPLATES_DIR / "base/current/rootfs").is_dir():
        return "the base template is not built: make setup"
    return None


@asynccontextmanager
async def fake_harness(folder: Path) -> AsyncGenerator[FakeHarness]:
    harness = FakeHarness(folder)
    await harness.restart()
    try:
        yield harness
    finally:
        harness.faults.fail_on.clear()
        harness.faults.hang_on.clear()
        await harness.remove_all()


@asynccontextmanager
async def gvisor_harness(folder: Path) -> AsyncGenerator[GvisorHarness]:
    """A node of its own on this host; whatever it made is gone afterwards, or the test fails."""
    runsc = find_runsc(os.environ.get("OPENCOMPUTER_TEST_RUNSC")).path
    runtime = await asyncio.to_thread(ensure_runtime, TEMPLATES_DIR)
    rootfs = (TEMPLATES_DIR / "base/current/rootfs").resolve()
    harness = GvisorHarness(folder, runsc=runsc, runtime=runtime, layers=(rootfs,))
    try:
        await harness.restart()
        yield harness
    finally:
        await harness.dismantle()
        left = await left_after_a_moment(harness.node_tag, harness.data_dir)
        assert not left, left
