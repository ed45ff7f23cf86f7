// What the checks of durable sessions share. The published client reads no environment for them.

import { createServer } from "node:http";
import { published, run, sdk } from "../typescript/checks.mjs";

export { check, failure, pause, until } from "../typescript/checks.mjs";
export { published, sdk };

export const root = process.env.OPENCOMPUTER_API_URL;
export const baseUrl = `${root}/v3`;
export const apiKey = process.env.OPENCOMPUTER_API_KEY;
export const oc = new sdk.OpenComputer({ apiKey, baseUrl });

let made = 0;

/** A name that no other check uses. */
export function unused(word) {
  made += 1;
  return `${word} ${process.pid} ${made}`;
}

/** An agent that does what its model's name says: echo, program, ask-then-echo, … */
export function scripted(behaviour, more = {}) {
  const model = `scripted/${behaviour}`;
  return oc.agents.create({ name: unused(behaviour), prompt: "Do it.", model, runtime: "scripted", ...more });
}

/** The events of a session up to and including the end of its `turns`-th turn, as its stream gives them. */
export async function followed(session, turns = 1, options = {}) {
  const seen = [];
  for await (const event of session.events(options)) {
    seen.push(event);
    if (event.type === "turn.completed" && --turns === 0) return seen;
  }
  throw new Error("the stream ended");
}

export function typesOf(events) {
  return events.map((event) => event.type);
}

/** Requests to a server of the check's own; `answer` may be changed to what it says. */
export async function receiver() {
  const requests = [];
  const server = createServer((request, response) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
      requests.push({ headers: request.headers, body: Buffer.concat(pieces).toString() });
      response.writeHead(receiving.answer).end();
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const receiving = {
    requests,
    answer: 200,
    url: `http://127.0.0.1:${server.address().port}/hook`,
    close: () => server.close(),
  };
  return receiving;
}

export function main() {
  return run(undefined);
}
