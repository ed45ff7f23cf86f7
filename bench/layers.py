"""Saving a machine by the bytes it has written, on a file system that copies and on one that shares blocks.

Real nodes keep each machine's layer on an ext4 file of its own, which limits it. Here layers are folders of
the file system under test, so that it alone makes the difference.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.report import Result
from bench.samples import Distribution, Figure
from bench.saved import FORGET_GAP, HOLDER, TELL_GAP
from opencomputer.server.contracts.machine import Machine
from tests.support.driver_harness import SMALL, gvisor_harness
from tests.support.machine_shell import open_machine, output

WRITTEN_MEBIBYTES = (1, 64, 512, 2048)
_DISK_BYTES = 12 << 30
_FORMATS = {"ext4": ["mkfs.ext4", "-q"], "xfs with reflinks": ["mkfs.xfs", "-q", "-m", "reflink=1"]}


@dataclass(frozen=True)
class LayersOptions:
    rounds: int = 3


def measure(options: LayersOptions) -> Result:
    result = Result("layers", {"rounds": options.rounds})
    for name, command in _FORMATS.items():
        try:
            with _file_system(command) as folder:
                asyncio.run(_measure_on(result, name, folder, options.rounds))
        except (OSError, subprocess.CalledProcessError) as error:
            result.failures.append(f"{name}: {error!r}")
    return result


async def _measure_on(result: Result, name: str, folder: Path, rounds: int) -> None:
    async with gvisor_harness(folder) as harness:
        await harness.keep_layers_in_folders()
        for written in WRITTEN_MEBIBYTES:
            spec = harness.spec(limits=replace(SMALL, memory_bytes=1 << 30))
            async with open_machine(harness, spec) as machine:
                await output(machine, f"head -c {written}M /dev/urandom > /srv/written; sync")
                await output(machine, f"setsid python3 -c '{HOLDER}' 16 > /dev/null 2>&1 < /dev/null &")
                samples = [await _save(machine, folder / f"{written}-{turn}") for turn in range(rounds)]
            label = f"{name}, {written} MiB written"
            result.samples[label] = samples
            for key in samples[0]:
                found = Distribution.of([sample[key] for sample in samples])
                result.figures.append(Figure(f"{key}, {label} p50", found.p50, "ms"))


async def _save(machine: Machine, target: Path) -> dict[str, float]:
    await output(machine, FORGET_GAP)
    began = time.perf_counter()
    await machine.save(target)
    ended = time.perf_counter()
    gap = float(await output(machine, TELL_GAP))
    return {"pause": 1000 * gap, "save in all": 1000 * (ended - began)}


@contextmanager
def _file_system(command: list[str]) -> Generator[Path]:
    """A file system of its own in a file, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="opencomputer-bench-") as place:
        image, folder = Path(place) / "image", Path(place) / "mounted"
        with open(image, "wb") as file:
            file.truncate(_DISK_BYTES)
        folder.mkdir()
        subprocess.run([*command, str(image)], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True, capture_output=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True, capture_output=True)
