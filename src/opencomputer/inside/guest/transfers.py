"""File requests: streams in both directions whose memory stays within their windows."""

from __future__ import annotations

import os
from collections import deque

from . import protocol
from .connection import Connection, Stream
from .files import FileSource, ListingSource, PendingWrite, remove
from .paths import Ownership, absolute, final_name, refusal
from .protocol import JsonObject
from .requests import Request, error_fields
from .users import SANDBOX, User, UserDatabase
from .workers import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_READ_AHEAD = 4
_LEAST_WINDOW = 512 * 1024
_MOST_WINDOW = 8 * 1024 * 1024


class FileRequests:
    """The file operations of the guest. Relative paths are under the sandbox user's home."""

    def __init__(self, workers: Workers, users: UserDatabase, *, can_give: bool) -> None:
        self._workers = workers
        self._users = users
        self._can_give = can_give

    def read(self, request: Request) -> None:
        path = self._path(request)
        offset = protocol.optional_integer(request.fields, "offset", least=-protocol.MOST_BYTES) or 0
        count = protocol.optional_integer(request.fields, "count")
        Sending(self._workers, request, path, lambda: FileSource(path, offset, count))

    def list_directory(self, request: Request) -> None:
        path = self._path(request)
        Sending(self._workers, request, path, lambda: ListingSource(path))

    def write(self, request: Request) -> None:
        path = self._path(request)
        size = protocol.optional_integer(request.fields, "size_hint")
        ownership = self._ownership()
        Receiving(self._workers, request, path, lambda: PendingWrite(path, ownership, size))

    def make_directory(self, request: Request) -> None:
        path = self._path(request)
        ownership = self._ownership()
        self._answer_later(request, path, lambda: ownership.make_folders(os.path.realpath(path)))

    def remove(self, request: Request) -> None:
        path = self._path(request)
        self._answer_later(request, path, lambda: remove(final_name(path)))

    def _answer_later(self, request: Request, path: str, step: Callable[[], None]) -> None:
        def failed(error: Exception) -> None:
            problem = refusal(error, path)
            request.refuse(problem.code, problem.message)

        self._workers.submit(step, lambda _result: request.reply({}), failed)

    def _path(self, request: Request) -> str:
        return absolute(protocol.text(request.fields, "path"), self._user().home)

    def _ownership(self) -> Ownership:
        return Ownership(self._user(), can_give=self._can_give)

    def _user(self) -> User:
        user = self._users.find(SANDBOX)
        assert user is not None, "the sandbox user exists even where the image lacks it"
        return user


