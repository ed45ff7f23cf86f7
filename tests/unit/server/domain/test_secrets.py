"""What a sandbox gets of secret stores, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.secrets import (
    MAX_VALUE_BYTES,
    Ciphertext,
    Layer,
    Seal,
    Sealing,
    chained,
    check_secret_name,
    check_store_name,
    check_value,
    seal,
    united,
)
from opencomputer.wire.ids import OrgId
from tests.support import rows

ORG = OrgId("org-1")


def layer(name: str, *names: str) -> Layer:
    store = rows.secret_store(ORG, name=name)
    return Layer(store, [rows.secret(store.id, name=each) for each in names])


def stands_for(sealing: Sealing, layers: Sequence[Layer], name: str) -> str:
    """The store whose secret a sandbox's own token of this name stands for."""
    (secret_id,) = (each.secret_id for each in sealing.seals if each.name == name and not each.inherited)
    return next(each.store.name for each in layers for secret in each.secrets if secret.id == secret_id)


def test_the_strongest_layer_wins_each_name() -> None:
    layers = [layer("weak", "A", "B"), layer("middle", "B", "C"), layer("strong", "C")]
    sealing = seal(layers, (), ())
    assert {name: stands_for(sealing, layers, name) for name in "ABC"} == {
        "A": "weak",
        "B": "middle",
        "C": "strong",
    }
    assert sealing.store_ids == tuple(each.store.id for each in layers)
    assert sealing.warnings == ()


def test_tokens_are_43_characters_and_never_the_same() -> None:
    layers = [layer("store", "A", "B")]
    tokens = [each.token for _ in range(3) for each in seal(layers, (), ()).seals]
    assert len(set(tokens)) == 6
    for token in tokens:
        assert len(token) == 43
        assert token.startswith("osb_sealed_")
        int(token.removeprefix("osb_sealed_"), 16)


def test_a_plain_variable_wins_and_is_warned_of() -> None:
    sealing = seal([layer("store", "A", "B")], {"A", "OTHER"}, ())
    assert [each.name for each in sealing.seals] == ["B"]
    assert sealing.warnings == ("secret 'A' is not used: envs has a variable of this name",)


def test_copied_tokens_stand_for_what_has_their_name_now() -> None:
    layers = [layer("store", "A")]
    copied = [
        Seal("osb_sealed_1", "A", naming.new_secret_id()),
        Seal("osb_sealed_2", "A", None, inherited=True),
        Seal("osb_sealed_3", "GONE", naming.new_secret_id()),
    ]
    sealing = seal(layers, (), copied)
    own, *inherited = sealing.seals
    assert (own.name, own.inherited) == ("A", False)
    assert own.token not in {each.token for each in copied}
    assert inherited == [
        Seal("osb_sealed_1", "A", own.secret_id, inherited=True),
        Seal("osb_sealed_2", "A", own.secret_id, inherited=True),
        Seal("osb_sealed_3", "GONE", None, inherited=True),
    ]


def test_a_copied_token_works_also_where_a_plain_variable_wins() -> None:
    """Programs that were copied have it in their memory already."""
    sealing = seal([layer("store", "A")], {"A"}, [Seal("osb_sealed_1", "A", None)])
    assert [(each.token, each.secret_id is not None) for each in sealing.seals] == [("osb_sealed_1", True)]


def test_a_secret_takes_the_place_of_an_images_variable() -> None:
    sealing = seal([layer("store", "A")], (), [Seal("osb_sealed_1", "B", None)])
    assert sealing.unhidden({"A": "of the image", "B": "kept"}) == {"B": "kept"}


@pytest.mark.parametrize(
    ("inherited", "named", "expected"),
    [
        ((), None, ()),
        ((), "a", ("a",)),
        (("a", "b"), None, ("a", "b")),
        (("a", "b", "c"), "d", ("a", "b", "c", "d")),
        (("a", "b"), "a", ("b", "a")),
        (("a", "b"), "b", ("a", "b")),
    ],
)
def test_the_store_that_is_named_comes_last(
    inherited: tuple[str, ...], named: str | None, expected: tuple[str, ...]
) -> None:
    assert chained(inherited, named) == expected


def test_lists_are_united_in_their_order() -> None:
    assert united([("a", "b"), (), ("b", "c")]) == ("a", "b", "c")
    assert united([(), ()]) == ()


@pytest.mark.parametrize("name", ["A", "_", "openai_key", "K9", "a" * 128])
def test_names_of_variables_are_names_of_secrets(name: str) -> None:
    check_secret_name(name)


@pytest.mark.parametrize("name", ["", "9A", "A-B", "A B", "A=B", "Ä", "A\n", "a" * 129, "A.B"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_secret_name(name)
    assert caught.value.details == {"field": "name"}


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0", "a" * 129])
def test_stores_have_printable_names(name: str) -> None:
    check_store_name("Prod keys (EU), ä")
    with pytest.raises(InvalidInput):
        check_store_name(name)


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800 lone", "x" * (MAX_VALUE_BYTES + 1), "ä" * 32769])
def test_a_bad_value_is_refused_without_being_told(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_value(value)
    error = caught.value
    assert error.details == {"field": "value"}
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert value == "" or value not in error.message


@pytest.mark.parametrize("value", ["x", "two\nlines\n", "x" * MAX_VALUE_BYTES, "ä" * 32768])
def test_values_are_any_text_up_to_64_kib(value: str) -> None:
    check_value(value)


def test_what_is_printed_has_no_ciphertext() -> None:
    secret = rows.secret(rows.secret_store(ORG).id, ciphertext=Ciphertext(1, b"canary"))
    assert "canary" not in repr(secret)
