"""What runsc is told about a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.drivers.gvisor.bundle import Birth, BundleSpec, bundle_config, memory_report

SPEC = BundleSpec(
    root=Path("/data/machines/m1/root"),
    runtime=Path("/data/machines/m1/runtime"),
    interpreter=["/.oc/ld.so", "/.oc/python3", "-I", "-S"],
    token="secret-token",
    setuid=False,
    birth=Birth(memory_bytes=1 << 30),
)


def config(spec: BundleSpec = SPEC) -> dict[str, Any]:
    return json.loads(bundle_config(spec))


def test_the_first_process_is_the_guest_on_its_own_interpreter() -> None:
    arguments = config()["process"]["args"]
    assert arguments[:4] == ["/.oc/ld.so", "/.oc/python3", "-I", "-S"]
    assert arguments[4] == "-c"
    assert "guest.main" in arguments[5]


def test_the_guest_is_told_its_token_and_whether_setuid_works() -> None:
    assert "OC_TOKEN=secret-token" in config()["process"]["env"]
    assert "OC_SETUID=0" in config()["process"]["env"]
    assert "OC_SETUID=1" in config(replace(SPEC, setuid=True))["process"]["env"]


def test_the_runtime_is_mounted_read_only() -> None:
    (mount,) = [mount for mount in config()["mounts"] if mount["destination"] == "/.oc"]
    assert mount["source"] == "/data/machines/m1/runtime"
    assert "ro" in mount["options"]


def test_memory_mounts_are_bounded_by_the_memory_of_the_birth() -> None:
    """A file in /tmp is memory: without a bound it would end the machine."""
    sizes = {
        mount["destination"]: int(option.removeprefix("size="))
        for mount in config()["mounts"]
        if mount["type"] == "tmpfs"
        for option in mount["options"]
        if option.startswith("size=")
    }
    assert sizes == {
        "/dev/shm": 512 << 20,
        "/tmp": 512 << 20,
        "/var/tmp": 256 << 20,
        "/run": 128 << 20,
    }


def test_there_is_no_other_bind_mount() -> None:
    """Whatever of the host is visible inside is in this list."""
    assert [mount["destination"] for mount in config()["mounts"] if mount["type"] == "bind"] == ["/.oc"]


def test_powers_over_the_hosts_kernel_are_not_given() -> None:
    capabilities = set(config()["process"]["capabilities"]["bounding"])
    assert not capabilities & {"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_BOOT", "CAP_BPF", "CAP_SYSLOG"}
    assert {"CAP_SETUID", "CAP_CHOWN", "CAP_NET_BIND_SERVICE", "CAP_SYS_PTRACE"} <= capabilities


def test_the_machine_joins_the_namespace_in_which_runsc_is_started() -> None:
    (network,) = [each for each in config()["linux"]["namespaces"] if each["type"] == "network"]
    assert network["path"] == "/proc/self/ns/net"


def test_the_memory_report_is_in_the_kernels_units() -> None:
    assert memory_report(1 << 30).splitlines()[0] == "MemTotal: 1048576 kB"


def test_a_birth_is_read_as_it_was_written() -> None:
    assert Birth.from_json(Birth(4096).to_json()) == Birth(4096)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"memory_bytes": null}', '"x"'])
def test_something_else_is_no_birth(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Birth.from_json(text)