class Sending(Stream):
    """Sends what a source gives, at most a window ahead of the host."""

    def __init__(
        self,
        workers: Workers,
        request: Request,
        path: str,
        open_source: Callable[[], FileSource | ListingSource],
    ) -> None:
        self._workers = workers
        self._request = request
        self._path = path
        self._window = protocol.integer(request.fields, "window", least=_LEAST_WINDOW, most=_MOST_WINDOW)
        self._connection: Connection | None = request.connection
        self._stream = request.stream
        self._source: FileSource | ListingSource | None = None
        self._ready: deque[bytes] = deque()
        self._busy = True
        self._at_end = False
        self._sent = 0
        self._taken = 0
        request.connection.streams[request.stream] = self
        workers.submit(open_source, self._opened, self._refused)

    def on_credit(self, total: int) -> None:
        self._taken = max(self._taken, min(total, self._sent))
        self._go_on()

    def on_cancel(self) -> None:
        self._connection = None
        self._close()

    def on_lost(self) -> None:
        self.on_cancel()

    def on_room(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if self._ready and self._sent + len(self._ready[0]) - self._taken <= self._window:
            piece = self._ready.popleft()
            connection.send(protocol.DATA, self._stream, piece)
            self._sent += len(piece)
        self._go_on()

    def _opened(self, source: FileSource | ListingSource) -> None:
        self._busy = False
        self._source = source
        if self._connection is None:
            self._close()
            return
        shown = source.shown_path if isinstance(source, ListingSource) else None
        self._request.reply({"size": source.size, "start": source.start, "path": shown})
        self._go_on()

    def _refused(self, error: Exception) -> None:
        self._busy = False
        if self._connection is not None:
            self._connection.drop(self._stream)
            problem = refusal(error, self._path)
            self._request.refuse(problem.code, problem.message)

    def _go_on(self) -> None:
        """Read ahead, send, or end: whatever is possible now."""
        connection, source = self._connection, self._source
        if connection is None or source is None:
            return
        if not self._busy and not self._at_end and len(self._ready) < _READ_AHEAD:
            self._busy = True
            self._workers.submit(source.read, self._have, self._failed)
        if self._ready:
            if self._sent + len(self._ready[0]) - self._taken <= self._window:
                connection.request_room(self)
        elif self._at_end:
            self._finish({})

    def _have(self, piece: bytes) -> None:
        self._busy = False
        if piece:
            self._ready.append(piece)
        else:
            self._at_end = True
        if self._connection is None:
            self._close()
        else:
            self._go_on()

    def _failed(self, error: Exception) -> None:
        self._busy = False
        problem = refusal(error, self._path)
        self._finish(error_fields(problem.code, problem.message))

    def _finish(self, fields: JsonObject) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish(self._stream, fields)
        self._close()

    def _close(self) -> None:
        self._ready.clear()
        if self._source is not None and not self._busy:
            source, self._source = self._source, None
            source.close()


class Receiving(Stream):
    """Takes the bytes of a file. Acknowledges what is written, so that the host stays a window ahead."""

    def __init__(
        self, workers: Workers, request: Request, path: str, open_file: Callable[[], PendingWrite]
    ) -> None:
        self._workers = workers
        self._request = request
        self._path = path
        self._connection: Connection | None = request.connection
        self._stream = request.stream
        self._file: PendingWrite | None = None
        self._pieces: list[bytes] = []
        self._busy = True
        self._all_here = False
        self._written = 0
        request.connection.streams[request.stream] = self
        workers.submit(open_file, self._opened, self._refused)

    def on_data(self, payload: bytes) -> None:
        self._pieces.append(payload)
        self._go_on()

    def on_end(self) -> None:
        self._all_here = True
        self._go_on()

    def on_cancel(self) -> None:
        self._connection = None
        self._pieces.clear()
        self._abort()

    def on_lost(self) -> None:
        self.on_cancel()

    def _opened(self, file: PendingWrite) -> None:
        self._busy = False
        self._file = file
        if self._connection is None:
            self._abort()
        else:
            self._request.reply({})
            self._go_on()

    def _refused(self, error: Exception) -> None:
        self._busy = False
        if self._connection is not None:
            self._connection.drop(self._stream)
            problem = refusal(error, self._path)
            self._request.refuse(problem.code, problem.message)

    def _go_on(self) -> None:
        file = self._file
        if self._busy or file is None or self._connection is None:
            return
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            self._busy = True
            self._workers.submit(lambda: file.write(pieces), self._have_written, self._failed)
        elif self._all_here:
            self._busy = True
            self._workers.submit(file.commit, self._committed, self._failed)

    def _have_written(self, count: int) -> None:
        self._busy = False
        self._written += count
        if self._connection is None:
            self._abort()
            return
        self._connection.send(protocol.CREDIT, self._stream, protocol.COUNT.pack(self._written))
        self._go_on()

    def _committed(self, _result: None) -> None:
        self._busy = False
        self._file = None
        self._finish({})

    def _failed(self, error: Exception) -> None:
        self._busy = False
        problem = refusal(error, self._path)
        self._finish(error_fields(problem.code, problem.message))
        self._abort()

    def _finish(self, fields: JsonObject) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish(self._stream, fields)

    def _abort(self) -> None:
        """Undo, once the step in progress is through."""
        if self._file is not None and not self._busy:
            file, self._file = self._file, None
            self._workers.submit(file.abort, lambda _result: None, lambda _error: None)
