"""Which libraries the guest's interpreter needs is read from `ldd`."""

from __future__ import annotations

from pathlib import Path

from opencomputer.server.templates.interpreter import parse_ldd

LDD = """/usr/bin/python3.11:
\tlinux-vdso.so.1 (0x00007ffd)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f45e8ffd000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f45e8dd1000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f45e90f0000)
/usr/lib/python3.11/lib-dynload/_bz2.so:
\tlibbz2.so.1.0 => /lib/x86_64-linux-gnu/libbz2.so.1.0 (0x00007f0000000000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f45e8dd1000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f45e90f0000)
"""


def test_loader_and_libraries_of_several_files_are_told_apart() -> None:
    """Each library is named once; the kernel's own page is none."""
    loader, libraries = parse_ldd(LDD)
    folder = Path("/lib/x86_64-linux-gnu")
    assert loader == Path("/lib64/ld-linux-x86-64.so.2")
    assert libraries == {folder / "libm.so.6", folder / "libc.so.6", folder / "libbz2.so.1.0"}


def test_a_missing_library_leaves_no_entry() -> None:
    """`not found` is not a path."""
    assert parse_ldd("\tlibgone.so => not found\n") == (None, frozenset())
