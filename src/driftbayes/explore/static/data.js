// Upload files or read them again, and show the card of the data.

import { ask, PageError, upload } from "./ask.js";
import { attempt, byId, drawing, element, fill, list, sentence } from "./build.js";

const unit = (bytes) => (bytes >= 1e9 ? `${+(bytes / 1e9).toPrecision(4)} GB` : bytes >= 1e6 ? `${+(bytes / 1e6).toPrecision(4)} MB`
  : bytes >= 1e3 ? `${+(bytes / 1e3).toPrecision(4)} kB` : `${bytes} bytes`);

// List every file in a dropped folder with its path.
async function walk(entry, path) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => { entry.file(done, failed); });
    return [{ path: path + entry.name, file }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    // Entries are returned in batches.
    const some = await new Promise((done, failed) => { reader.readEntries(done, failed); });
    if (!some.length) { return found; }
    for (const inner of some) { found.push(...await walk(inner, `${path}${entry.name}/`)); }
  }
}

export function showCard(card) {
  byId("hint").hidden = true;
  byId("card").hidden = false;
  byId("card-title").textContent = card.name;
  if (!card.is_simulated) { byId("reading-options").value = card.reading; }
  fill(byId("card-rows"), card.rows);
  const doubts = card.quality.length ? card.quality : ["no problems found"];
  const words = element("td", {}, ...doubts.map((text) => element("div", {}, text)));
  byId("card-rows").append(element("tr", { id: "quality" }, element("td", {}, "quality"), words));
  list("card-notes", [...card.notes, card.irregular].filter(Boolean).map(sentence));
  byId("tracks").replaceChildren(drawing(card.drawing));
}

export function beginData(start, { onCard, current }) {
  const options = byId("reading-options");
  byId("limit").textContent = `Up to ${unit(start.max_upload)}. The format is detected automatically.`;

  async function take(files) {
    if (!files.length) { return; }
    byId("card").classList.add("waiting");
    const found = await attempt("data-error", () => {
      const ready = upload(files, options.value);
      if (ready.size > start.max_upload) {
        throw new PageError(`the upload has ${unit(ready.size)}, at most ${unit(start.max_upload)} are allowed; `
          + "start with --max-upload SIZE, or open the file with `driftbayes explore FILE`");
      }
      return ready.send();
    });
    byId("card").classList.remove("waiting");
    if (found) { onCard(found); }
  }

  const zone = byId("drop");
  // Accept files anywhere on the page: the browser would open one that misses the zone.
  document.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) { zone.classList.remove("over"); } });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const entries = Array.from(event.dataTransfer.items || [], (item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const plain = Array.from(event.dataTransfer.files, (file) => ({ path: file.name, file }));
    const found = entries.some((entry) => entry && entry.isDirectory)
      ? (await Promise.all(entries.filter(Boolean).map((entry) => walk(entry, "")))).flat() : plain;
    await take(found);
  });
  for (const name of ["file", "folder"]) {
    byId(`choose-${name}`).addEventListener("click", () => byId(name).click());
    byId(name).addEventListener("change", async () => {
      const chosen = Array.from(byId(name).files, (file) => ({ path: file.webkitRelativePath || file.name, file }));
      await take(chosen);
      // So that the same file can be chosen again.
      byId(name).value = "";
    });
  }
  byId("reading").addEventListener("submit", async (event) => {
    event.preventDefault();
    const found = await attempt("data-error", () => {
      if (!current()) { throw new PageError("no file to read again; drop a file first"); }
      return ask("reread", { data: current().data, options: options.value });
    });
    if (found) { onCard(found); }
  });
}
