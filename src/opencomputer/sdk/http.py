"""httpx, without the command line that it brings along.

Where rich and click are installed, which is wherever `oc` is, importing httpx imports them too, and that
takes longer than all the rest together. Everything here takes httpx from this module.
"""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

# A module that is None cannot be imported; httpx then goes on without. Nothing of that stays behind.
sys.modules.setdefault(_COMMAND_LINE, None)  # pyright: ignore[reportArgumentType]
try:
    import httpx as httpx
finally:
    if sys.modules[_COMMAND_LINE] is None:  # pyright: ignore[reportUnnecessaryComparison]
        del sys.modules[_COMMAND_LINE]
