"""What the server itself says under the name of a preview, instead of the program."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from opencomputer.server.domain.errors import NothingListens, NotReady, OpenComputerError, Unauthenticated
from opencomputer.server.domain.previews import Grant
from opencomputer.server.http import preview_headers as heads
from opencomputer.server.http.errors import render_error

CHALLENGE = 'Bearer realm="preview"'
RELOAD_SECONDS = 3
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="{seconds}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; margin: 20vh auto; max-width: 32rem; padding: 0 1rem; }}
  @media (prefers-color-scheme: dark) {{ body {{ background: #16181d; color: #e6e6e6; }} }}
</style>
<h1>{title}</h1>
<p>{text} This page reloads by itself.</p>
</html>
"""


def refusal(scope: Scope, error: OpenComputerError) -> Response:
    """An error as JSON; browsers get a page that tries again where that may help."""
    if isinstance(error, NothingListens) and _wants_page(scope):
        return _page("Nothing is listening yet", "No program of this sandbox listens on this port.")
    if isinstance(error, NotReady) and _wants_page(scope):
        return _page("The sandbox is not ready yet", "It may be about to wake.")
    answer = render_error(error)
    answer.headers["Cache-Control"] = "no-store"
    if isinstance(error, Unauthenticated):
        answer.headers["WWW-Authenticate"] = CHALLENGE
    return answer


def _page(title: str, text: str) -> Response:
    return HTMLResponse(
        _PAGE.format(title=title, text=text, seconds=RELOAD_SECONDS),
        503,
        {"Retry-After": str(RELOAD_SECONDS), "Cache-Control": "no-store"},
    )


def _wants_page(scope: Scope) -> bool:
    accepted = heads.first(scope["headers"], b"accept") or b""
    return scope["type"] == "http" and b"text/html" in accepted.lower()


def remember(scope: Scope, grant: Grant, token: str, now: datetime) -> Response:
    """Leave a grant in a cookie, and send the browser to the address without it.

    The address is complete: a path that begins with two slashes would otherwise lead to another host."""
    secure = heads.is_secure(scope)
    host = (heads.first(scope["headers"], b"host") or b"").decode("latin-1")
    where = f"{'https' if secure else 'http'}://{host}{heads.target(scope).decode('latin-1')}"
    seconds = max(1, int((grant.expires_at - now).total_seconds()))
    answer = Response(
        status_code=302,
        headers={"Location": where, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"},
    )
    answer.raw_headers.append((b"set-cookie", heads.cookie(token, secure=secure, seconds=seconds)))
    return answer
