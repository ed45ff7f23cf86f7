"""Settings: typed, with defaults, and every fault named at once."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from opencomputer.server.settings import (
    ListenAddress,
    Overrides,
    PoolOptions,
    SettingsError,
    load_settings,
)


def faults_of(**environment: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load_settings({f"OPENCOMPUTER_{name}": value for name, value in environment.items()})
    return refused.value.faults


def test_nothing_has_to_be_set() -> None:
    settings = load_settings({})
    assert settings.listen == ListenAddress("127.0.0.1", 8080)
    assert settings.data == Path("/var/lib/opencomputer/data")
    assert settings.driver == "gvisor"
    assert settings.machine_network == IPv4Network("10.231.0.0/16")
    assert settings.sandboxes_per_org is None
    assert settings.pool == PoolOptions()
    assert settings.models.provider is None


def test_everything_can_be_set(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text("{}")
    settings = load_settings(
        {
            "OPENCOMPUTER_LISTEN": "0.0.0.0:80",
            "OPENCOMPUTER_DATA": "/d",
            "OPENCOMPUTER_TEMPLATES": "/t",
            "OPENCOMPUTER_LOCAL_NODE_FILE": "/l",
            "OPENCOMPUTER_DRIVER": "fake",
            "OPENCOMPUTER_RUNSC": "/opt/runsc",
            "OPENCOMPUTER_MACHINE_NETWORK": "10.9.0.0/16",
            "OPENCOMPUTER_PUBLIC_URL": "https://oc.example",
            "OPENCOMPUTER_SANDBOX_DOMAIN": "preview.example",
            "OPENCOMPUTER_REGION": "eu",
            "OPENCOMPUTER_BOOTSTRAP_API_KEY": "osb_" + "0" * 64,
            "OPENCOMPUTER_MAX_SANDBOXES_PER_ORG": "50",
            "OPENCOMPUTER_MAX_DISK_MB": "30000",
            "OPENCOMPUTER_POOL_MEMORY_SHARE": "0.25",
            "OPENCOMPUTER_POOL_MIN": "0",
            "OPENCOMPUTER_POOL_MAX": "7",
            "OPENCOMPUTER_MODEL_PROVIDER": "scripted",
            "OPENCOMPUTER_ANTHROPIC_API_KEY": "sk-secret",
            "OPENCOMPUTER_ANTHROPIC_BASE_URL": "http://models.example",
            "OPENCOMPUTER_MODEL_SCRIPT": str(script),
            "OPENCOMPUTER_LOG_LEVEL": "debug",
        }
    )
    assert settings.listen == ListenAddress("0.0.0.0", 80)
    assert (settings.data, settings.templates, settings.local_node_file) == (
        Path("/d"),
        Path("/t"),
        Path("/l"),
    )
    assert (settings.driver, settings.runsc) == ("fake", "/opt/runsc")
    assert (settings.sandboxes_per_org, settings.disk_cap_mb) == (50, 30000)
    assert settings.pool == PoolOptions(0.25, 0, 7)
    assert (settings.models.provider, settings.models.script) == ("scripted", script)
    assert settings.models.anthropic_api_key == "sk-secret"


def test_the_command_line_wins_over_the_environment() -> None:
    environment = {"OPENCOMPUTER_LISTEN": "127.0.0.1:1", "OPENCOMPUTER_DATA": "/e"}
    settings = load_settings(environment, Overrides("127.0.0.1:2", Path("/o"), Path("/t")))
    assert (settings.listen.port, settings.data, settings.templates) == (2, Path("/o"), Path("/t"))


def test_an_empty_variable_counts_as_absent() -> None:
    assert load_settings({"OPENCOMPUTER_LISTEN": "", "OPENCOMPUTER_POOL_MAX": ""}) == load_settings({})


def test_tool_calls_can_be_shown_to_those_who_follow_the_progress() -> None:
    assert load_settings({}).tool_event_level == "internal"
    assert load_settings({"OPENCOMPUTER_TOOL_EVENT_LEVEL": "progress"}).tool_event_level == "progress"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:0", "127.0.0.1", 0), ("[::1]:8080", "::1", 8080), ("localhost:65535", "localhost", 65535)],
)
def test_addresses_to_listen_at(text: str, host: str, port: int) -> None:
    assert load_settings({"OPENCOMPUTER_LISTEN": text}).listen == ListenAddress(host, port)


def test_name_servers_have_ports_if_need_be() -> None:
    text = "192.0.2.1, 192.0.2.2:5353,2001:db8::53,[2001:db8::53]:54"
    assert load_settings({"OPENCOMPUTER_NAME_SERVERS": text}).name_servers == (
        ("192.0.2.1", 53),
        ("192.0.2.2", 5353),
        ("2001:db8::53", 53),
        ("2001:db8::53", 54),
    )


def test_all_faults_are_reported_at_once() -> None:
    faults = faults_of(LISTEN="8080", DRIVER="docker", POOL_MIN="-1", LOG_LEVEL="loud", PUBLIC_URL="ftp://x")
    assert len(faults) == 5
    for name in ("LISTEN", "DRIVER", "POOL_MIN", "LOG_LEVEL", "PUBLIC_URL"):
        assert any(fault.startswith(f"OPENCOMPUTER_{name}=") for fault in faults), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LISTEN", "nonsense"),
        ("LISTEN", ":"),
        ("LISTEN", ":8080"),
        ("LISTEN", "127.0.0.1:"),
        ("LISTEN", "127.0.0.1:65536"),
        ("LISTEN", "127.0.0.1:-1"),
        ("LISTEN", "127.0.0.1:http"),
        ("LISTEN", "127.0.0.1:٣"),
        ("DRIVER", "kvm"),
        ("MACHINE_NETWORK", "10.231.0.0"),
        ("MACHINE_NETWORK", "10.231.0.1/16"),
        ("MACHINE_NETWORK", "10.231.0.0/33"),
        ("MACHINE_NETWORK", "fd00::/64"),
        ("NAME_SERVERS", "dns.example"),
        ("NAME_SERVERS", "192.0.2.1:0"),
        ("NAME_SERVERS", "192.0.2.1:http"),
        ("NAME_SERVERS", "192.0.2.1,,"),
        ("AUDIT_DAYS", "0"),
        ("PUBLIC_URL", "oc.example"),
        ("PUBLIC_URL", "http://"),
        ("MAX_SANDBOXES_PER_ORG", "0"),
        ("MAX_SANDBOXES_PER_ORG", "many"),
        ("MAX_SANDBOXES_PER_ORG", "1.5"),
        ("MAX_SANDBOXES_PER_ORG", "٣"),
        ("MAX_DISK_MB", "-1"),
        ("TRUST_HOST_CERTIFICATES", "maybe"),
        ("POOL_MEMORY_SHARE", "1.5"),
        ("POOL_MEMORY_SHARE", "nan"),
        ("POOL_MEMORY_SHARE", "inf"),
        ("POOL_MEMORY_SHARE", "-0.1"),
        ("POOL_MEMORY_SHARE", "half"),
        ("POOL_MIN", "two"),
        ("POOL_MAX", "1e3"),
        ("MODEL_PROVIDER", "openai"),
        ("MODEL_SCRIPT", "/nonexistent/script.json"),
        ("ANTHROPIC_BASE_URL", "models.example"),
        ("LOG_LEVEL", "INFO"),
        ("TOOL_EVENT_LEVEL", "user"),
        ("ALLOW_PRIVATE_WEBHOOKS", "yes"),
        ("BOOTSTRAP_API_KEY", "osb_short"),
    ],
)
def test_a_wrong_value_is_refused_by_name_with_what_is_allowed(name: str, value: str) -> None:
    (fault,) = faults_of(**{name: value})
    assert fault.startswith(f"OPENCOMPUTER_{name}=")
    assert len(fault) > len(f"OPENCOMPUTER_{name}={value!r}: ")


def test_secrets_are_in_no_description_of_the_settings() -> None:
    secret = "osb_" + "5ec2e7" + "0" * 58
    settings = load_settings(
        {"OPENCOMPUTER_BOOTSTRAP_API_KEY": secret, "OPENCOMPUTER_ANTHROPIC_API_KEY": "sk-5ec2e7"}
    )
    assert "5ec2e7" not in repr(settings)


def test_a_wrong_secret_is_not_repeated_in_its_fault() -> None:
    (fault,) = faults_of(BOOTSTRAP_API_KEY="osb_mistyped")
    assert "mistyped" not in fault


@pytest.mark.parametrize(("text", "expected"), [("0", False), ("1", True), ("", True)])
def test_templates_trust_the_hosts_authorities_unless_told_otherwise(text: str, expected: bool) -> None:
    settings = load_settings({"OPENCOMPUTER_TRUST_HOST_CERTIFICATES": text})
    assert settings.trust_host_certificates is expected
