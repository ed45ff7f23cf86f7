"""A registry on loopback that hands out the images of an OCI layout, by tag and by digest."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_REF_NAME = "org.opencontainers.image.ref.name"


@dataclass
class Registry:
    """`address` is how images are named; `asked` are the paths of all requests."""

    address: str
    layout: Path
    asked: list[str] = field(default_factory=list[str])

    def blobs_asked(self) -> int:
        return sum("/blobs/" in path for path in self.asked)


@contextmanager
def serve_layout(layout: Path, home: Path) -> Generator[Registry]:
    """Serve until the end; `home` is made one whose user talks to it without TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(layout, lambda: registry))
    registry = Registry(f"127.0.0.1:{server.server_address[1]}", layout)
    config = home / ".config/containers/registries.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f'[[registry]]\nlocation = "{registry.address}"\ninsecure = true\n')
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(layout: Path, registry: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            registry().asked.append(self.path)
            found = _find(layout, self.path)
            if found is None:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content, media_type, digest = found
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _find(layout: Path, path: str) -> tuple[bytes, str, str] | None:
    if path == "/v2/":
        return b"{}", "application/json", ""
    kind, _, name = path.rpartition("/")
    entries = json.loads((layout / "index.json").read_text())["manifests"]
    if kind.endswith("/manifests"):
        wanted = [each for each in entries if name in (each["digest"], each["annotations"][_REF_NAME])]
        if not wanted:
            return None
        digest, media_type = wanted[0]["digest"], wanted[0]["mediaType"]
    else:
        digest, media_type = name, "application/octet-stream"
    blob = layout / "blobs/sha256" / digest.removeprefix("sha256:")
    return (blob.read_bytes(), media_type, digest) if blob.is_file() else None
