// Asking the server: every question with the token, and of several only the newest counts.

const token = location.hash.slice(1);
const page = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join("");

// What went wrong, as one sentence to show.
export class Sentence extends Error {}

async function send(what, headers, body) {
  let answer;
  try {
    answer = await fetch(`/api/${what}`, {
      method: "POST", headers: { "X-Driftbayes-Token": token, ...headers }, body,
    });
  } catch {
    throw new Sentence("the server does not answer; is it still running in the terminal?");
  }
  if (answer.headers.get("Content-Type").startsWith("application/json")) {
    const found = await answer.json();
    if (found.error && !found.state) { throw new Sentence(found.error); }
    return found;
  }
  return answer.blob();
}

// The answer, or null if a newer question of the same kind has overtaken it.
export async function ask(what, wish = {}) {
  const body = JSON.stringify({ ...wish, page });
  const found = await send(what, { "Content-Type": "application/json" }, body);
  return found.stale ? null : found;
}

// Files with their paths; a line that lists them comes first.
export function upload(files, options) {
  const list = files.map(({ path, file }) => ({ path, size: file.size }));
  const body = new Blob([`${JSON.stringify({ files: list })}\n`, ...files.map(({ file }) => file)]);
  return { size: body.size, send: () => send("upload", { "X-Driftbayes-Options": encodeURIComponent(options) }, body) };
}

// One at a time; while one runs, only the newest of those that come is kept.
export function newest(run) {
  let busy = false;
  let next = null;
  return async function push(wish) {
    next = { wish };
    if (busy) { return; }
    busy = true;
    try {
      while (next) {
        const now = next;
        next = null;
        await run(now.wish, () => next === null);
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
