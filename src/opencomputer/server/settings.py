"""Every setting of a node, read from the environment here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from opencomputer.server.domain.limits import DEFAULT_MEMORY_MB
from opencomputer.server.domain.naming import is_api_key
from opencomputer.server.domain.sessions.events import Level

DEFAULT_ROOT = Path("/var/lib/opencomputer")
DEFAULT_LISTEN = "127.0.0.1:8080"
DEFAULT_MACHINE_NETWORK = IPv4Network("10.231.0.0/16")

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")

T = TypeVar("T")


class SettingsError(Exception):
    """Lists everything that is wrong with the settings, not just the first fault."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


@dataclass(frozen=True)
class ListenAddress:
    host: str
    port: int


@dataclass(frozen=True)
class PoolOptions:
    """Ready machines take at most `memory_share` of the host's memory; `maximum` 0 switches the pool off.

    `minimum` is kept ready without any demand; None means half of what the share affords.
    """

    memory_share: float = 0.10
    minimum: int | None = None
    maximum: int = 200


@dataclass(frozen=True)
class ModelOptions:
    """Who answers agents that have no key of their own. `provider` None: anthropic if there is a key."""

    provider: Literal["anthropic", "scripted"] | None = None
    anthropic_api_key: str | None = field(default=None, repr=False)
    anthropic_base_url: str | None = None
    script: Path | None = None
    openai_base_url: str | None = None


@dataclass(frozen=True)
class AuditOptions:
    """How long decisions about connections are kept, and how many of all sandboxes together."""

    days: int = 30
    events: int = 1_000_000


@dataclass(frozen=True)
class LogOptions:
    """How long logs of sandboxes are kept, and how large all together may be. 0 MB: none are kept."""

    days: int = 30
    megabytes: int = 2048


@dataclass(frozen=True)
class Settings:
    """See docs/guides/settings.md for what each is for."""

    listen: ListenAddress
    data: Path = DEFAULT_ROOT / "data"
    templates: Path = DEFAULT_ROOT / "templates"
    local_node_file: Path = DEFAULT_ROOT / "local-node.json"
    driver: Literal["gvisor", "fake"] = "gvisor"
    runsc: str | None = None
    machine_network: IPv4Network = DEFAULT_MACHINE_NETWORK
    public_url: str | None = None
    sandbox_domain: str = "localhost"
    preview_domains: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    trusted_proxies: tuple[str, ...] = ()
    region: str = "local"
    bootstrap_api_key: str | None = field(default=None, repr=False)
    sandboxes_per_org: int | None = None
    disk_cap_mb: int = 262144
    memory_cap_mb: int | None = None
    pool: PoolOptions = PoolOptions()
    models: ModelOptions = ModelOptions()
    audit: AuditOptions = AuditOptions()
    logs: LogOptions = LogOptions()
    usage_days: int = 90
    """How long it is known what a sandbox used."""
    tool_event_level: Level = Level.INTERNAL
    allow_private_webhooks: bool = False
    runtimes: Path | None = None
    name_servers: tuple[tuple[str, int], ...] = ()
    trust_host_certificates: bool = True
    log_level: str = "info"
    notify_socket: str | None = None
    """Where a service manager listens; it names the variable, so that has no prefix."""


@dataclass(frozen=True)
class Overrides:
    """What the command line says; it wins over the environment."""

    listen: str | None = None
    data: Path | None = None
    templates: Path | None = None


def load_settings(environment: Mapping[str, str], overrides: Overrides = Overrides()) -> Settings:
    """Raises SettingsError naming every variable that is wrong and what is allowed."""
    reader = _Reader(environment)
    settings = Settings(
        listen=reader.get("LISTEN", _listen, _listen(DEFAULT_LISTEN), override=overrides.listen),
        data=overrides.data or reader.get("DATA", Path, DEFAULT_ROOT / "data"),
        templates=overrides.templates or reader.get("TEMPLATES", Path, DEFAULT_ROOT / "templates"),
        local_node_file=reader.get("LOCAL_NODE_FILE", Path, DEFAULT_ROOT / "local-node.json"),
        driver=reader.get("DRIVER", _driver, "gvisor"),
        runsc=reader.get("RUNSC", str, None),
        machine_network=reader.get("MACHINE_NETWORK", _network, DEFAULT_MACHINE_NETWORK),
        public_url=reader.get("PUBLIC_URL", _url, None),
        sandbox_domain=reader.get("SANDBOX_DOMAIN", _domain, "localhost"),
        preview_domains=reader.get("PREVIEW_DOMAINS", _preview_domains, {}),
        trusted_proxies=reader.get("TRUSTED_PROXIES", _addresses, ()),
        region=reader.get("REGION", str, "local"),
        bootstrap_api_key=reader.get("BOOTSTRAP_API_KEY", _api_key, None, secret=True),
        sandboxes_per_org=reader.get("MAX_SANDBOXES_PER_ORG", _positive, None),
        disk_cap_mb=reader.get("MAX_DISK_MB", _positive, 262144),
        memory_cap_mb=reader.get("MAX_MEMORY_MB", _memory_cap, None),
        pool=_pool(reader),
        models=_models(reader),
        audit=_audit(reader),
        logs=LogOptions(
            days=reader.get("LOG_DAYS", _positive, 30),
            megabytes=reader.get("LOG_MB", _count, 2048),
        ),
        usage_days=reader.get("USAGE_DAYS", _positive, 90),
        allow_private_webhooks=reader.get("ALLOW_PRIVATE_WEBHOOKS", _switch, False),
        runtimes=reader.get("RUNTIMES", _existing_file, None),
        tool_event_level=reader.get("TOOL_EVENT_LEVEL", _tool_event_level, Level.INTERNAL),
        name_servers=reader.get("NAME_SERVERS", _name_servers, ()),
        trust_host_certificates=reader.get("TRUST_HOST_CERTIFICATES", _switch, True),
        log_level=reader.get("LOG_LEVEL", _level, "info"),
        notify_socket=environment.get("NOTIFY_SOCKET") or None,
    )
    if reader.faults:
        raise SettingsError(reader.faults)
    return settings


