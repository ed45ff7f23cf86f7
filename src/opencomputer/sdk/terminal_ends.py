"""How a terminal's link ends. Apart from terminals themselves, because it takes the library of WebSockets."""

from __future__ import annotations

from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK


class TerminalEndedError(EOFError, ConnectionClosedOK):
    """Nothing more comes from a terminal, and nothing goes to it: it has ended."""

    def __str__(self) -> str:
        return "the terminal has ended"


class LinkLostError(EOFError, ConnectionClosedError):
    """The link to a terminal broke; the terminal itself may go on."""

    def __str__(self) -> str:
        return "the link to the terminal was lost"
