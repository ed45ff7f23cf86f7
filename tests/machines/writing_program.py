"""Runs inside a machine: writes for ever, as programs do that care; or checks what was written."""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
import subprocess
import sys
import threading
import time

FOLDER = "/root/written"


def git(*arguments: str) -> None:
    argv = ["git", "-C", f"{FOLDER}/repository", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def write_files(began: threading.Event) -> None:
    """Each is named by its content and appears when it is complete."""
    for number in itertools.count():
        data = os.urandom(64) * (number % 500)
        draft = f"{FOLDER}/files/draft"
        with open(draft, "wb") as file:
            file.write(data)
        os.rename(draft, f"{FOLDER}/files/{hashlib.sha256(data).hexdigest()}")
        began.set()
        time.sleep(0.01)


def write_database(began: threading.Event) -> None:
    """Two rows with a sum of nothing, always together."""
    database = sqlite3.connect(f"{FOLDER}/database", isolation_level=None)
    database.execute("CREATE TABLE t (x)")
    for number in itertools.count(1):
        database.execute("BEGIN")
        database.execute("INSERT INTO t VALUES (?)", (number,))
        database.execute("INSERT INTO t VALUES (?)", (-number,))
        database.execute("COMMIT")
        began.set()
        time.sleep(0.002)


def write_history(began: threading.Event) -> None:
    repository = f"{FOLDER}/repository"
    for number in itertools.count():
        with open(f"{repository}/file", "w", encoding="ascii") as file:
            file.write(str(number))
        git("commit", "-qam", str(number))
        began.set()


def write() -> None:
    os.makedirs(f"{FOLDER}/files")
    repository = f"{FOLDER}/repository"
    os.makedirs(repository)
    git("init", "-q")
    for name in ("name", "email"):
        git("config", f"user.{name}", "x")
    with open(f"{repository}/file", "w", encoding="ascii"):
        pass
    git("add", "file")
    beginnings = [threading.Event() for _ in range(3)]
    for work, began in zip((write_files, write_database, write_history), beginnings, strict=True):
        threading.Thread(target=work, args=(began,), daemon=True).start()
    # Whoever reads this may copy at once, and then looks for something of each.
    for began in beginnings:
        began.wait()
    print("ready", flush=True)
    sys.stdin.read()


def check() -> None:
    names = [name for name in os.listdir(f"{FOLDER}/files") if name != "draft"]
    for name in names:
        with open(f"{FOLDER}/files/{name}", "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == name, name
    database = sqlite3.connect(f"{FOLDER}/database")
    assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    rows, total = database.execute("SELECT count(*), sum(x) FROM t").fetchone()
    assert total == 0, total
    git("fsck", "--full")
    print("sound", len(names) > 0, rows > 0)


if __name__ == "__main__":
    check() if sys.argv[1:] == ["check"] else write()
