"""The default template has several names."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.templates import template_name


@pytest.mark.parametrize("asked", ["", "base", "default", "ubuntu"])
def test_the_default_template_has_aliases(asked: str) -> None:
    """No name is one of them."""
    assert template_name(asked) == "base"


def test_other_names_are_what_they_are() -> None:
    """Whether there is such a template is not decided here."""
    assert template_name("Ubuntu") == "Ubuntu"
