// Simulate with sliders; only the newest request is answered.

import { ask, later, newest } from "./ask.js";
import { attempt, byId, element } from "./build.js";

const STEPS = 200;

export function beginSimulation(start, { onCard, isLive }) {
  const model = byId("simulate-model");
  const seed = byId("seed");
  const kept = {};
  model.value = start.begin.model;
  seed.value = start.begin.seed;

  const push = newest(async (request, isNewest) => {
    byId("card").classList.add("waiting");
    // As for a comparison, announce only longer waits.
    const patience = setTimeout(() => {
      byId("simulate-status").textContent = "Simulating … The first simulation of a model takes some seconds.";
    }, 400);
    const found = await attempt("simulate-error", () => ask("simulate", request));
    clearTimeout(patience);
    byId("card").classList.remove("waiting");
    if (!isNewest()) { return; }
    byId("simulate-status").textContent = "";
    if (found) { await onCard(found); }
  });

  function request() {
    const theta = {};
    for (const about of start.sliders[model.value]) { theta[about.name] = kept[about.name]; }
    return {
      model: model.value, theta, seed: Number(seed.value),
      particles: kept.particles, steps: kept.steps, interval: kept.interval,
    };
  }

  const soon = later(() => { if (isLive()) { push(request()); } }, 120);

  function slider(name, label, about, places, toValue, toPlace) {
    const shown = element("output", { for: `slide-${name}` });
    const input = element("input", { type: "range", id: `slide-${name}`, min: 0, max: places, step: 1 });
    function show() {
      shown.textContent = String(kept[name]);
      input.setAttribute("aria-valuetext", shown.textContent);
    }
    kept[name] ??= about.value;
    input.value = toPlace(kept[name]);
    input.addEventListener("input", () => { kept[name] = toValue(Number(input.value)); show(); soon(); });
    show();
    return element("div", { class: "slider", title: about.meaning || false }, element("label", { for: `slide-${name}` }, label), shown, input);
  }

  function ofParameter(about) {
    const { low, high, is_log: isLog } = about;
    // Three digits, so that the command to repeat it is exact.
    const toValue = (place) => Number((isLog ? low * (high / low) ** (place / STEPS) : low + (high - low) * place / STEPS).toPrecision(3));
    const toPlace = (value) => Math.round(STEPS * (isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)));
    const name = about.symbol === about.name ? about.name : `${about.symbol}, ${about.name}`;
    return slider(about.name, about.unit === "1" ? name : `${name} (${about.unit})`, about, STEPS, toValue, toPlace);
  }

  function ofChoice(name, label, choices) {
    return slider(name, label, { value: start.begin[name] }, choices.length - 1, (place) => choices[place], (value) => choices.indexOf(value));
  }

  function build() {
    byId("sliders").replaceChildren(
      ...start.sliders[model.value].map(ofParameter),
      ofChoice("particles", "particles", start.choices.particles),
      ofChoice("steps", "steps", start.choices.steps),
      ofChoice("interval", "interval", start.choices.interval),
    );
  }

  model.addEventListener("change", () => { build(); soon(); });
  seed.addEventListener("input", soon);
  byId("new-seed").addEventListener("click", () => { seed.value = Number(seed.value) + 1; soon(); });
  byId("simulate").addEventListener("submit", (event) => {
    event.preventDefault();
    push(request());
  });
  build();
}
