// The published SDK's `agent`, answered by the node's scripted model: everything but the model is real.

import assert from "node:assert/strict";
import { check, main, until } from "./checks.mjs";

class Events {
  all = [];
  errors = [];
  callbacks = { onEvent: (event) => this.all.push(event), onError: (text) => this.errors.push(text) };
  get types() {
    return this.all.map((event) => event.type);
  }
  get results() {
    return this.all.filter((event) => event.type === "result").map((event) => event.result);
  }
  turns(count) {
    return until(() => this.types.filter((type) => type === "turn_complete").length === count, 30_000);
  }
}

check("done resolves with zero when the turn is complete", ["B18"], async (sandbox) => {
  const events = new Events();
  const session = await sandbox.agent.start({
    prompt: "run `echo $((20 + 22)) > /tmp/answer; cat /tmp/answer`",
    ...events.callbacks,
  });
  assert.equal(await session.done, 0);
  assert.equal(events.types[0], "ready");
  assert.deepEqual(events.types.slice(-2), ["result", "turn_complete"]);
  assert.match(events.results[0], /42/);
  assert.deepEqual(events.errors, []);
  assert.equal(await sandbox.files.read("/tmp/answer"), "42\n");
  await session.kill();
  session.close();
});

check("follow-up prompts and configuration on one session", ["B18"], async (sandbox) => {
  const events = new Events();
  const session = await sandbox.agent.start({ prompt: "remember tangerine", ...events.callbacks });
  await events.turns(1);
  session.configure({ cwd: "/var/tmp", maxTurns: 7 });
  session.sendPrompt("run `pwd`");
  await events.turns(2);
  session.sendPrompt("what did I say?");
  await events.turns(3);
  assert.ok(events.types.includes("configured"));
  assert.match(events.results[1], /\/var\/tmp/);
  assert.match(events.results[2], /tangerine/);
  await session.kill();
  session.close();
});

check("a session takes every option, resume included", ["B18"], async (sandbox) => {
  const first = new Events();
  const before = await sandbox.agent.start({ prompt: "remember tangerine", ...first.callbacks });
  await before.done;
  await before.kill();
  const resume = first.all.at(-1).claude_session_id;
  const second = new Events();
  const session = await sandbox.agent.start({
    prompt: "what did I say?",
    model: "claude-sonnet-4-20250514",
    systemPrompt: "Answer briefly.",
    allowedTools: ["Bash"],
    permissionMode: "bypassPermissions",
    maxTurns: 5,
    resume,
    ...second.callbacks,
  });
  assert.equal(await session.done, 0);
  assert.deepEqual(second.types.slice(0, 2), ["ready", "configured"]);
  assert.match(second.results[0], /tangerine/);
  await session.kill();
});

check("interrupt stops a turn that is under way", ["B18"], async (sandbox) => {
  const events = new Events();
  const exits = [];
  const session = await sandbox.agent.start({
    prompt: "count slowly",
    onExit: (code) => exits.push(code),
    ...events.callbacks,
  });
  await until(() => events.types.includes("system"), 30_000);
  session.interrupt();
  assert.equal(await session.done, 130);
  assert.equal(events.types.at(-1), "interrupted");
  session.sendPrompt("run `echo onwards`");
  await events.turns(1);
  assert.match(events.results.at(-1), /onwards/);
  // The exit comes in a message of its own, after the last event of the turn.
  await until(() => exits.length === 2);
  assert.deepEqual(exits, [130, 0]);
  await session.kill();
});

check("attach replays what was said", ["B18"], async (sandbox) => {
  const first = new Events();
  const session = await sandbox.agent.start({ prompt: "run `echo replayed`", ...first.callbacks });
  await session.done;
  session.close();
  const second = new Events();
  const again = await sandbox.agent.attach(session.sessionId, second.callbacks);
  await until(() => second.types.length === first.types.length);
  assert.deepEqual(second.types, first.types);
  await again.kill();
  assert.equal(await again.done, 137);
});

check("list shows sessions and kill ends them", ["B19"], async (sandbox) => {
  const session = await sandbox.agent.start();
  const find = async () =>
    (await sandbox.agent.list()).find((each) => each.sessionID === session.sessionId);
  assert.deepEqual([(await find()).running, (await find()).sandboxID], [true, sandbox.sandboxId]);
  await session.kill(9);
  assert.equal(await session.done, 137);
  assert.equal((await find()).running, false);
});

await main();
