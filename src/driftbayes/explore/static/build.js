// Pieces of the page. Text is always set as text: nothing from a file is taken for markup.

import { Sentence } from "./ask.js";

export const byId = (name) => document.getElementById(name);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) { made.setAttribute(name, ""); } else if (value !== false && value !== null) { made.setAttribute(name, value); }
  }
  made.append(...children);
  return made;
}

export function say(name, sentence) {
  const place = byId(name);
  const text = sentence ? sentence[0].toUpperCase() + sentence.slice(1) : "";
  place.textContent = text && !/[.!?)]$/.test(text) ? `${text}.` : text;
  place.hidden = !text;
}

// Runs what may fail, and shows its sentence; anything else is our bug, and is not hidden.
export async function attempt(place, run) {
  try {
    const done = await run();
    say(place, "");
    return done;
  } catch (error) {
    say(place, error.message);
    if (!(error instanceof Sentence)) { throw error; }
    return null;
  }
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) { return "–"; }
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1) : String(+value.toPrecision(digits));
  return text.replace("-", "−");
}

export const fixed = (value, places) => (value === null ? "–" : value.toFixed(places).replace("-", "−"));

export function fill(place, rows) {
  place.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text)))));
}

export const list = (name, texts) => byId(name).replaceChildren(...texts.map((text) => element("li", {}, text)));

export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?)]$/.test(text) ? "" : "."}`;

// A drawing that our own server made, with everything from files escaped in it.
export function drawing(text) {
  const holder = document.createElement("template");
  holder.innerHTML = text;
  return holder.content.firstElementChild;
}

export function paint(root, colours) {
  for (const [model, colour] of Object.entries(colours)) {
    for (const curve of root.querySelectorAll(`[data-model="${CSS.escape(model)}"]`)) { curve.style.setProperty("--colour", colour); }
  }
}

export function swatch(colour) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = colour;
  return made;
}

// A figure with a title, a drawing, and a button where there is a choice of scales.
export function figure(panel, colours) {
  const svg = drawing(panel.svg);
  paint(svg, colours);
  const made = element("figure", {}, element("h3", {}, panel.title));
  const groups = Array.from(svg.querySelectorAll("g.scale"));
  if (groups.length > 1) {
    const button = element("button", { type: "button", title: "change the scale of y" }, groups[0].dataset.scale);
    button.addEventListener("click", () => {
      const next = (groups.findIndex((group) => group.style.display !== "none") + 1) % groups.length;
      groups.forEach((group, i) => { group.style.display = i === next ? "" : "none"; });
      button.textContent = groups[next].dataset.scale;
    });
    made.append(button);
  }
  made.append(svg);
  return made;
}

export function moveCursor(root, place) {
  for (const cursor of root.querySelectorAll(".cursor")) {
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
  }
}
