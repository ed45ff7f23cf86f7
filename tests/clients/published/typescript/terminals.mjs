// The published SDK's `pty`.

import assert from "node:assert/strict";
import { check, main, Output, until } from "./checks.mjs";

async function open(sandbox, options) {
  const output = new Output();
  const terminal = await sandbox.pty.create({ ...options, onOutput: output.add });
  // The SDK does not say when its socket is open; the prompt does.
  await until(() => output.text.includes("$ "));
  return [terminal, output];
}

check("a terminal has the size it was asked for", ["B17"], async (sandbox) => {
  const [terminal, output] = await open(sandbox, { cols: 132, rows: 43 });
  terminal.send("stty size\n");
  await until(() => output.text.includes("43 132"));
  terminal.close();
});

check("a terminal takes text and bytes and shows every character", ["B17"], async (sandbox) => {
  const [terminal, output] = await open(sandbox, {});
  terminal.send(new TextEncoder().encode("printf '\\342\\224\\200|%s\\n' $TERM\n"));
  await until(() => output.text.includes("─|xterm-256color"));
  terminal.close();
});

check("control-c interrupts the foreground job", ["B17"], async (sandbox) => {
  const [terminal, output] = await open(sandbox, {});
  terminal.send("echo begun; cat\n");
  await until(() => output.text.includes("begun\r\n"));
  // The program's own answer, beside the echo: a shell that is still starting one may miss the interrupt.
  terminal.send("ping\n");
  await until(() => output.text.includes("ping\r\nping\r\n"));
  const answered = output.text.length;
  terminal.send("\x03");
  await until(() => output.text.slice(answered).includes("$ "));
  terminal.send("echo code=$?\n");
  await until(() => output.text.includes("code=130"));
  terminal.close();
});

check("a long listing arrives whole", ["B17"], async (sandbox) => {
  const [terminal, output] = await open(sandbox, {});
  terminal.send("seq 1 20000; echo the-${COLUMNS:-}end\n");
  await until(() => /the-\d*end\r/.test(output.text.slice(-200)));
  const numbers = output.text.match(/^\d+\r$/gm).map((line) => Number.parseInt(line, 10));
  assert.deepEqual(numbers, Array.from({ length: 20_000 }, (_, index) => index + 1));
  terminal.close();
});

await main();
