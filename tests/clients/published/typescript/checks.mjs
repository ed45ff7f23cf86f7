// Runs the checks of one area against a server and prints what became of each, one JSON object a line.
//
// The published packages are in the folder NODE_MODULES names, the server in OPENCOMPUTER_API_URL and
// OPENCOMPUTER_API_KEY, which the SDK reads by itself.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const CHECK_MILLISECONDS = 110_000;
const checks = [];

export function published(file) {
  return import(pathToFileURL(`${process.env.NODE_MODULES}/${file}`).href);
}

export const sdk = await published("@opencomputer/sdk/dist/index.js");

/** A check, and the rows of the contract's list of methods it exercises. */
export function check(name, methods, body) {
  checks.push({ name, methods, body });
}

/** The error that a promise must end with. */
export async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  assert.fail("this did not fail");
}

export async function until(condition, milliseconds = 20_000) {
  const deadline = Date.now() + milliseconds;
  while (!condition()) {
    assert.ok(Date.now() < deadline, "this did not come true in time");
    await pause(20);
  }
}

export function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Collects bytes from an output callback. */
export class Output {
  chunks = [];
  add = (data) => this.chunks.push(Buffer.from(data));
  get bytes() {
    return Buffer.concat(this.chunks);
  }
  get text() {
    return this.bytes.toString();
  }
}

/** An error with its stack, and those of what caused it: `fetch` says what went wrong only there. */
function told(error) {
  const cause = error?.cause ? `\ncaused by ${told(error.cause)}` : "";
  return String(error?.stack ?? error) + cause;
}

async function problemOf(body, sandbox) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the check took too long")), CHECK_MILLISECONDS);
  });
  try {
    await Promise.race([body(sandbox), late]);
    return "";
  } catch (error) {
    return told(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs the checks with what they all use, and ends the process. */
export async function run(shared, cleanUp = async () => {}) {
  try {
    for (const { name, methods, body } of checks) {
      const began = performance.now();
      const problem = await problemOf(body, shared);
      const seconds = Math.round(performance.now() - began) / 1000;
      console.log(JSON.stringify({ name, methods, problem, seconds }));
    }
  } finally {
    await cleanUp();
  }
  process.exit(0);
}

export async function main() {
  const sandbox = await sdk.Sandbox.create();
  await run(sandbox, () => sandbox.kill());
}
