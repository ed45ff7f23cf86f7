// The published SDK's `exec`: run, start, background, attach, list, kill, shell, reattachShell.

import assert from "node:assert/strict";
import { check, failure, main, Output, pause, sdk, until } from "./checks.mjs";

check("run answers with both streams and the exit code", ["B14"], async (sandbox) => {
  const result = await sandbox.exec.run("echo out; echo err >&2; exit 7");
  assert.deepEqual(result, { exitCode: 7, stdout: "out\n", stderr: "err\n" });
});

check("run takes env and cwd", ["B14"], async (sandbox) => {
  const result = await sandbox.commands.run('printf "%s in %s" "$COLOUR" "$PWD"', {
    env: { COLOUR: "blue" },
    cwd: "/usr/lib",
  });
  assert.equal(result.stdout, "blue in /usr/lib");
});

check("run polls for a command that takes its time", ["B14"], async (sandbox) => {
  const result = await sandbox.exec.run("echo early; sleep 2; echo late; exit 3");
  assert.deepEqual(result, { exitCode: 3, stdout: "early\nlate\n", stderr: "" });
});

check("run keeps what was said before a timeout", ["B14"], async (sandbox) => {
  const result = await sandbox.exec.run("echo before; sleep 30", { timeout: 3 });
  assert.equal(result.exitCode, 137);
  assert.equal(result.stdout, "before\n");
  assert.match(result.stderr, /timed out/);
});

check("run can be given up without ending the command", ["B14", "B15"], async (sandbox) => {
  const error = await failure(
    sandbox.exec.run("sleep 2; echo kept > /tmp/given-up", { timeoutMs: 700 }),
  );
  assert.ok(error instanceof sdk.ExecTimeoutError);
  assert.match(error.execId, /^[0-9a-f]{8,}$/);
  const wait = "until test -s /tmp/given-up; do sleep 0.05; done; cat /tmp/given-up";
  assert.equal((await sandbox.exec.run(wait)).stdout, "kept\n");
});

check("run keeps a megabyte and characters that are cut into pieces", ["B14"], async (sandbox) => {
  const result = await sandbox.exec.run(`python3 -c 'print("☕" * 300000, end="")'`);
  assert.equal(result.stdout, "☕".repeat(300_000));
});

check("start streams output and gives the exit code", ["B15"], async (sandbox) => {
  const [stdout, stderr, exits] = [new Output(), new Output(), []];
  const session = await sandbox.exec.start("sh", {
    args: ["-c", 'echo "$SHAPE in $PWD"; echo err >&2; exit 5'],
    env: { SHAPE: "round" },
    cwd: "/tmp",
    onStdout: stdout.add,
    onStderr: stderr.add,
    onExit: (code) => exits.push(code),
  });
  assert.equal(await session.done, 5);
  assert.deepEqual([stdout.text, stderr.text, exits], ["round in /tmp\n", "err\n", [5]]);
});

check("a megabyte arrives as it was sent, compressible or not", ["B15"], async (sandbox) => {
  await sandbox.exec.run("head -c 700000 /dev/urandom > /tmp/mixed; head -c 300000 /dev/zero >> /tmp/mixed");
  const stdout = new Output();
  const session = await sandbox.exec.start("cat", { args: ["/tmp/mixed"], onStdout: stdout.add });
  assert.equal(await session.done, 0);
  assert.deepEqual(stdout.bytes, Buffer.from(await sandbox.files.readBytes("/tmp/mixed")));
});

check("a burst of output arrives whole", ["B15"], async (sandbox) => {
  let size = 0;
  const session = await sandbox.exec.start("head", {
    args: ["-c", "50000000", "/dev/zero"],
    onStdout: (data) => (size += data.length),
  });
  assert.deepEqual([await session.done, size], [0, 50_000_000]);
});

check("stdin reaches the process exactly", ["B15"], async (sandbox) => {
  const stdout = new Output();
  const session = await sandbox.exec.start("head", { args: ["-c", "300005"], onStdout: stdout.add });
  const bytes = Buffer.alloc(300_000, Buffer.from([0, 1, 2, 254, 255]));
  session.sendStdin("text\n");
  session.sendStdin(bytes);
  assert.equal(await session.done, 0);
  assert.deepEqual(stdout.bytes, Buffer.concat([Buffer.from("text\n"), bytes]));
});

