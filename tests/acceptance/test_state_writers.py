"""Forks taken while git, sqlite and a package manager write: none of them is corrupt (behaviour 15.3, 17.3).

OPENCOMPUTER_TEST_FORKS says how many are taken; a few, unless told otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from tests.support.box import Box, new_box
from tests.support.server import ServerProcess

FORKS = int(os.environ.get("OPENCOMPUTER_TEST_FORKS", "3"))
OF_ONE_SOURCE = 12
"""What is written grows, and with it what checking a copy takes: after some forks another source begins."""
AT_ONCE = 2

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

GIT = r"""
mkdir repository && cd repository && git init -q
git config user.name me; git config user.email me@example.com; git config gc.auto 60
for n in $(seq 1000000); do
    head -c $((n % 50 * 200 + 100)) /dev/urandom > file-$((n % 20))
    git add -A && git commit -qm "number $n" || exit 1
    echo begun > ../git.begun
    sleep 0.02
done
"""

SQLITE = r"""
import os, sqlite3, time
database = sqlite3.connect("data.db", isolation_level=None)
database.execute("pragma journal_mode = wal")
database.execute("create table pairs (number integer primary key, half blob, other blob)")
number = 0
while True:
    database.execute("begin")
    for _ in range(20):
        number += 1
        half = os.urandom(300)
        database.execute("insert into pairs values (?, ?, ?)", (number, half, half))
        database.execute("update pairs set half = other where number = ?", (number // 2,))
    database.execute("delete from pairs where number = ?", (number - 15000,))
    database.execute("commit")
    time.sleep(0.005)
    if number == 20:
        open("sqlite.begun", "w").close()
"""

# As npm does: unpack beside, write many small files, rename into place, then name it in a lock file that is
# itself replaced by a rename. What the lock file names is therefore complete, at every instant.
PACKAGES = r"""
const fs = require("fs"), crypto = require("crypto"), path = require("path");
fs.mkdirSync("tree/node_modules", { recursive: true });
const lock = {};
for (let n = 0; ; n++) {
  const name = `package-${n % 40}`, staging = `tree/node_modules/.${name}-${n}`;
  const target = `tree/node_modules/${name}`, sums = {};
  delete lock[name];
  save();
  fs.mkdirSync(path.join(staging, "lib"), { recursive: true });
  for (let file = 0; file < 30; file++) {
    const content = crypto.randomBytes(500 + 97 * file), at = `lib/${file}.js`;
    fs.writeFileSync(path.join(staging, at), content);
    sums[at] = crypto.createHash("sha256").update(content).digest("hex");
  }
  fs.rmSync(target, { recursive: true, force: true });
  fs.renameSync(staging, target);
  lock[name] = sums;
  save();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  if (n === 5) fs.writeFileSync("packages.begun", "");
}
function save() {
  fs.writeFileSync("tree/lock.json.new", JSON.stringify(lock));
  fs.renameSync("tree/lock.json.new", "tree/lock.json");
}
"""

CHECK = r"""
import hashlib, json, os, sqlite3, subprocess
def run(*command):
    done = subprocess.run(command, cwd="repository", capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout
# The writers go on in a copy: they are stopped first, as they would be by an operator.
subprocess.run(["pkill", "-STOP", "-f", "writer-"]); subprocess.run(["pkill", "-KILL", "-f", "writer-"])
subprocess.run(["pkill", "-KILL", "-x", "git"])
for name in ("index.lock", "HEAD.lock", "refs/heads/master.lock"):
    if os.path.exists(f"repository/.git/{name}"):
        os.remove(f"repository/.git/{name}")
complaints = run("git", "fsck", "--strict", "--full")
assert "missing" not in complaints and "corrupt" not in complaints, complaints
log = run("git", "log", "--format=%s").split("\n")[:-1]
assert log == [f"number {n}" for n in range(len(log), 0, -1)], log[:3]
run("git", "checkout", "-qf", "HEAD")

database = sqlite3.connect("data.db")
assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
rows, halves = database.execute("select count(*), sum(half = other) from pairs").fetchone()
assert rows == halves > 0, (rows, halves)

lock = json.load(open("tree/lock.json"))
for name, sums in lock.items():
    for at, digest in sums.items():
        content = open(f"tree/node_modules/{name}/{at}", "rb").read()
        assert hashlib.sha256(content).hexdigest() == digest, (name, at)
print(len(log), rows, len(lock))
"""


@pytest.fixture
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server, memoryMB=4096) as made:
        yield made


def begin_to_write(box: Box) -> None:
    for name, text in {
        "git.sh": GIT,
        "sqlite.py": SQLITE,
        "packages.js": PACKAGES,
        "check.py": CHECK,
    }.items():
        prefix = "" if name == "check.py" else "writer-"
        assert box.write(f"/home/sandbox/{prefix}{name}", text.encode()).status_code == 204
    for command in ("bash writer-git.sh", "python3 writer-sqlite.py", "node writer-packages.js"):
        box.start(f"exec {command} > ~/said-{command.split()[0]} 2>&1")
    box.output("until ls git.begun sqlite.begun packages.begun; do sleep 0.1; done", timeout=100)


@pytest.mark.parametrize("source", range(-(-FORKS // OF_ONE_SOURCE)))
def test_no_fork_is_corrupt(box: Box, source: int) -> None:
    """Live forks, and forks of full and of disk-only checkpoints; memory or not, files are of one instant."""
    wanted = min(OF_ONE_SOURCE, FORKS - source * OF_ONE_SOURCE)
    begin_to_write(box)
    seen: list[tuple[int, ...]] = []
    while len(seen) < wanted:
        with ExitStack() as stack:
            for fork in some_forks(box, len(seen) // AT_ONCE, min(AT_ONCE, wanted - len(seen))):
                stack.callback(fork.kill)
                result = fork.run("python3 check.py", timeout=100)
                assert result["exitCode"] == 0, (len(seen), result)
                seen.append(tuple(map(int, result["stdout"].split())))
    assert seen[-1] > seen[0]  # they wrote all the time
    assert box.output("cat said-*") == ""
    print(f"{len(seen)} forks, none corrupt; commits, rows and packages from {seen[0]} to {seen[-1]}")


def some_forks(box: Box, number: int, count: int) -> list[Box]:
    how = ("live", "full", "disk_only")[number % 3]
    if how == "live":
        return box.forks(count)
    checkpoint = box.checkpoint(f"number {number}", kind=how)
    forks = [box.from_checkpoint(checkpoint) for _ in range(count)]
    assert box.client.delete(f"{box.path}/checkpoints/{checkpoint}").status_code == 204
    return forks
