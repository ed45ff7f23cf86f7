"""Which of the kernel's TCP entries are connections of programs to elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencomputer.inside.guest import connections
from opencomputer.inside.guest.connections import count_connections

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:00000000 00:00000000 00000000  1000        0 5 1 0000000000000000 20 0 0 10 -1\n"
HERE = "8A03E70A"
ELSEWHERE = "FEA9FEA9:0050"
MAPPED = "0000000000000000FFFF0000"


@pytest.mark.parametrize(
    ("local", "remote", "state", "count"),
    [
        (f"{HERE}:A8F8", ELSEWHERE, "01", 1),
        (f"{HERE}:A8F8", ELSEWHERE, "02", 1),  # being made
        (f"{HERE}:A8F8", ELSEWHERE, "08", 1),  # the other side has closed it
        (f"{HERE}:A8F8", ELSEWHERE, "06", 1),  # over, but not closed yet: it is cut, too
        (f"{HERE}:A8F8", "00000000:0000", "07", 0),  # never was one, or has been cut
        (f"{HERE}:1F90", "00000000:0000", "0A", 0),  # listens
        (f"{HERE}:1B58", "8903E70A:A8F8", "01", 0),  # the host talks to the guest
        ("0100007F:A8F8", "0100007F:1F90", "01", 0),  # inside the machine
        (f"{MAPPED}{HERE}:A8F8", f"{MAPPED}{ELSEWHERE}", "01", 1),
        (f"{MAPPED}0100007F:A8F8", f"{MAPPED}0100007F:1F90", "01", 0),
        ("00000000000000000000000001000000:A8F8", "00000000000000000000000001000000:1F90", "01", 0),
    ],
)
def test_connections_to_elsewhere_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, local: str, remote: str, state: str, count: int
) -> None:
    table = tmp_path / "tcp"
    table.write_text(f"{HEAD}   3: {local} {remote} {state} {REST}")
    monkeypatch.setattr(connections, "_LISTS", (str(tmp_path / "missing"), str(table)))
    assert count_connections() == count


def test_what_cannot_be_read_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(f"{HEAD}nonsense\n")
    monkeypatch.setattr(connections, "_LISTS", (str(table),))
    assert count_connections() == 0
