// The log: whole, in order, however it is read.

import assert from "node:assert/strict";
import { apiKey, baseUrl, check, failure, followed, main, oc, scripted, sdk, typesOf } from "./checks.mjs";

function program(...steps) {
  return JSON.stringify(steps);
}

async function worked(behaviour, input) {
  const agent = await scripted(behaviour);
  const session = await oc.sessions.create({ agent: agent.id, input });
  return { session, events: await followed(session) };
}

check("tools are told when they are used", ["session.events", "session.event"], async () => {
  const { session, events } = await worked("program", program({ bash: "echo made > f; cat f" }, { say: "ok" }));
  const call = events.find((event) => event.type === "tool.call");
  assert.equal(call.body.tool, "bash");
  const done = events.find((event) => event.type === "exec.completed");
  assert.equal(done.body.exitCode, 0);
  assert.match(done.body.summary, /made/);
  assert.deepEqual(await session.event(done.id), done);
  assert.ok((await failure(session.event("evt_none"))) instanceof sdk.NotFoundError);
});

check("lists are filtered and paged by seq", ["session.listEvents"], async () => {
  const { session, events } = await worked("echo", "hello");
  const collected = [];
  for (let after = 0; ; ) {
    const page = await session.listEvents({ after, limit: 2 });
    collected.push(...page.data);
    if (!page.nextCursor) break;
    after = Number(page.nextCursor);
  }
  assert.deepEqual(collected, events);
  const turn = events.at(-1).turnId;
  const ofTurn = await session.listEvents({ turnId: turn, type: "turn.*" });
  assert.deepEqual(typesOf(ofTurn.data), ["turn.started", "turn.completed"]);
  const forUsers = await session.listEvents({ level: "user" });
  assert.ok(forUsers.data.every((event) => event.level === "user"));
  assert.equal((await failure(session.listEvents({ level: "all" }))).status, 400);
});

check("a stream begins anywhere and lets through what is wanted", ["session.events"], async () => {
  const { session, events } = await worked("echo", "hello");
  const late = await followed(session, 1, { after: 2, level: "progress" });
  assert.deepEqual(
    late.map((event) => event.seq),
    events.filter((event) => event.seq > 2 && event.level !== "internal").map((event) => event.seq),
  );
  for await (const event of session.events({ type: "agent.*" })) {
    assert.equal(event.type, "agent.message");
    break;
  }
});

check("a lost connection loses no event and gives none twice", ["session.events"], async () => {
  const agent = await scripted("program");
  const steps = Array.from({ length: 12 }, (_, number) => ({ narrate: `Line ${number}.` }));
  let opened = 0;
  const cutting = async (url, init) => {
    const response = await fetch(url, init);
    if (!String(url).includes("stream=sse") || ++opened > 2) return response;
    const cut = response.body.pipeThrough(
      new TransformStream({
        transform(piece, controller) {
          controller.enqueue(piece.slice(0, Math.ceil(piece.length / 2)));
          if (String(new TextDecoder().decode(piece)).includes("data:")) controller.terminate();
        },
      }),
    );
    return new Response(cut, response);
  };
  const unlucky = new sdk.OpenComputer({ apiKey, baseUrl, fetch: cutting });
  const session = await unlucky.sessions.create({ agent: agent.id, input: program(...steps) });
  const events = await followed(session);
  assert.equal(opened, 3);
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_, index) => index + 1),
  );
});

check("what is too long is elsewhere and whole", ["session.eventContent"], async () => {
  const { session, events } = await worked("output", "go");
  const done = events.find((event) => event.type === "exec.completed");
  assert.equal(done.bodyTruncated ?? true, true);
  assert.ok(done.contentRef ?? done.body.contentRef);
  const content = await session.eventContent(done.id);
  assert.ok(content.length >= 100 * 1024 - 100, `${content.length} characters`);
  assert.ok((await failure(session.eventContent(events[0].id))) instanceof sdk.NotFoundError);
});

check("messages are what was said", ["session.messages", "session.steer"], async () => {
  const { session } = await worked("echo", "hello");
  const { seq } = await session.steer("again");
  await followed(session, 1, { after: seq });
  const { data } = await session.messages({ limit: 10 });
  assert.deepEqual(
    data.map((event) => [event.type, event.body.text]),
    [
      ["user.message", "hello"],
      ["agent.message", "hello"],
      ["user.message", "again"],
      ["agent.message", "again"],
    ],
  );
  const later = await session.messages({ after: seq });
  assert.deepEqual(typesOf(later.data), ["agent.message"]);
});

check("a browser's own reader gets unnamed events with their seq", ["session.events"], async () => {
  const { session, events } = await worked("echo", "hello");
  const address = `${baseUrl}/sessions/${session.id}/events?stream=sse&token=${session.clientToken}`;
  const abort = new AbortController();
  const headers = { "Last-Event-ID": "2", Origin: "https://app.test" };
  const response = await fetch(address, { headers, signal: abort.signal });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type"), /^text\/event-stream/);
  assert.equal(response.headers.get("access-control-allow-origin"), "https://app.test");
  let text = "";
  for await (const piece of response.body) {
    text += new TextDecoder().decode(piece);
    if (text.includes("turn.completed")) break;
  }
  abort.abort();
  assert.ok(!text.includes("\r") && !/^event:/m.test(text));
  assert.deepEqual(
    [...text.matchAll(/^id: (\d+)$/gm)].map((match) => Number(match[1])),
    events.slice(2).map((event) => event.seq),
  );
});

await main();
