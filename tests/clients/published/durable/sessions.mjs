// Sessions: made once, worked on, read by whoever may.

import assert from "node:assert/strict";
import { baseUrl, check, failure, followed, main, oc, scripted, sdk, typesOf, unused } from "./checks.mjs";

function key() {
  return unused("key").replaceAll(" ", "-");
}

function program(...steps) {
  return JSON.stringify(steps);
}

check("a session works by itself", ["sessions.create", "session.result", "session.refresh"], async () => {
  const agent = await scripted("echo");
  const metadata = { orderId: 7, nested_key: { aB: [1] } };
  const session = await oc.sessions.create({ agent: agent.id, input: "hello", metadata });
  assert.match(session.id, /^ses_/);
  assert.equal(session.status, "queued");
  assert.match(session.clientToken, /^eyJ/);
  assert.deepEqual(session.metadata, metadata);
  assert.deepEqual(session.sources, []);
  const events = await followed(session);
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_, index) => index + 1),
  );
  assert.equal(events[0].type, "user.message");
  assert.equal(events[0].body.text, "hello");
  assert.equal(events.at(-1).body.yieldReason, "completed");
  const { lastTurn, result } = await session.result();
  assert.equal(lastTurn.state, "ok");
  assert.equal(result.body.text, "hello");
  assert.equal((await session.refresh()).status, "idle");
  assert.equal(session.lastTurn.yieldReason, "completed");
});

