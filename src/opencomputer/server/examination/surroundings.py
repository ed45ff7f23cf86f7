"""What a node depends on outside of itself: names, the clock, its ports, its model provider, its domain."""

from __future__ import annotations

import ctypes
import json
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from opencomputer.server.examination.check import Check
from opencomputer.server.host import probe
from opencomputer.server.settings import Settings

_SECONDS = 4.0
_PROVIDER = "https://api.anthropic.com"
_SKEW_WARN = timedelta(seconds=5)
_SKEW_FAIL = timedelta(seconds=60)
_EXPIRY_WARN = timedelta(days=21)
_UNSYNCHRONISED = 0x40
_V2_NEEDED = frozenset({"cpu", "memory", "pids"})


@dataclass(frozen=True)
class Answer:
    """What an HTTP server said: a status and its clock, or why it said nothing."""

    status: int = 0
    clock: datetime | None = None
    problem: str | None = None
    body: str = ""


@dataclass(frozen=True)
class NodeHealth:
    """The node that should run on this machine; `url` None: none has said where it is."""

    url: str | None
    alive: bool = False
    ready: bool = False


def check_surroundings(settings: Settings) -> list[Check]:
    """Takes a few seconds where something does not answer."""
    health = node_health(settings.local_node_file)
    provider = _ask(settings.models.anthropic_base_url or _PROVIDER) if _has_provider(settings) else None
    checks = [
        judge_health(health),
        judge_port(settings, taken=_is_taken(settings), by_node=health.alive),
        judge_inodes(probe.free_inodes(settings.data), settings.data),
        judge_controllers(*_controllers()),
        judge_clock(_skew(provider), synchronised=_clock_synchronised()),
        judge_names(_resolve("example.com")),
        judge_provider(provider),
    ]
    domains = [settings.sandbox_domain, *settings.preview_domains]
    checks += [judge_domain(each, _resolve(f"probe-p80.{each}")) for each in domains if each != "localhost"]
    if settings.public_url is not None and settings.public_url.startswith("https://"):
        checks.append(judge_certificate(settings.public_url, *_certificate(settings.public_url)))
    return checks


def node_health(local_node_file: Path) -> NodeHealth:
    try:
        url = str(json.loads(local_node_file.read_text())["apiUrl"])
    except (OSError, ValueError, KeyError):
        return NodeHealth(None)
    alive = _ask(f"{url}/healthz")
    return NodeHealth(url, alive.status == 200, alive.status == 200 and _ask(f"{url}/readyz").status == 200)


def judge_health(health: NodeHealth) -> Check:
    if health.url is None:
        return Check("node", "ok", "No node has been started on this machine yet.")
    if not health.alive:
        return Check(
            "node",
            "warn",
            f"The node at {health.url} does not answer.",
            "Start it (`oc serve`, `systemctl start opencomputer`); its log says why it ended.",
        )
    if not health.ready:
        return Check(
            "node", "warn", f"The node at {health.url} is not ready.", "Wait for it; its log says for what."
        )
    return Check("node", "ok", f"The node at {health.url} answers and is ready.")


def judge_port(settings: Settings, *, taken: bool, by_node: bool) -> Check:
    address = f"{settings.listen.host}:{settings.listen.port}"
    if taken and not by_node:
        return Check(
            "port",
            "fail",
            f"Another program listens at {address}.",
            "Stop it, or set OPENCOMPUTER_LISTEN to another address.",
        )
    return Check("port", "ok", f"{address} is {'the node’s' if taken else 'free'}.")


def judge_inodes(free_share: float, folder: Path) -> Check:
    text = f"{free_share:.0%} of the inodes of the disk of {folder} are free"
    if free_share < 0.01:
        return Check(
            "inodes", "fail", f"Only {text}.", "Remove small files, or make that disk anew with more."
        )
    if free_share < 0.10:
        return Check("inodes", "warn", f"Only {text}.", "Remove small files there, or use another disk.")
    return Check("inodes", "ok", f"{text}.")


def judge_controllers(version: int, missing: frozenset[str]) -> Check:
    if missing:
        return Check(
            "controllers",
            "fail",
            f"Version {version} of control groups is there, without {', '.join(sorted(missing))}.",
            "Boot with those controllers; in a container, hand them on (`Delegate=yes`).",
        )
    return Check("controllers", "ok", f"Version {version} of control groups has all controllers.")


