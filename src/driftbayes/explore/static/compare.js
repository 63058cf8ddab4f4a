// Show the comparison at one sampling time.

import { ask, later, newest } from "./ask.js";
import { attempt, byId, element, figure, list, moveCursor, sentence, showTable } from "./build.js";

// Decades of -ln K on the lower bar.
const DECADES = 5;

function bars(answer) {
  const have = new Map(Array.from(byId("bars").children, (item) => [item.dataset.model, item]));
  byId("bars").replaceChildren(...answer.models.map((model) => {
    // An existing bar moves to its new length.
    const item = have.get(model.name) || element("li", { "data-model": model.name },
      element("div", { class: "name" }, element("span", {}, model.name), element("span", { class: "value" })),
      element("div", { class: "track", "aria-hidden": "true" }, element("div", { class: "fill" })),
      element("div", { class: "track behind", "aria-hidden": "true" }, element("div", { class: "fill" })));
    item.style.setProperty("--colour", answer.colours[model.name]);
    item.querySelector(".value").textContent = model.label;
    item.querySelector(".fill").style.width = `${100 * (model.probability || 0)}%`;
    item.querySelector(".behind .fill").style.width = `${100 * Math.min(Math.log10(1 - (model.behind || 0)) / DECADES, 1)}%`;
    return item;
  }));
}

function show(answer) {
  byId("verdict").textContent = sentence(answer.verdict);
  bars(answer);
  showTable("models-at", answer.tables.models);
  showTable("parameters-at", answer.tables.parameters);
  list("warnings", answer.warnings.map(sentence));
  byId("prior-note").textContent = sentence(answer.priors);
  byId("compare-command").textContent = answer.commands.join("\n");
  const fits = byId("fits");
  fits.replaceChildren();
  if (answer.fits) {
    fits.append(...figure(answer.fits, answer.colours).children);
    fits.append(element("p", { class: "note" }, "Dots: data. Lines: models with the parameters inferred at τ."));
    moveCursor(fits, answer.fits.x[answer.place]);
  }
  byId("answer").hidden = false;
}

export function beginComparison({ models, onChange, onTau }) {
  const tau = byId("tau");
  let card = null;

  const push = newest(async (request, isNewest) => {
    const began = performance.now();
    byId("comparison").classList.add("waiting");
    byId("comparison").setAttribute("aria-busy", "true");
    // Announce only longer waits, so that screen readers do not read out every move.
    const patience = setTimeout(() => {
      byId("status").textContent = "Computing … A model is compiled when it is first used, which takes seconds, or minutes with three or more parameters.";
    }, 400);
    const answer = await attempt("compare-error", () => ask("compare", request));
    clearTimeout(patience);
    if (!isNewest()) { return; }
    byId("comparison").classList.remove("waiting");
    byId("comparison").removeAttribute("aria-busy");
    if (answer) { show(answer); }
    byId("answer").hidden = !answer;
    const seconds = ((performance.now() - began) / 1000).toPrecision(2);
    byId("status").textContent = answer
      ? `${answer.summary}, in ${seconds} s`
      : "";
  });

  function showTau() {
    const text = card.taus.length ? card.tau_texts[Number(tau.value)] : "all positions";
    byId("tau-text").textContent = text;
    tau.setAttribute("aria-valuetext", text);
    if (card.taus.length) { onTau(card.taus[Number(tau.value)]); }
  }

  const go = () => { if (card) { push({ data: card.data, tau: Number(tau.value), ...models() }); } };
  const soon = later(go, 60);
  const settled = later(go, 250);
  const changed = () => { onChange(); settled(); };

  tau.addEventListener("input", () => { showTau(); soon(); });
  byId("models").addEventListener("change", changed);
  for (const name of ["more-models", "u-rms", "timescale"]) { byId(name).addEventListener("input", changed); }

  return function compare(found) {
    // Keep the nearest sampling time to the previous one.
    const before = card && card.taus.length ? card.taus[Number(tau.value)] : null;
    card = found;
    byId("comparison").hidden = false;
    const away = (value) => Math.abs(Math.log(value / before));
    const places = found.taus.map((_, i) => i);
    tau.max = Math.max(found.taus.length - 1, 0);
    tau.disabled = found.taus.length < 2;
    tau.value = before === null ? 0 : places.reduce((best, i) => (away(found.taus[i]) < away(found.taus[best]) ? i : best), 0);
    byId("u-rms-unit").textContent = found.units.length ? `(${found.units.length}/${found.units.time || "time"})` : "";
    byId("timescale-unit").textContent = found.units.time ? `(${found.units.time})` : "";
    byId("u-rms").placeholder = found.scales ? found.scales.u_rms : "";
    byId("timescale").placeholder = found.scales ? found.scales.timescale : "";
    showTau();
    go();
  };
}
