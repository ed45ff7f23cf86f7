"""What sudo starts, with which environment."""

from __future__ import annotations

from opencomputer.inside.guest import elevation_messages
from opencomputer.inside.sudo import messages
from opencomputer.inside.sudo.arguments import parse
from opencomputer.inside.sudo.environment import SECURE_PATH, Account, Plan, find_account, plan

CALLER = Account("sandbox", 1000, 1000, "/home/sandbox", "/bin/bash")
ROOT = Account("root", 0, 0, "/root", "/bin/zsh")
CALLERS = {
    "HOME": "/home/sandbox",
    "PATH": "/evil",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TERM": "xterm",
    "TOKEN": "secret",
    "SHELL": "/bin/fish",
    "OC_SESSION_ID": "12345678",
}


def planned(*words: str) -> Plan:
    return plan(parse(list(words)), CALLER, ROOT, CALLERS, {"SSL_CERT_FILE": "/certs", "PATH": "/image"})


def test_the_environment_is_reset() -> None:
    environment = planned("cmd", "arg").environment
    assert "TOKEN" not in environment
    assert environment == {
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TERM": "xterm",
        "SHELL": "/bin/zsh",
        "SSL_CERT_FILE": "/certs",
        "HOME": "/root",
        "USER": "root",
        "LOGNAME": "root",
        "MAIL": "/var/mail/root",
        "PATH": SECURE_PATH,
        "SUDO_COMMAND": "cmd arg",
        "SUDO_USER": "sandbox",
        "SUDO_UID": "1000",
        "SUDO_GID": "1000",
        "OC_SESSION_ID": "12345678",
    }


def test_it_can_be_kept() -> None:
    environment = planned("-E", "cmd").environment
    assert environment["TOKEN"] == "secret"
    assert environment["HOME"] == "/home/sandbox"
    assert environment["PATH"] == SECURE_PATH
    assert planned("-EH", "cmd").environment["HOME"] == "/root"
    assert planned("--preserve-env=TOKEN", "cmd").environment["TOKEN"] == "secret"


def test_assignments_win() -> None:
    assert planned("-E", "TOKEN=other", "PATH=/own", "cmd").environment["TOKEN"] == "other"
    assert planned("PATH=/own", "cmd").environment["PATH"] == "/own"


def test_a_login_shell_begins_at_home() -> None:
    login = planned("-i")
    assert (login.executable, login.argv, login.cwd) == ("/bin/zsh", ["-zsh"], "/root")
    command = planned("-i", "echo", "a b")
    assert command.argv == ["-zsh", "-c", "echo a\\ b"]


def test_a_shell_is_the_callers_own() -> None:
    shell = planned("-s")
    assert (shell.executable, shell.argv, shell.cwd) == ("/bin/fish", ["fish"], "")
    assert shell.environment["SHELL"] == "/bin/fish"


def test_accounts_are_found_by_name_and_by_number() -> None:
    passwd = "root:x:0:0:root:/root:/bin/bash\nweb:x:33:34::/srv:\nbroken\n"
    web = find_account(passwd, "web")
    by_number = find_account(passwd, "#33")
    assert web is not None
    assert by_number is not None
    assert (web.uid, web.gid, web.shell) == (33, 34, "/bin/sh")
    assert by_number.name == "web"
    unnamed = find_account(passwd, "#77")
    assert unnamed is not None
    assert unnamed.uid == 77
    assert find_account(passwd, "nobody-here") is None
    assert find_account("", "root") is not None


def test_both_ends_speak_the_same_words() -> None:
    encoded = messages.Request(0, 5, 3, "/x").encode("/bin/a", ["a", "b\udcff"], {"K": "v=w"})
    (length,) = elevation_messages.LENGTH.unpack_from(encoded)
    assert len(encoded) == elevation_messages.LENGTH.size + length
    decoded = elevation_messages.decode_request(encoded[elevation_messages.LENGTH.size :])
    assert (decoded.uid, decoded.gid, decoded.terminals, decoded.cwd) == (0, 5, 3, "/x")
    assert (decoded.executable, decoded.argv, decoded.environment) == (
        "/bin/a",
        ["a", "b\udcff"],
        {"K": "v=w"},
    )
    names = ("SOCKET", "READY", "SIGNAL", "STARTED", "REFUSED", "EXITED", "KILLED", "STOPPED")
    assert [getattr(messages, name) for name in names] == [
        getattr(elevation_messages, name) for name in names
    ]
    assert messages.WORD.format == elevation_messages.WORD.format
