"""A server that answers logins as a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "osb_" + "0123456789abcdef" * 4
IDENTITY = {"org_id": "org-1", "org_name": "Ada's", "user_id": "user-1", "email": "ada@example.com"}
CREDENTIAL = {"id": "key-9", "key": KEY, "key_prefix": KEY[:12], "name": "oc CLI on laptop"}
AUTHORIZED = (200, {"status": "authorized", "credential": CREDENTIAL})
PENDING = (202, {"status": "authorization_pending"})


@dataclass
class LoginServer:
    url: str = ""
    exchanges: list[tuple[int, object]] = field(default_factory=lambda: [AUTHORIZED])
    """Answers to one exchange after the other; the last one stays."""
    start: dict[str, object] = field(default_factory=dict[str, object])
    """What is different in the answer that begins a login."""
    keys: set[str] = field(default_factory=lambda: {KEY})
    """Those that are valid."""
    revoke_status: int = 204
    seen: list[tuple[str, str, str, Any]] = field(default_factory=list[tuple[str, str, str, Any]])
    """Method, path, key and body of each request."""

    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _, _ in self.seen]

    def answer(self, method: str, path: str, key: str) -> tuple[int, object]:
        match method, path:
            case "POST", "/auth/cli/device":
                page = f"{self.url}/auth/cli/verify"
                return 200, {
                    "device_code": "the-device-code",
                    "user_code": "BCDF-GHJK",
                    "verification_uri": page,
                    "verification_uri_complete": f"{page}?code=BCDF-GHJK",
                    "expires_in": 600,
                    "interval": 1,
                } | self.start
            case "POST", "/auth/cli/device/exchange":
                return self.exchanges.pop(0) if len(self.exchanges) > 1 else self.exchanges[0]
            case "POST", "/auth/cli/device/decide":
                return 200, {"status": "approved", "requested_from": "192.0.2.7"}
            case "DELETE", "/auth/cli/credential":
                return self.revoke_status, {"error": "no", "code": "internal"}
            case "GET", "/api/whoami" if key in self.keys:
                return 200, IDENTITY
            case "GET", "/api/whoami":
                return 401, {"error": "A valid API key is required.", "code": "unauthorized"}
            case _:
                return 404, {"error": "there is no such route", "code": "not_found"}


@contextmanager
def login_server() -> Generator[LoginServer]:
    served = LoginServer()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            key = self.headers.get("x-api-key", "")
            served.seen.append((self.command, self.path, key, json.loads(content or b"null")))
            status, body = served.answer(self.command, self.path, key)
            encoded = b"" if status == 204 else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
