// Webhooks: registered on a session, signed, and believed only when they are.

import assert from "node:assert/strict";
import { check, failure, followed, main, oc, receiver, scripted, sdk, until } from "./checks.mjs";

const SECRET = `whsec_${Buffer.from("a secret of twenty-four b").toString("base64")}`;

check("a session tells its webhook what it does", ["sessions.create", "deliveries.list"], async () => {
  const receiving = await receiver();
  const agent = await scripted("echo");
  const metadata = { order_id: 7, camelCase: true };
  const session = await oc.sessions.create({
    agent: agent.id,
    input: "hello",
    metadata,
    webhook: receiving.url,
    destinations: [{ url: `${receiving.url}2`, types: ["turn.*"], level: "internal", includeRaw: true }],
  });
  const events = await followed(session);
  const wanted = events.filter((event) => event.level === "user").length;
  const turns = events.filter((event) => event.type.startsWith("turn.")).length;
  await until(() => receiving.requests.length === wanted + turns);
  const first = receiving.requests.find(({ body }) => JSON.parse(body).type === "turn.completed");
  assert.equal(first.headers["webhook-signature"], undefined);
  const sent = JSON.parse(first.body);
  assert.equal(sent.sessionId, session.id);
  assert.equal(sent.eventId, first.headers["webhook-id"]);
  assert.equal(first.headers["x-oc-session-id"], session.id);
  assert.deepEqual(sent.metadata, metadata);
  assert.equal(sent.event.turn_id, events.at(-1).turnId);
  const deliveries = await session.deliveries.list({ status: "delivered" });
  assert.ok(deliveries.every((each) => each.attempts === 1 && each.responseCode === 200));
  receiving.close();
});

check(
  "destinations are kept, changed and removed",
  ["destinations.create", "destinations.list", "destinations.get", "destinations.update", "destinations.delete"],
  async () => {
    const agent = await scripted("echo");
    const session = await oc.sessions.create({ agent: agent.id, input: "hello" });
    await followed(session);
    const url = "https://example.com/hook";
    const made = await session.destinations.create({ url, secret: SECRET, types: ["turn.*"], enabled: false });
    assert.match(made.id, /^dst_/);
    assert.deepEqual([made.level, made.hasSecret, made.includeRaw], ["user", true, false]);
    assert.ok(made.createdAfterSeq > 0);
    assert.ok(!JSON.stringify(made).includes(SECRET));
    const changed = await session.destinations.update(made.id, { types: null, level: "progress" });
    assert.deepEqual([changed.types, changed.level], [null, "progress"]);
    assert.deepEqual(await session.destinations.get(made.id), changed);
    assert.deepEqual(await session.destinations.list(), [changed]);
    await session.destinations.delete(made.id);
    assert.deepEqual(await session.destinations.list(), []);
    const foreign = await failure(session.destinations.create({ url: "ftp://example.com" }));
    assert.equal(foreign.code, "destination_url_forbidden");
  },
);

check("signatures are verified by the published client", ["verifyWebhook", "deliveries.get"], async () => {
  const receiving = await receiver();
  const agent = await scripted("echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "hello", metadata: { snake_case: 1 } });
  await followed(session);
  const types = ["turn.completed"];
  const destination = await session.destinations.create({ url: receiving.url, secret: SECRET, types });
  await session.steer("again");
  await until(() => receiving.requests.length === 1);
  const [{ body, headers }] = receiving.requests;
  const delivery = await sdk.verifyWebhook(body, headers, SECRET);
  assert.equal(delivery.type, "turn.completed");
  assert.equal(delivery.sessionId, session.id);
  assert.equal(delivery.event.body.yieldReason, "completed");
  assert.deepEqual(delivery.metadata, { snake_case: 1 });
  assert.equal(delivery.dedupeId, delivery.eventId);
  await until(() => true);
  const row = await session.deliveries.get(delivery.deliveryId);
  assert.equal(row.eventId, delivery.eventId);
  assert.equal(row.destination, destination.id);
  for (const [given, secret] of [[body + " ", SECRET], [body, "another"]]) {
    const error = await failure(sdk.verifyWebhook(given, headers, secret));
    assert.ok(error instanceof sdk.WebhookVerificationError);
  }
  const later = Math.floor(Date.now() / 1000) + 1000;
  await failure(sdk.verifyWebhook(body, headers, SECRET, { nowSeconds: later }));
  receiving.close();
});

check("what failed is sent once more when asked", ["deliveries.redeliver", "deliveries.list"], async () => {
  const receiving = await receiver();
  receiving.answer = 410;
  const agent = await scripted("echo");
  const session = await oc.sessions.create({ agent: agent.id, input: "hello" });
  await followed(session);
  await session.destinations.create({ url: receiving.url, secret: "plain secret", types: ["turn.completed"] });
  await session.steer("again");
  let dead = [];
  for (let left = 600; dead.length === 0 && left; left -= 1) {
    dead = await session.deliveries.list({ status: "dead_letter" });
    if (dead.length === 0) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.deepEqual([dead.length, dead[0].responseCode, dead[0].attempts], [1, 410, 1]);
  receiving.answer = 204;
  await session.deliveries.redeliver(dead[0].id);
  await until(() => receiving.requests.length === 2);
  const ids = receiving.requests.map(({ headers }) => headers["webhook-id"]);
  assert.equal(ids[0], ids[1]);
  for (const { body, headers } of receiving.requests) await sdk.verifyWebhook(body, headers, "plain secret");
  receiving.close();
});

await main();
