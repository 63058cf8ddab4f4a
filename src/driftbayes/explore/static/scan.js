// Start, watch, cancel and download a scan over sampling times.

import { ask, PageError } from "./ask.js";
import { attempt, byId, element, figure, moveCursor, sentence, swatch } from "./build.js";

const PAUSE = 250;

// Mark the chosen sampling time.
function mark(answer, tau) {
  const place = answer.taus.findIndex((one) => Math.abs(one - tau) < 1e-6 * tau);
  answer.panels.forEach((panel, i) => { moveCursor(byId("scan-panels").children[i], place < 0 ? -10 : panel.x[place]); });
}

function show(answer) {
  byId("scan-answer").hidden = false;
  byId("scan-verdict").replaceChildren(...answer.verdict.map((text) => element("p", {}, text)),
    ...answer.skipped.map((text) => element("p", {}, sentence(text))));
  byId("scan-legend").replaceChildren(
    ...Object.entries(answer.colours).map(([name, colour]) => element("li", {}, swatch(colour), ` ${name}`)),
    element("li", { class: "note" }, answer.note),
  );
  byId("scan-panels").replaceChildren(...answer.panels.map((panel) => figure(panel, answer.colours)));
  byId("scan-command").textContent = answer.commands.join("\n");
}

function state(answer) {
  const words = { running: "scanning", done: "done", cancelled: "cancelled", failed: "stopped" };
  byId("scan-state").textContent = `${words[answer.state]}, ${answer.done} of ${answer.total} sampling times`;
  byId("scan-progress").max = answer.total;
  byId("scan-progress").value = answer.done;
  const runs = answer.state === "running";
  byId("scan-progress").hidden = !runs;
  byId("scan-cancel").hidden = !runs;
  byId("scan-start").disabled = runs;
}

function save(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function beginScan({ current, models }) {
  let scan = null;
  let shown = null;
  let tau = 0;
  // Grows with every change of data or models.
  let version = 0;

  async function watch(number) {
    let have = -1;
    while (scan === number) {
      const answer = await ask("scan-state", { scan: number, have });
      if (scan !== number) { return; }
      if (answer.panels) { shown = answer; show(answer); mark(answer, tau); have = answer.done; }
      state(answer);
      if (answer.state !== "running") {
        if (answer.error) { throw new PageError(answer.error); }
        return;
      }
      await new Promise((done) => { setTimeout(done, PAUSE); });
    }
  }

  byId("scan-start").addEventListener("click", () => attempt("scan-error", async () => {
    byId("scan-answer").hidden = true;
    const asked = version;
    const answer = await ask("scan", { data: current().data, ...models() });
    if (asked !== version) { await ask("cancel", { scan: answer.scan }); return; }
    scan = answer.scan;
    state(answer);
    await watch(scan);
  }));
  byId("scan-cancel").addEventListener("click", () => attempt("scan-error", () => ask("cancel", { scan })));
  for (const [button, file] of [["get-report", "report.html"], ["get-scan", "scan.nc"]]) {
    byId(button).addEventListener("click", async () => {
      const blob = await attempt("scan-error", () => ask("download", { scan, file }));
      if (blob) { save(blob, file); }
    });
  }

  // Other data or models: hide the old scan.
  function forget(card) {
    if (scan && !byId("scan-cancel").hidden) { ask("cancel", { scan }).catch(() => {}); }
    version += 1;
    scan = null;
    shown = null;
    byId("scan").hidden = !card || !card.taus.length;
    byId("scan-answer").hidden = true;
    byId("scan-cancel").hidden = true;
    byId("scan-progress").hidden = true;
    byId("scan-start").disabled = false;
    byId("scan-state").textContent = "";
    byId("scan-error").hidden = true;
  }

  function follow(now) {
    tau = now;
    if (shown) { mark(shown, tau); }
  }

  return { forget, follow };
}
