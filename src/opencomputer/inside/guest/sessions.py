"""All sessions of the machine, and the requests about them."""

from __future__ import annotations

import os

from . import protocol
from .attachment import Attachment
from .environment import IMAGE_FILE, compose, parse_environment
from .protocol import ProtocolError
from .session import Session, SessionRequest, Surroundings
from .spawning import Program
from .trees import MARK
from .watched_file import WatchedFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .requests import Request
    from .users import User, UserDatabase

_MOST_LISTED_BYTES = 512 * 1024
_TERMINAL_ENVIRONMENT = {"TERM": "xterm-256color"}
_LEAST_WINDOW = 128 * 1024


class Sessions:
    """Starts each session once, and gives each attachment back to the host that asks for it again."""

    def __init__(self, around: Surroundings, users: UserDatabase) -> None:
        self._around = around
        self._users = users
        self._image_environment = WatchedFile(IMAGE_FILE)
        self._sessions: dict[str, Session] = {}
        self.identity_environment: dict[str, str] = {}
        self.identity_workdir: str | None = None

    def spawn(self, request: Request) -> None:
        wanted = SessionRequest(request.fields)
        session = self._sessions.get(wanted.id)
        if session is None:
            user = self._users.find(wanted.user)
            if user is None:
                raise ProtocolError(f"there is no user {wanted.user}")
            program = self._program(wanted, user)
            session = Session(self._around, wanted, self._retired)
            self._sessions[wanted.id] = session
            session.start(program)
        request.reply(session.to_json())

    def get(self, request: Request) -> None:
        request.reply(self._find(request).to_json())

    def list_all(self, request: Request) -> None:
        """One page, in the order of starting, after the session named `after`."""
        after = protocol.optional_text(request.fields, "after")
        ids = [*self._sessions]
        start = ids.index(after) + 1 if after in ids else 0
        page: list[object] = []
        size = 0
        for id in ids[start:]:
            record = self._sessions[id].to_json()
            size += len(protocol.encode_json(record))
            if page and size > _MOST_LISTED_BYTES:
                request.reply({"sessions": page, "more": True})
                return
            page.append(record)
        request.reply({"sessions": page, "more": False})

    def signal(self, request: Request) -> None:
        number = protocol.integer(request.fields, "signal", least=1, most=64)
        self._find(request).signal(number, protocol.text(request.fields, "request"))
        request.reply({})

    def resize(self, request: Request) -> None:
        columns = protocol.integer(request.fields, "columns", least=1, most=65535)
        rows = protocol.integer(request.fields, "rows", least=1, most=65535)
        self._find(request).resize(columns, rows)
        request.reply({})

    def label(self, request: Request) -> None:
        self._find(request).label(protocol.text_map(request.fields, "labels"))
        request.reply({})

    def attach(self, request: Request) -> None:
        """Begin to follow a session, or go on after the connection was lost (same `attachment`)."""
        fields = request.fields
        session = self._find(request)
        id = protocol.text(fields, "attachment")
        attachment = session.attachments.get(id)
        if attachment is None:
            window = protocol.integer(fields, "window", least=_LEAST_WINDOW, most=1 << 26)
            attachment = Attachment(session, id, counted=protocol.flag(fields, "counted"), window=window)
            session.attach(attachment)
        cursor = protocol.optional_integer(fields, "offset")
        if cursor is None:
            cursor = session.first_unread
        request.reply(
            {
                "session": session.to_json(),
                "start": cursor,
                "end": session.scrollback.end,
                "input_received": attachment.input_received,
            }
        )
        unread = protocol.optional_integer(fields, "unread") or 0
        attachment.bind(request.connection, request.stream, cursor, unread)
        attachment.wake()

    def keep_attachments(self, ids: set[str]) -> None:
        """Detach every attachment that the host no longer knows: it belonged to an earlier server."""
        for session in self._sessions.values():
            for attachment in [*session.attachments.values()]:
                if attachment.id not in ids:
                    session.detach(attachment)
                    attachment.release("unknown")

    def _usual_folder(self, home: str) -> str:
        """Where processes start that nobody told where. One that was removed must not stop them all."""
        workdir = os.path.join(home, self.identity_workdir or "")
        return workdir if os.path.isdir(workdir) else home

    def _find(self, request: Request) -> Session:
        id = protocol.text(request.fields, "id")
        session = self._sessions.get(id)
        if session is None:
            raise LookupError(f"there is no process {id}")
        return session

    def _retired(self, session: Session) -> None:
        self._sessions.pop(session.id, None)

    def _program(self, wanted: SessionRequest, user: User) -> Program:
        environment = compose(
            user,
            parse_environment(self._image_environment.text()),
            self.identity_environment,
            _TERMINAL_ENVIRONMENT if wanted.terminal else {},
            wanted.environment,
            {MARK: wanted.id},
        )
        home = user.home if os.path.isdir(user.home) else "/"
        cwd = self._usual_folder(home) if wanted.cwd is None else os.path.join(home, wanted.cwd)
        return Program(wanted.argv, environment, cwd, user)
