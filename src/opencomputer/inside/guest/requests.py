"""One request of the host, and the table of what the guest can do."""

from __future__ import annotations

from . import protocol
from .protocol import JsonObject, ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection


class Refusal(Exception):
    """A request cannot be done; `code` is one of the protocol's error codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Request:
    """A request must be answered exactly once, now or later."""

    __slots__ = ("connection", "fields", "stream")

    def __init__(self, connection: Connection, stream: int, fields: JsonObject) -> None:
        self.connection = connection
        self.stream = stream
        self.fields = fields

    def reply(self, result: JsonObject) -> None:
        self.connection.send_json(protocol.RESPONSE, self.stream, {"result": result})

    def refuse(self, code: str, message: str) -> None:
        self.connection.send_json(protocol.RESPONSE, self.stream, error_fields(code, message))


def error_fields(code: str, message: str) -> JsonObject:
    return {"error": {"code": code, "message": message[:1000]}}


def perform(operations: dict[str, Callable[[Request], None]], request: Request) -> None:
    """Run the request's operation and turn what goes wrong into its answer."""
    try:
        name = protocol.text(request.fields, "op")
        operation = operations.get(name)
        if operation is None:
            raise ProtocolError(f"there is no operation {name}")
        operation(request)
    except Refusal as refusal:
        request.refuse(refusal.code, refusal.message)
    except LookupError as error:
        request.refuse(protocol.NOT_FOUND, str(error.args[0]) if error.args else "not found")
    except (ProtocolError, ValueError) as error:
        request.refuse(protocol.INVALID, str(error))
    except OSError as error:
        request.refuse(protocol.FAILED, error.strerror or str(error))
