// What starts sessions by itself: schedules through the client, hooks as newer clients and any program call them.

import assert from "node:assert/strict";
import { apiKey, baseUrl, check, failure, followed, main, oc, scripted } from "./checks.mjs";

check(
  "a schedule starts a session, now and by the clock",
  [
    "schedules.create",
    "schedules.list",
    "schedules.get",
    "schedules.update",
    "schedules.fire",
    "schedules.runs",
    "schedules.delete",
  ],
  async () => {
    const { schedules } = oc.agents;
    const agent = await scripted("echo");
    const wanted = { name: "daily", cron: "0 9 * * 1-5", tz: "Europe/Berlin", input: "hello" };
    const { schedule: made } = await schedules.create(agent.id, wanted);
    assert.match(made.id, /^sch_/);
    assert.deepEqual({ ...made, ...wanted }, made);
    assert.ok(Date.parse(made.nextFireAt) > Date.now());
    assert.deepEqual([made.state, made.overlap, made.lastFiredAt], ["active", "skip", null]);
    assert.deepEqual(await schedules.list(agent.id), { schedules: [made] });
    assert.deepEqual(await schedules.get(agent.id, made.id), { schedule: made });
    const { schedule: paused } = await schedules.update(agent.id, made.id, { paused: true, tz: null });
    assert.deepEqual([paused.state, paused.tz], ["paused", null]);
    const refused = await failure(schedules.update(agent.id, made.id, { cron: "* * * * * *" }));
    assert.deepEqual([refused.status, refused.code, refused.param], [422, "invalid_cron", "cron"]);
    const { run } = await schedules.fire(agent.id, made.id);
    assert.deepEqual([run.outcome, run.scheduledFor], ["enacted", null]);
    const session = await oc.sessions.get(run.sessionId);
    assert.equal(session.metadata.schedule.run_id, run.id);
    const [said] = await followed(session);
    assert.deepEqual([said.actor.type, said.actor.kind, said.source], ["trigger", "schedule", "schedule"]);
    const { runs, nextCursor } = await schedules.runs(agent.id, made.id, { limit: 5 });
    assert.deepEqual([runs, nextCursor ?? null], [[run], null]);
    await schedules.delete(agent.id, made.id);
    assert.equal((await failure(schedules.get(agent.id, made.id))).status, 404);
  },
);

check("a hook starts sessions until it is revoked", ["hooks"], async () => {
  const agent = await scripted("echo");
  const ask = (method, path, body) =>
    fetch(`${baseUrl}/agents/${agent.id}/hooks${path}`, {
      method,
      headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
      body: body && JSON.stringify(body),
    });
  const made = await (await ask("POST", "", { name: "alerts" })).json();
  assert.ok(made.hook_url.startsWith(`${agent.invokeUrl ?? agent.invoke_url}/hooks/ochk_v1_`));
  assert.equal(made.hook.secret_last4, made.hook_url.slice(-4));
  assert.deepEqual((await (await ask("GET", "")).json()).data, [made.hook]);
  const send = () =>
    fetch(made.hook_url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "webhook-id": "msg_1" },
      body: JSON.stringify({ disk: "full" }),
    });
  const first = await (await send()).json();
  assert.equal(first.replayed, false);
  const again = await (await send()).json();
  assert.deepEqual([again.session.id, again.replayed], [first.session.id, true]);
  const [event] = await followed(await oc.sessions.get(first.session.id));
  assert.deepEqual([event.type, event.body, event.actor.id], ["http.request", { payload: { disk: "full" } }, made.hook.id]);
  assert.equal((await ask("DELETE", `/${made.hook.id}`)).status, 204);
  assert.equal((await send()).status, 404);
});

await main();
