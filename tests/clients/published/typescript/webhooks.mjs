// The published SDK's `Webhooks`, and what a real sandbox has to tell.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { check, failure, main, sdk, until } from "./checks.mjs";

const { Sandbox, Webhooks, verifyWebhook } = sdk;
const webhooks = new Webhooks();

async function receiver() {
  const requests = [];
  const server = createServer((request, response) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
      requests.push({ headers: request.headers, body: Buffer.concat(pieces).toString() });
      response.writeHead(204).end();
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { requests, url: `http://127.0.0.1:${server.address().port}/hook`, close: () => server.close() };
}

check("what happens to a sandbox arrives signed", ["B26", "B27", "B28"], async () => {
  const receiving = await receiver();
  const sandbox = await Sandbox.create({ webhooks: [{ url: receiving.url }] });
  const [{ id, secret }] = sandbox.webhooks;
  await sandbox.hibernate();
  await sandbox.wake();
  await sandbox.kill();
  await until(() => receiving.requests.length >= 5);
  const told = [];
  for (const { headers, body } of receiving.requests) {
    const delivery = await verifyWebhook(body, headers, secret);
    assert.equal(delivery.sandboxId, sandbox.sandboxId);
    assert.equal(delivery.dedupeId, headers["svix-id"]);
    told.push(delivery.event.type);
  }
  const wanted = ["created", "ready", "hibernated", "resumed", "stopped"];
  assert.deepEqual(told, wanted.map((name) => `sandbox.${name}`));
  const sent = await webhooks.deliveries.list(id);
  assert.deepEqual(sent.map((each) => each.responseStatusCode), [204, 204, 204, 204, 204]);
  const newest = await webhooks.deliveries.get(id, sent[0].id);
  assert.equal(newest.payload.event.data.reason, "user_requested");
  await webhooks.deliveries.redeliver(id, sent[0].id);
  await until(() => receiving.requests.length === 6);
  assert.equal(receiving.requests[5].headers["svix-id"], sent[0].id);
  await webhooks.delete(id);
  receiving.close();
});

check("destinations are kept, changed, tried and removed", ["B26"], async () => {
  const receiving = await receiver();
  const asked = { url: receiving.url, name: "mine", eventTypes: ["sandbox.checkpoint.*"], idempotencyKey: "one" };
  const made = await webhooks.create(asked);
  assert.match(made.id, /^whk_[0-9a-f]{24}$/);
  assert.equal((await webhooks.create(asked)).id, made.id);
  assert.equal(await webhooks.getSecret(made.id), made.secret);
  const rotated = await webhooks.update(made.id, { eventTypes: null, rotateSecret: true });
  assert.deepEqual([rotated.eventTypes, rotated.name], [[], "mine"]);
  const tested = await webhooks.test(made.id);
  const isTest = (request) => request.headers["svix-id"] === tested.messageId; // others tell of other sandboxes
  await until(() => receiving.requests.some(isTest));
  const { headers, body } = receiving.requests.find(isTest);
  for (const secret of [made.secret, rotated.secret]) {
    assert.equal((await verifyWebhook(body, headers, secret)).deliveryId, tested.messageId);
  }
  assert.ok((await webhooks.list()).some((each) => each.id === made.id && each.hasSecret));
  await webhooks.delete(made.id);
  assert.match((await failure(webhooks.get(made.id))).message, /404/);
  assert.match((await failure(webhooks.create({ url: "ftp://x" }))).message, /400/);
  receiving.close();
});

await main();