check("turns are told with what they took", ["session.turns", "session.turn"], async () => {
  const agent = await scripted("echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "hello" });
  await followed(session);
  const { data } = await session.turns({ limit: 10 });
  assert.equal(data.length, 1);
  const turn = await session.turn(data[0].id);
  assert.deepEqual([turn.state, turn.yieldReason], ["ok", "completed"]);
  assert.equal(turn.usage.reported, true);
  assert.equal(typeof turn.usage.tokens, "number");
  assert.ok((await session.refresh()).snapshot.usage.reportedTurns >= 1);
  assert.ok((await failure(session.turn("trn_none"))) instanceof sdk.NotFoundError);
});

check("a key names one session for ever", ["sessions.create", "sessions.list", "sessions.get"], async () => {
  const agent = await scripted("echo");
  const wanted = { agent: agent.id, input: "hello", key: key() };
  const first = await oc.sessions.create(wanted);
  assert.equal((await oc.sessions.create(wanted)).id, first.id);
  const other = await failure(oc.sessions.create({ ...wanted, input: "goodbye" }));
  assert.ok(other instanceof sdk.ConflictError);
  assert.equal(other.code, "idempotency_conflict");
  const found = await oc.sessions.list({ key: wanted.key });
  assert.deepEqual(
    found.data.map((each) => each.id),
    [first.id],
  );
  assert.equal((await oc.sessions.get(first.id)).snapshot.key, wanted.key);
  await followed(first);
});

check("a repeated request makes one session", ["sessions.create"], async () => {
  const agent = await scripted("echo");
  const wanted = { agent: agent.id, input: "hello", idempotencyKey: key() };
  const made = await Promise.all([1, 2, 3].map(() => oc.sessions.create(wanted)));
  assert.equal(new Set(made.map((session) => session.id)).size, 1);
  await followed(made[0]);
});

check("lists are filtered and paged", ["sessions.list"], async () => {
  const agent = await scripted("echo");
  const made = [];
  for (const input of ["a", "b", "c"]) made.push(await oc.sessions.create({ agent: agent.id, input }));
  const first = await oc.sessions.list({ agent: agent.id, limit: 2 });
  assert.deepEqual(
    first.data.map((each) => each.id),
    [made[2].id, made[1].id],
  );
  const next = await oc.sessions.list({ agent: agent.id, limit: 2, cursor: first.nextCursor });
  assert.deepEqual(
    next.data.map((each) => each.id),
    [made[0].id],
  );
  assert.equal(next.nextCursor, null);
  for (const session of made) await followed(session);
  assert.equal((await oc.sessions.list({ agent: agent.id, status: "idle" })).data.length, 3);
});

check("what cannot be is refused with its name", ["sessions.create", "sessions.get"], async () => {
  assert.ok((await failure(oc.sessions.get("ses_none"))) instanceof sdk.NotFoundError);
  const agent = await scripted("echo");
  const empty = await failure(oc.sessions.create({ agent: agent.id, input: "" }));
  assert.deepEqual([empty.status, empty.param], [400, "input"]);
  const nobody = await failure(oc.sessions.create({ agent: `agt_${"0".repeat(24)}`, input: "x" }));
  assert.equal(nobody.status, 404);
  const other = await failure(oc.sessions.create({ agent: agent.id, input: "x", model: "openai/gpt-5" }));
  assert.equal(other.code, "model_runtime_mismatch");
});

check("a question waits for its answer", ["session.steer", "session.events"], async () => {
  const agent = await scripted("ask-then-echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "begin" });
  const asked = await followed(session);
  assert.equal(asked.at(-1).body.yieldReason, "needs_input");
  assert.ok(asked.some((event) => event.type === "agent.message" && event.body.awaitingInput === true));
  assert.equal((await session.refresh()).status, "awaiting_input");
  const said = await session.steer("blue", { idempotencyKey: "answer-1" });
  assert.equal(said.seq, asked.at(-1).seq + 1);
  assert.deepEqual(await session.steer("blue", { idempotencyKey: "answer-1" }), said);
  await followed(session, 1, { after: said.seq });
  assert.equal((await session.result()).result.body.text, "blue");
});

check("a turn can be canceled and the session goes on", ["session.cancel"], async () => {
  const agent = await scripted("program");
  const input = program({ narrate: "I begin." }, { hang: true });
  const session = await oc.sessions.create({ agent: agent.id, input });
  for await (const event of session.events()) if (event.type === "agent.message") break;
  assert.equal(await failureOrNothing(session.cancel()), undefined);
  const events = await followed(session);
  assert.equal(events.at(-1).body.yieldReason, "canceled");
  await session.steer(program({ say: "Here I am." }));
  await followed(session, 1, { after: events.at(-1).seq });
  assert.equal((await session.result()).result.body.text, "Here I am.");
});

check("an archived session is read and not written", ["session.archive"], async () => {
  const agent = await scripted("echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "hello" });
  await followed(session);
  await session.archive();
  await session.archive();
  assert.equal((await session.refresh()).status, "archived");
  const refused = await failure(session.steer("more"));
  assert.equal(refused.code, "session_archived");
  assert.ok((await session.listEvents()).data.length > 3);
});

check("a client token reads and steers one session", ["session.mintClientToken", "connectSession"], async () => {
  const agent = await scripted("echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "hello" });
  const reader = await sdk.connectSession({
    sessionId: session.id,
    clientToken: await session.mintClientToken({ scopes: ["read"], ttlSeconds: 60 }),
    baseUrl,
  });
  assert.equal(typesOf(await followed(reader)).at(-1), "turn.completed");
  const forbidden = await failure(reader.steer("more"));
  assert.deepEqual([forbidden.status, forbidden instanceof sdk.AuthError], [403, true]);
  const both = await sdk.connectSession({ sessionId: session.id, clientToken: session.clientToken, baseUrl });
  assert.equal(typeof (await both.steer("more")).seq, "number");
  await followed(both, 2);
  const other = await oc.sessions.create({ agent: agent.id, input: "hello" });
  const foreign = { sessionId: other.id, clientToken: session.clientToken, baseUrl };
  assert.equal((await failure((await sdk.connectSession(foreign)).listEvents())).status, 403);
  await followed(other);
});

async function failureOrNothing(promise) {
  await promise;
}

await main();
