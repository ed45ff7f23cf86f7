"""What to do next when a server refused something. No I/O here.

Decided by status, code and the kind of path alone, never by the words of a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOT_FOUND = 404
_NO_SERVER_FEATURE = "self-hosted servers do not have this yet; `oc --help` shows what else there is"
_MAKE_ROOM = "see what runs with `oc ls`, and end something with `oc kill SANDBOX`"

_STOPPED = (
    "it cannot come back; a checkpoint of it can, with `oc checkpoint spawn`; `oc create` makes another"
)


@dataclass(frozen=True)
class Refusal:
    """What is known about one refused request."""

    status: int
    code: str = ""
    method: str = "GET"
    path: str = ""
    request_id: str = ""


_BY_CODE = {
    "authorization_expired": "oc login",
    "conflict": "",
    "concurrency_limit": _MAKE_ROOM,
    "disk_full": "free some of its disk, or create one with more: oc create --disk MB",
    "file_forbidden": "",
    "host_disk_full": "free some of its disk; `oc checkpoint delete` and `oc snapshot delete` help",
    "machine_lost": "its machine is gone; `oc create` makes another sandbox",
    "no_capacity": f"try again shortly, or {_MAKE_ROOM}",
    "not_ready": "try again shortly",
    "operation_in_progress": "try again shortly",
    "oom_floor": "choose more memory, or end programs in it first",
    "preview_unauthorized": "oc preview rotate-auth SANDBOX",
    "rate_limited": "wait a little, then try again",
    "sandbox_stopped": _STOPPED,
    "scaling_locked": "oc sandbox unlock SANDBOX",
    "secret_unreadable": "on the server's machine: oc keyring forget, then set the secrets anew",
}
_BY_STATUS = {
    401: "sign in with `oc login`; `oc config show` tells which key is used, and where it is from",
    402: _MAKE_ROOM,
    403: "`oc whoami` tells whose key is used; sandbox tokens open their own sandbox only",
    410: _STOPPED,
    429: _BY_CODE["rate_limited"],
    501: _NO_SERVER_FEATURE,
    502: "try again; `oc get SANDBOX` tells whether it is still there",
    503: "try again shortly",
    504: "try again; `oc get SANDBOX` tells whether it is still there",
    507: "something on it has to go first",
}
_SANDBOX = r" /api/sandboxes/(?P<id>[^/]+)"
_SESSION = r"/v3/sessions/(?P<id>[^/]+)"
_AGENT = r"/v3/agents/(?P<id>[^/]+)"
_LOGIN_CODES = "/auth/cli/device/"
# The first that fits.
_LISTS: tuple[tuple[str, str], ...] = (
    (r"^POST /api/sandboxes$", "oc template list"),
    (r" /api/sandboxes/checkpoints/(?P<id>[^/]+)/patches/", "oc patch list {id}"),
    (r" /api/sandboxes/(from-checkpoint|checkpoints)/", "oc checkpoint list SANDBOX"),
    (rf"{_SANDBOX}/(checkpoints/|diff$)", "oc checkpoint list {id}"),
    (rf"{_SANDBOX}/(exec|pty)/", "oc exec list {id}"),
    (rf"{_SANDBOX}/agent/", "oc agent ls {id}"),
    (rf"{_SANDBOX}/preview/", "oc preview list {id}"),
    (rf"{_SANDBOX}/files", "oc exec {id} -- ls -la"),
    (_SANDBOX, "oc ls"),
    (r" /api/snapshots/", "oc snapshot list"),
    (r" /api/templates/", "oc template list"),
    (r" /api/secret-stores/[^/]+/secrets/", "oc secret list STORE"),
    (r" /api/secret-stores/", "oc secret-store list"),
    (r" /api/api-keys/", "oc keys list"),
    (r" /api/webhooks/", "oc webhook list"),
    (rf"{_SESSION}/(fork|rewind)$", "oc session turns {id}"),
    (rf"{_SESSION}/(destinations|deliveries)/", "oc session webhooks {id}"),
    (rf"{_SESSION}/watches/", "oc session watches {id}"),
    (r"/v3/sessions/", "oc session list"),
    (rf"{_AGENT}/(?P<part>revisions|deployments|hooks|schedules)/", "oc agent {part} --agent {id}"),
    (rf"{_AGENT}/secrets/", "oc agent secret list --agent {id}"),
    (r"/v3/agents/", "oc agent list"),
    (r"/v3/repos/", "oc repo list"),
    (r"/v3/model-credentials/|/v3/credentials/", "oc credential list"),
)


def hint_for(refusal: Refusal) -> str:
    """The next step, "" where the message itself is all there is to say."""
    if refusal.status == _NOT_FOUND and refusal.path.startswith(_LOGIN_CODES):
        return "look at the code again, or begin anew where it came from: oc login"
    if refusal.status == _NOT_FOUND:
        return _list_of(f"{refusal.method} {refusal.path}")
    known = _BY_CODE.get(refusal.code)
    if known is not None:
        return known
    if refusal.status in _BY_STATUS:
        return _BY_STATUS[refusal.status]
    if refusal.status >= 500:
        return f"the server's log says more{_about(refusal.request_id)}; `oc doctor` looks at its machine"
    return ""


def _list_of(route: str) -> str:
    for pattern, command in _LISTS:
        found = re.search(pattern, route)
        if found:
            return f"see what is there: {command.format(**found.groupdict())}"
    return "check the address with `oc config show`; or the server may be older than this oc"


def _about(request_id: str) -> str:
    return f" about {request_id}" if request_id else ""
