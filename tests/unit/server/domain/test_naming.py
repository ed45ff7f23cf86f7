"""How ids and secrets look."""

from __future__ import annotations

import re
import uuid

from opencomputer.server.domain import naming
from opencomputer.wire.ids import SandboxId

HERE, THERE = SandboxId("sb-00000001"), SandboxId("sb-00000002")


def test_ids_have_the_contracts_form() -> None:
    assert re.fullmatch(r"sb-[0-9a-f]{8}", naming.new_sandbox_id())
    assert re.fullmatch(r"m[0-9a-f]{15}", naming.new_machine_id())
    assert re.fullmatch(r"[0-9a-f]{8}", naming.new_process_id())
    assert re.fullmatch(r"osb_[0-9a-f]{64}", naming.new_api_key())
    assert uuid.UUID(naming.new_org_id())
    assert uuid.UUID(naming.new_api_key_id())


def test_the_widest_preview_name_fits_a_dns_label() -> None:
    assert len(f"{naming.new_sandbox_id()}-p65535") < 63


def test_the_form_of_a_key_is_exact() -> None:
    assert naming.is_api_key(naming.new_api_key())
    for text in (
        "",
        "osb_",
        "osb_" + "0" * 63,
        "osb_" + "0" * 65,
        "osb_" + "F" * 64,
        "0" * 64,
        "osb_" + "0" * 64 + "\n",
    ):
        assert not naming.is_api_key(text)


def test_no_two_are_alike() -> None:
    for make in (naming.new_sandbox_id, naming.new_api_key, naming.new_guest_token, naming.new_machine_id):
        assert len({make() for _ in range(100)}) == 100


def test_what_is_shown_of_a_key_gives_nothing_away() -> None:
    key = naming.new_api_key()
    shown = naming.shown_prefix(key)
    assert key.startswith(shown)
    assert len(key) - len(shown) >= 56
    assert key not in naming.secret_hash(key)


def test_an_idempotency_key_names_one_process_per_sandbox() -> None:
    assert naming.process_id_for("k", HERE) == naming.process_id_for("k", HERE)
    assert naming.process_id_for("k", HERE) != naming.process_id_for("k", THERE)
    assert naming.process_id_for("k", HERE) != naming.process_id_for("l", HERE)
    assert re.fullmatch(r"[0-9a-f]{8}", naming.process_id_for("any \0 text", HERE))
