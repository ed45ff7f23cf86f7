"""The user of sandboxes among an image's own users."""

from __future__ import annotations

from opencomputer.server.templates.images.accounts import home_of, with_group, with_shadow, with_user

ROOT = "root:x:0:0:root:/root:/bin/bash\n"
OURS = "sandbox:x:1000:1000::/home/sandbox:/bin/sh\n"


def test_the_user_comes_last_where_its_number_is_free() -> None:
    """And nothing else changes."""
    assert with_user(ROOT, "/bin/sh") == ROOT + OURS


def test_an_image_without_users_gets_root_as_well() -> None:
    """Everybody expects to find it."""
    assert with_user("", "/bin/sh") == "root:x:0:0:root:/root:/bin/sh\n" + OURS
    assert with_group("") == "root:x:0:\nsandbox:x:1000:\n"


def test_the_number_1000_means_the_user_of_sandboxes() -> None:
    """An image's own user of that number keeps its line; the first one names the number."""
    node = "node:x:1000:1000::/home/node:/bin/bash\n"
    assert with_user(ROOT + node, "/bin/sh") == ROOT + OURS + node
    assert with_group("root:x:0:\nnode:x:1000:\n") == "root:x:0:\nsandbox:x:1000:\nnode:x:1000:\n"


def test_another_user_of_the_same_name_goes() -> None:
    """Programs would otherwise find that one."""
    assert with_user(ROOT + "sandbox:x:7:7::/:/bin/false\n", "/bin/sh") == ROOT + OURS


def test_a_user_that_is_right_already_stays() -> None:
    """With its own home and shell; a second import changes nothing."""
    own = ROOT + "sandbox:x:1000:1000:Me:/srv/me:/bin/zsh\n"
    assert with_user(own, "/bin/sh") == own
    assert home_of(own) == "/srv/me"
    assert with_group(with_group("")) == with_group("")


def test_lines_that_make_no_sense_do_no_harm() -> None:
    """A home that is no path is replaced, too."""
    odd = "\n:::\nsandbox\nsandbox:x:1000:1000::relative:/bin/sh\nx:y\n"
    assert home_of(with_user(odd, "/bin/sh")) == "/home/sandbox"


def test_an_account_has_no_password_and_does_not_expire() -> None:
    """Once, however often it is asked for."""
    shadow = with_shadow("root:*:1:0:99999:7:::\n")
    assert shadow.splitlines()[-1] == "sandbox:*:19000:0:99999:7:::"
    assert with_shadow(shadow) == shadow