check("background goes on without its client", ["B15", "B16"], async (sandbox) => {
  const session = await sandbox.exec.background("sleep 1; echo finished > /tmp/background");
  session.close();
  assert.ok((await sandbox.exec.list()).some((each) => each.sessionID === session.sessionId));
  const wait = "until test -s /tmp/background; do sleep 0.05; done; cat /tmp/background";
  assert.equal((await sandbox.exec.run(wait)).stdout, "finished\n");
});

check("attach replays and marks the end of the replay, every time", ["B15"], async (sandbox) => {
  const session = await sandbox.exec.start("sh", { args: ["-c", "echo said; exit 9"] });
  await session.done;
  for (let round = 0; round < 30; round++) {
    const [stdout, marks] = [new Output(), []];
    const again = await sandbox.exec.attach(session.sessionId, {
      onStdout: stdout.add,
      onScrollbackEnd: () => marks.push(stdout.text),
    });
    assert.equal(await again.done, 9);
    assert.deepEqual([stdout.text, marks], ["said\n", ["said\n"]]);
  }
});

check("list describes sessions and kill ends them", ["B16"], async (sandbox) => {
  const session = await sandbox.exec.start("sleep", { args: ["600"] });
  const found = (await sandbox.exec.list()).find((each) => each.sessionID === session.sessionId);
  assert.deepEqual(
    [found.command, found.args, found.running, found.sandboxID, found.attachedClients],
    ["sleep", ["600"], true, sandbox.sandboxId, 1],
  );
  await session.kill();
  assert.equal(await session.done, 137);
  const ended = (await sandbox.exec.list()).find((each) => each.sessionID === session.sessionId);
  assert.deepEqual([ended.running, ended.exitCode], [false, 137]);
});

check("kill takes a signal", ["B16"], async (sandbox) => {
  const stdout = new Output();
  const session = await sandbox.exec.start("sh", {
    args: ["-c", "trap 'echo caught; exit 4' TERM; echo set; while :; do sleep 0.05; done"],
    onStdout: stdout.add,
  });
  await until(() => stdout.text === "set\n");
  await sandbox.exec.kill(session.sessionId, 15);
  assert.equal(await session.done, 4);
  assert.equal(stdout.text, "set\ncaught\n");
});

check("a shell remembers directory, variables and functions", ["B15"], async (sandbox) => {
  const shell = await sandbox.exec.shell({ cwd: "/usr/lib", env: { SHAPE: "square" } });
  await shell.run("cd ..; export COLOUR=red; greet() { echo hello $1; }");
  const result = await shell.run('pwd; echo "$COLOUR $SHAPE"; greet you; echo problem >&2; false');
  assert.deepEqual(result, {
    exitCode: 1,
    stdout: "/usr\nred square\nhello you\n",
    stderr: "problem\n",
  });
  await shell.close();
});

check("a shell takes heredocs and output without a last line break", ["B15"], async (sandbox) => {
  const shell = await sandbox.exec.shell();
  assert.equal((await shell.run("cat <<EOF\nfirst $((1 + 1))\nEOF")).stdout, "first 2\n");
  assert.equal((await shell.run("cat <<A; cat <<B\nin a\nA\nin b\nB")).stdout, "in a\nin b\n");
  assert.equal((await shell.run("printf 'no newline'")).stdout, "no newline");
  assert.equal((await shell.run("echo onwards")).stdout, "onwards\n");
  await shell.close();
});

check("a shell is busy, then closed", ["B15"], async (sandbox) => {
  const shell = await sandbox.exec.shell();
  const running = shell.run("sleep 2; echo first");
  assert.ok((await failure(shell.run("echo second"))) instanceof sdk.ShellBusyError);
  assert.equal((await running).stdout, "first\n");
  assert.ok((await failure(shell.run("exit 3"))) instanceof sdk.ShellClosedError);
  assert.ok((await failure(shell.run("echo more"))) instanceof sdk.ShellClosedError);
});

check("a shell can be reattached", ["B15"], async (sandbox) => {
  const shell = await sandbox.exec.shell();
  await shell.run("cd /var; MARK=kept; seq 1 500");
  const again = await sandbox.exec.reattachShell(shell.sessionId);
  assert.equal((await again.run('echo "$PWD $MARK"')).stdout, "/var kept\n");
  await again.close();
});

check("a session without clients ends after its time", ["B15", "B16"], async (sandbox) => {
  const session = await sandbox.exec.start("sleep", { args: ["600"], maxRunAfterDisconnect: 1 });
  session.close();
  for (let round = 0; ; round++) {
    const found = (await sandbox.exec.list()).find((each) => each.sessionID === session.sessionId);
    if (!found.running) break;
    assert.ok(round < 100, "the session goes on");
    await pause(100);
  }
});

await main();
