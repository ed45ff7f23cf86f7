"""The name under which a browser saves a file."""

from __future__ import annotations

import pytest

from opencomputer.server.http.sandbox_api.signed_files import attachment


@pytest.mark.parametrize(
    ("path", "plain", "encoded"),
    [
        ("report.csv", "report.csv", "report.csv"),
        ("/a/b/report v2.csv", "report v2.csv", "report%20v2.csv"),
        ("größe ☕.txt", "gr__e _.txt", "gr%C3%B6%C3%9Fe%20%E2%98%95.txt"),
        ('a"b;c\\d', "a_b_c_d", "a%22b%3Bc%5Cd"),
        ("a\r\nSet-Cookie: x", "a__Set-Cookie_ x", "a%0D%0ASet-Cookie%3A%20x"),
        ("100%25", "100_25", "100%2525"),
        ("..\\..\\x", ".._.._x", "..%5C..%5Cx"),
        ("folder/", "download", "download"),
        ("'", "_", "%27"),
    ],
)
def test_it_is_the_files_own_and_cannot_leave_the_header(path: str, plain: str, encoded: str) -> None:
    shown = attachment(path)
    assert shown == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"
    assert shown.isascii()
    assert shown.isprintable()
