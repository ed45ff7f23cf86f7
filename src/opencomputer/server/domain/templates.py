"""What templates are called."""

from __future__ import annotations

DEFAULT_TEMPLATE = "base"
_ALIASES = frozenset({"", "default", "ubuntu"})


def template_name(asked: str) -> str:
    """The name that a client means: the default template has aliases. Ids and names are the same."""
    return DEFAULT_TEMPLATE if asked in _ALIASES else asked