def judge_clock(skew: timedelta | None, *, synchronised: bool) -> Check:
    fix = "Set the clock, and keep it right with chrony or systemd-timesyncd."
    if skew is not None and skew >= _SKEW_FAIL:
        text = f"This clock is {skew.total_seconds():.0f} s off: tokens and signatures will not hold."
        return Check("clock", "fail", text, fix)
    if skew is not None and skew >= _SKEW_WARN:
        return Check("clock", "warn", f"This clock is {skew.total_seconds():.0f} s off.", fix)
    if skew is None and not synchronised:
        return Check("clock", "warn", "Nothing keeps this clock right, and nobody could be asked.", fix)
    return Check("clock", "ok", "The clock is right." if skew is not None else "The clock is kept right.")


def judge_names(problem: str | None) -> Check:
    if problem is None:
        return Check("names", "ok", "Names of the internet are resolved.")
    return Check(
        "names",
        "warn",
        f"Names of the internet are not resolved: {problem}.",
        "Look at /etc/resolv.conf, or set OPENCOMPUTER_NAME_SERVERS.",
    )


def judge_provider(answer: Answer | None) -> Check:
    if answer is None:
        return Check("model provider", "ok", "None is configured; sessions bring keys of their own.")
    if answer.problem is not None:
        return Check(
            "model provider",
            "fail",
            f"The model provider cannot be reached: {answer.problem}.",
            "Look at OPENCOMPUTER_ANTHROPIC_BASE_URL and the way out of this host.",
        )
    if answer.status >= 500:
        return Check(
            "model provider", "warn", f"The model provider answers {answer.status}.", "Try again later."
        )
    return Check("model provider", "ok", "The model provider answers.")


def judge_domain(domain: str, problem: str | None) -> Check:
    if problem is None:
        return Check("preview domain", "ok", f"Names below {domain} are resolved.")
    return Check(
        "preview domain",
        "fail",
        f"Names below {domain} are not resolved, so previews cannot be reached: {problem}.",
        f"Add a record for *.{domain} that leads to this node (docs/guides/previews.md).",
    )


def judge_certificate(url: str, expires: datetime | None, problem: str | None) -> Check:
    if expires is None:
        return Check(
            "certificate",
            "fail",
            f"{url} cannot be reached over TLS: {problem}.",
            "Look at the proxy in front of the node and at its certificate.",
        )
    left = expires - datetime.now(UTC)
    if left < _EXPIRY_WARN:
        return Check(
            "certificate",
            "warn",
            f"The certificate of {url} ends in {left.days} days.",
            "Renew it; see why that does not happen by itself.",
        )
    return Check("certificate", "ok", f"The certificate of {url} holds for {left.days} days.")


def _has_provider(settings: Settings) -> bool:
    options = settings.models
    return options.provider != "scripted" and (
        options.anthropic_api_key is not None or options.anthropic_base_url is not None
    )


def _ask(url: str) -> Answer:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        answer = connection.getresponse()
        return Answer(answer.status, _time_in(answer.headers.get("Date")))
    except (OSError, HTTPException) as error:
        return Answer(problem=str(error) or type(error).__name__)
    finally:
        connection.close()


def _time_in(text: str | None) -> datetime | None:
    try:
        return None if text is None else parsedate_to_datetime(text)
    except ValueError:
        return None


def _skew(answer: Answer | None) -> timedelta | None:
    if answer is None or answer.clock is None:
        return None
    return abs(datetime.now(UTC) - answer.clock)


def _clock_synchronised() -> bool:
    """What the kernel says: some program disciplines its clock."""
    fields = (ctypes.c_ubyte * 512)()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(fields))
    status = int.from_bytes(bytes(fields[40:44]), "little")
    return state >= 0 and not status & _UNSYNCHRONISED


def _resolve(name: str) -> str | None:
    """None: it is resolved."""
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(socket.getaddrinfo, name, None).result(_SECONDS)
    except NotInTime:
        return "no answer in time"
    except OSError as error:
        return error.strerror or str(error)
    finally:
        pool.shutdown(wait=False)
    return None


def _is_taken(settings: Settings) -> bool:
    try:
        family = socket.AF_INET6 if ":" in settings.listen.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.listen.host, settings.listen.port))
    except OSError:
        return True
    return False


def _controllers() -> tuple[int, frozenset[str]]:
    mounts = Path("/proc/self/mounts").read_text()
    if probe.has_split_groups(mounts):
        return 1, frozenset()
    try:
        present = frozenset(Path("/sys/fs/cgroup/cgroup.controllers").read_text().split())
    except OSError:
        present = frozenset[str]()
    return 2, _V2_NEEDED - present


def _certificate(url: str) -> tuple[datetime | None, str | None]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, parts.port or 443), timeout=_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            found = secured.getpeercert()
    except OSError as error:
        return None, str(error)
    ends: Mapping[str, object] = found or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(ends["notAfter"])), UTC), None
