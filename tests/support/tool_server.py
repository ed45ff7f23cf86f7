"""The tools of a turn, served over MCP on loopback as the platform does it: stateless, answers in JSON."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Arguments = Mapping[str, Any]
Tool = Callable[[Arguments], str]

_TEXT = {"type": "string"}
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "bash": {"command": _TEXT},
    "read": {"path": _TEXT},
    "write": {"path": _TEXT, "content": _TEXT},
    "say": {"text": _TEXT},
    "ask": {"text": _TEXT},
}


@dataclass
class ToolServer:
    """Served tools: where, and every call so far. Tools without an entry in `tools` answer "ok"."""

    url: str = ""
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    calls: list[tuple[str, Arguments]] = field(default_factory=list[tuple[str, Arguments]])
    called: threading.Event = field(default_factory=threading.Event)

    def said(self, name: str = "say") -> list[str]:
        return [str(arguments.get("text")) for tool, arguments in self.calls if tool == name]


@contextlib.contextmanager
def serve_tools(**tools: Tool) -> Generator[ToolServer]:
    """Serve the tools until the context ends. A tool that raises reports an error."""
    served = ToolServer(tools=dict(tools))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(served))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/v1/tools/a-token/mcp"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _handler(served: ToolServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in message:
                self._answer(202, b"")
                return
            result = _result(served, message)
            answer = {"jsonrpc": "2.0", "id": message["id"], **result}
            self._answer(200, json.dumps(answer).encode())

        def do_GET(self) -> None:
            self._answer(405, b"")

        def do_DELETE(self) -> None:
            self._answer(405, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if body:
                self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _result(served: ToolServer, message: Mapping[str, Any]) -> Mapping[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            server = {"name": "opencomputer", "version": "1"}
            return {
                "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            }
        case "tools/list":
            return {"result": {"tools": [_described(name) for name in SCHEMAS]}}
        case "tools/call":
            return {"result": _called(served, message["params"])}
        case _:
            return {"error": {"code": -32601, "message": "there is no such method"}}


def _described(name: str) -> Mapping[str, Any]:
    properties = SCHEMAS[name]
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema}


def _called(served: ToolServer, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    name: str = parameters["name"]
    arguments: Arguments = parameters.get("arguments") or dict[str, Any]()
    served.calls.append((name, arguments))
    served.called.set()
    try:
        text, failed = served.tools.get(name, lambda _: "ok")(arguments), False
    except Exception as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}
