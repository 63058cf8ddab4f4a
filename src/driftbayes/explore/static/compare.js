// The comparison at one sampling time.

import { ask, later, newest } from "./ask.js";
import { attempt, byId, element, figure, fill, fixed, list, moveCursor, number, sentence } from "./build.js";

// Of nats behind the best, on the logarithmic lower bar.
const DECADES = 5;

function bars(answer) {
  const have = new Map(Array.from(byId("bars").children, (item) => [item.dataset.model, item]));
  byId("bars").replaceChildren(...answer.models.map((model) => {
    // The bar that is there already moves to its new length.
    const item = have.get(model.name) || element("li", { "data-model": model.name },
      element("div", { class: "name" }, element("span", {}, model.name), element("span", { class: "value" })),
      element("div", { class: "track", "aria-hidden": "true" }, element("div", { class: "fill" })),
      element("div", { class: "track behind", "aria-hidden": "true" }, element("div", { class: "fill" })));
    item.style.setProperty("--colour", answer.colours[model.name]);
    const best = model.behind === 0 ? "the best" : `ln K ${fixed(model.behind, 1)}`;
    item.querySelector(".value").textContent = `${number(model.probability, 3)} · ${best}`;
    item.querySelector(".fill").style.width = `${100 * (model.probability || 0)}%`;
    item.querySelector(".behind .fill").style.width = `${100 * Math.min(Math.log10(1 - (model.behind || 0)) / DECADES, 1)}%`;
    return item;
  }));
}

function show(answer) {
  byId("verdict").textContent = sentence(answer.verdict);
  bars(answer);
  fill(byId("models-at").tBodies[0], answer.models.map((model) => [
    model.name,
    fixed(model.log_evidence, 3),
    fixed(model.behind, 3),
    fixed(model.log_occam, 3),
    number(model.probability),
    model.status,
  ]));
  fill(byId("parameters-at").tBodies[0], answer.parameters.map((one) => [
    `${one.model}.${one.name}`,
    `${number(one.mean)} ± ${number(one.sd, 2)}`,
    `${number(one.low)} … ${number(one.high)}`,
    one.unit,
    one.prior,
  ]));
  list("warnings", answer.warnings.map(sentence));
  byId("prior-note").textContent = sentence(answer.priors);
  byId("compare-command").textContent = answer.commands.join("\n");
  const fits = byId("fits");
  fits.replaceChildren();
  if (answer.fits) {
    fits.append(...figure(answer.fits, answer.colours).children);
    fits.append(element("p", { class: "note" }, "Dots: the data. Lines: each model with the parameters found at τ."));
    moveCursor(fits, answer.fits.x[answer.place]);
  }
  byId("answer").hidden = false;
}

export function beginComparison(start, { question, onChange, onTau }) {
  const tau = byId("tau");
  let card = null;

  byId("models").append(...start.models.map((model) => element("label", {},
    element("input", { type: "checkbox", value: model.name, checked: ["brownian", "langevin"].includes(model.name) }),
    element("span", {}, model.name), element("small", {}, model.summary))));
  list("model-options", [
    ...Object.entries(start.options).map(([name, meaning]) => `+${name}: ${meaning}`),
    "*N: N classes of particles, for example brownian*2",
  ]);

  const push = newest(async (wish, isNewest) => {
    const began = performance.now();
    byId("comparison").classList.add("waiting");
    byId("comparison").setAttribute("aria-busy", "true");
    // Said only if one has to wait: it is not read out at every move.
    const patience = setTimeout(() => {
      byId("status").textContent = "Computing … The first time a model is used it is compiled: some seconds, with three parameters or more up to minutes.";
    }, 400);
    const answer = await attempt("compare-error", () => ask("compare", wish));
    clearTimeout(patience);
    if (!isNewest()) { return; }
    byId("comparison").classList.remove("waiting");
    byId("comparison").removeAttribute("aria-busy");
    if (answer) { show(answer); }
    byId("answer").hidden = !answer;
    const seconds = ((performance.now() - began) / 1000).toPrecision(2);
    byId("status").textContent = answer
      ? `${answer.n_displacements.toLocaleString("en")} displacements of ${answer.n_particles.toLocaleString("en")} particles, ${answer.method}, in ${seconds} s`
      : "";
  });

  function showTau() {
    const text = card.taus.length ? card.tau_texts[Number(tau.value)] : "all fixes";
    byId("tau-text").textContent = text;
    tau.setAttribute("aria-valuetext", text);
    if (card.taus.length) { onTau(card.taus[Number(tau.value)]); }
  }

  const go = () => { if (card) { push({ data: card.data, tau: Number(tau.value), ...question() }); } };
  const soon = later(go, 60);
  const changed = later(() => { onChange(); go(); }, 250);

  tau.addEventListener("input", () => { showTau(); soon(); });
  byId("models").addEventListener("change", changed);
  for (const name of ["more-models", "u-rms", "timescale"]) { byId(name).addEventListener("input", changed); }

  return function judge(found) {
    // The nearest sampling time to the one that was looked at.
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
    byId("u-rms").placeholder = found.scales ? number(found.scales.u_rms) : "";
    byId("timescale").placeholder = found.scales ? number(found.scales.timescale) : "";
    showTau();
    go();
  };
}