def _audit(reader: _Reader) -> AuditOptions:
    return AuditOptions(
        days=reader.get("AUDIT_DAYS", _positive, 30),
        events=reader.get("AUDIT_EVENTS", _positive, 1_000_000),
    )


def _pool(reader: _Reader) -> PoolOptions:
    return PoolOptions(
        memory_share=reader.get("POOL_MEMORY_SHARE", _share, 0.10),
        minimum=reader.get("POOL_MIN", _count, None),
        maximum=reader.get("POOL_MAX", _count, 200),
    )


def _models(reader: _Reader) -> ModelOptions:
    return ModelOptions(
        provider=reader.get("MODEL_PROVIDER", _provider, None),
        anthropic_api_key=reader.get("ANTHROPIC_API_KEY", str, None),
        anthropic_base_url=reader.get("ANTHROPIC_BASE_URL", _url, None),
        script=reader.get("MODEL_SCRIPT", _existing_file, None),
        openai_base_url=reader.get("OPENAI_BASE_URL", _url, None),
    )


class _Reader:
    """Collects faults instead of stopping at the first. An empty variable counts as absent."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def get(
        self,
        name: str,
        parse: Callable[[str], T],
        default: T,
        *,
        override: str | None = None,
        secret: bool = False,
    ) -> T:
        text = override if override is not None else self._environment.get(f"OPENCOMPUTER_{name}", "")
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            shown = "…" if secret else repr(text)
            self.faults.append(f"OPENCOMPUTER_{name}={shown}: {error}")
            return default


def _listen(text: str) -> ListenAddress:
    host, separator, port = text.rpartition(":")
    host = host.strip("[]")
    if not separator or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("must be HOST:PORT, for instance 127.0.0.1:8080")
    return ListenAddress(host, int(port))


def _network(text: str) -> IPv4Network:
    network = IPv4Network(text)
    # Each machine takes a /30, and names of interfaces have room for four digits.
    if not 14 <= network.prefixlen <= 28:
        raise ValueError("must be an IPv4 network from /14 to /28, for instance 10.231.0.0/16")
    return network


def _domain(text: str) -> str:
    domain = text.lower().strip(".")
    if not _DOMAIN.fullmatch(domain):
        raise ValueError("must be a domain, for instance sandboxes.example.com")
    return domain


def _preview_domains(text: str) -> Mapping[str, str | None]:
    """`DOMAIN` for all organisations, or `DOMAIN=ORGANISATION`; separated by commas."""
    domains: dict[str, str | None] = {}
    for part in text.split(","):
        domain, _, owner = part.strip().partition("=")
        domains[_domain(domain)] = owner.strip() or None
    return domains


def _addresses(text: str) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(part.strip())) for part in text.split(","))
    except ValueError:
        raise ValueError("must be addresses or networks, for instance 127.0.0.1,10.0.0.0/8") from None


def _name_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Addresses, each with a port if it is not 53; `[…]` around IPv6 with a port."""
    return tuple(_name_server(word.strip()) for word in text.split(","))


def _name_server(text: str) -> tuple[str, int]:
    bare = text if _is_address(text) else text.rpartition(":")[0].removeprefix("[").removesuffix("]")
    port = 53 if bare == text else int(text.rpartition(":")[2])
    if not _is_address(bare) or not 0 < port < 65536:
        raise ValueError("must be addresses of name servers, for instance 192.0.2.53,[2001:db8::53]:5353")
    return bare, port


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _api_key(text: str) -> str:
    if not is_api_key(text):
        raise ValueError("must be osb_ followed by 64 lower-case hex digits")
    return text


def _driver(text: str) -> Literal["gvisor", "fake"]:
    if text == "gvisor":
        return "gvisor"
    if text == "fake":
        return "fake"
    raise ValueError("must be gvisor or fake")


def _provider(text: str) -> Literal["anthropic", "scripted"]:
    if text == "anthropic":
        return "anthropic"
    if text == "scripted":
        return "scripted"
    raise ValueError("must be anthropic or scripted")


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or not urlsplit(text).hostname:
        raise ValueError("must be an http:// or https:// address")
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("must be a whole number")
    return int(text)


def _positive(text: str) -> int:
    if (number := _count(text)) == 0:
        raise ValueError("must be at least 1")
    return number


def _memory_cap(text: str) -> int:
    if (size := _count(text)) < DEFAULT_MEMORY_MB:
        raise ValueError(f"must be at least {DEFAULT_MEMORY_MB}, the size of a sandbox that names none")
    return size


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.9:
        raise ValueError("must be a number from 0 to 0.9")
    return share


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("must be 0 or 1")
    return text == "1"


def _level(text: str) -> str:
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError("must be debug, info, warning or error")
    return text


def _tool_event_level(text: str) -> Level:
    if text not in (Level.INTERNAL, Level.PROGRESS):
        raise ValueError("must be internal or progress")
    return Level(text)


def _existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError("there is no such file")
    return path
