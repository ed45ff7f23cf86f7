// Time to interactive as the published benchmark of sandbox providers measures it: create, then `node -v`.
//
// Arguments: mode (sequential | staggered | burst), how many, milliseconds between two starts when staggered.
// Prints one JSON object for each sandbox. Nothing is tried again.

import { pathToFileURL } from "node:url";

const [mode, count, stagger] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const entry = `${process.env.NODE_MODULES}/@computesdk/opencomputer/dist/index.mjs`;
const { opencomputer } = await import(pathToFileURL(entry).href);
const compute = opencomputer({
  apiKey: process.env.OPENCOMPUTER_API_KEY,
  apiUrl: process.env.OPENCOMPUTER_API_URL,
});
const began = performance.now();

async function once() {
  const sample = { startedMs: performance.now() - began, error: null };
  const start = performance.now();
  let sandbox = null;
  try {
    sandbox = await compute.sandbox.create();
    sample.createMs = performance.now() - start;
    const result = await sandbox.runCommand("node -v");
    sample.totalMs = performance.now() - start;
    sample.execMs = sample.totalMs - sample.createMs;
    if (result.exitCode !== 0 || !/^v\d+\.\d+\.\d+$/.test(result.stdout.trim())) {
      throw new Error(`unexpected result ${JSON.stringify(result)}`);
    }
  } catch (error) {
    sample.error = String(error?.message ?? error);
  }
  console.log(JSON.stringify(sample));
  try {
    await sandbox?.destroy();
  } catch (error) {
    console.log(JSON.stringify({ error: `destroy: ${error.message}` }));
  }
}

if (mode === "sequential") {
  for (let number = 0; number < count; number++) await once();
} else {
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
  const starts = Array.from({ length: count }, async (_, number) => {
    if (mode === "staggered") await wait(number * stagger);
    await once();
  });
  await Promise.all(starts);
}
console.log(JSON.stringify({ wallMs: performance.now() - began }));
