// Send requests to the server with the token of the session.

const token = location.hash.slice(1);
const page = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join("");

// An error whose message is shown on the page.
export class PageError extends Error {}

async function send(what, headers, body) {
  let answer;
  try {
    answer = await fetch(`/api/${what}`, {
      method: "POST", headers: { "X-Driftbayes-Token": token, ...headers }, body,
    });
  } catch {
    throw new PageError("the server does not answer; check that it is running in the terminal");
  }
  if (answer.headers.get("Content-Type").startsWith("application/json")) {
    const found = await answer.json();
    if (found.error && !found.state) { throw new PageError(found.error); }
    return found;
  }
  return answer.blob();
}

// Return the answer, or null if a newer request of the same kind has replaced it.
export async function ask(what, request = {}) {
  const body = JSON.stringify({ ...request, page });
  const found = await send(what, { "Content-Type": "application/json" }, body);
  return found.stale ? null : found;
}

// Send files with their paths, after a line that lists them.
export function upload(files, options) {
  const list = files.map(({ path, file }) => ({ path, size: file.size }));
  const body = new Blob([`${JSON.stringify({ files: list })}\n`, ...files.map(({ file }) => file)]);
  return { size: body.size, send: () => send("upload", { "X-Driftbayes-Options": encodeURIComponent(options) }, body) };
}

// Run one request at a time; while one runs, keep only the newest.
export function newest(run) {
  let busy = false;
  let next = null;
  return async function push(request) {
    next = { request };
    if (busy) { return; }
    busy = true;
    try {
      while (next) {
        const now = next;
        next = null;
        await run(now.request, () => next === null);
      }
    } finally {
      busy = false;
    }
  };
}

export function later(run, milliseconds) {
  let timer = null;
  return function () {
    clearTimeout(timer);
    timer = setTimeout(run, milliseconds);
  };
}
