"""The page on which somebody lets an `oc login` in: a form, and nothing that runs in the browser."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from html import escape

from starlette.responses import HTMLResponse

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 12vh auto; max-width: 30rem; padding: 0 1rem; }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600; }
input { box-sizing: border-box; width: 100%; padding: .5rem; font: inherit; }
input[name=user_code] { font-family: ui-monospace, monospace; letter-spacing: .15em; }
button { margin: 1.25rem .5rem 0 0; padding: .5rem 1.25rem; font: inherit; cursor: pointer; }
.fault { border-left: 4px solid #c0392b; padding-left: .75rem; }
.hint { color: #667; font-size: .9rem; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e6e6e6; } }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    # Not "no-referrer": forms would then come without the origin that is looked at.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>OpenComputer: sign in a terminal</title>
<style>{style}</style>
{content}
</html>
"""
_FORM = """<h1>Sign in a terminal</h1>
{fault}<p>Enter the code that <code>oc login</code> shows, and an API key of the organisation it is to
work in. It gets a key of its own, which <code>oc keys</code> lists and revokes.</p>
<form method="post" autocomplete="off">
<label for="user_code">Code</label>
<input id="user_code" name="user_code" value="{code}" required maxlength="64" placeholder="XXXX-XXXX">
<label for="api_key">API key</label>
<input id="api_key" name="api_key" type="password" required maxlength="256" placeholder="osb_…">
<button name="decision" value="approve">Approve</button>
<button name="decision" value="deny">Deny</button>
</form>
<p class="hint">Approve only what you started yourself, just now: whoever holds this code gets the power of
the key. On the machine of the server, <code>oc login approve CODE</code> does the same.</p>"""


@dataclass(frozen=True)
class Entered:
    """What the form is filled in with: the code, and what was wrong. Never the key."""

    user_code: str = ""
    fault: str = ""


def form(entered: Entered, status: int = 200) -> HTMLResponse:
    """The form, to begin with or once more."""
    fault = f'<p class="fault" role="alert">{escape(entered.fault)}</p>\n' if entered.fault else ""
    return _page(_FORM.format(fault=fault, code=escape(entered.user_code)), status)


def decided(*, approved: bool, requested_from: str) -> HTMLResponse:
    """What happened."""
    if approved:
        title, text = "Signed in", "The terminal goes on by itself. You can close this page."
    else:
        title, text = "Denied", "The terminal was told, and got no key. You can close this page."
    return _page(f"<h1>{title}</h1>\n<p>{text}</p>\n<p>Asked for from {escape(requested_from)}.</p>", 200)


def _page(content: str, status: int) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(style=_STYLE, content=content), status, _HEADERS)
