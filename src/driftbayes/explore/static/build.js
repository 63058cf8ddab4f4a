// Build elements of the page. Text is set as text, never as markup.

import { PageError } from "./ask.js";

export const byId = (name) => document.getElementById(name);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) { made.setAttribute(name, ""); } else if (value !== false && value !== null) { made.setAttribute(name, value); }
  }
  made.append(...children);
  return made;
}

// Begin with a capital letter and end with a full stop: "Second-order …", but "z …".
export function sentence(text) {
  const capital = text[0].toUpperCase() + text.slice(1);
  const start = /^[xyz] /.test(text) ? text : capital.replace(/^[A-Z][a-z]*(?:_[a-z]+)+/, (name) => name.replaceAll("_", "-"));
  return `${start}${/[.!?)]$/.test(text) ? "" : "."}`;
}

export function say(name, text) {
  const place = byId(name);
  place.textContent = text ? sentence(text) : "";
  place.hidden = !text;
}

// Run a function and show its error; other errors than PageError are thrown again.
export async function attempt(place, run) {
  try {
    const done = await run();
    say(place, "");
    return done;
  } catch (error) {
    say(place, error.message);
    if (!(error instanceof PageError)) { throw error; }
    return null;
  }
}

export function fill(place, rows, sides = "") {
  place.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map((text, i) => element("td", { class: sides[i] || false }, text)))));
}

// Show a table that the server described.
export function showTable(name, table) {
  const heads = table.columns.map((text, i) => element("th", { scope: "col", class: table.sides[i] }, text));
  const body = element("tbody");
  fill(body, table.rows, table.sides);
  byId(name).replaceChildren(element("thead", {}, element("tr", {}, ...heads)), body);
}

export const list = (name, texts) => byId(name).replaceChildren(...texts.map((text) => element("li", {}, text)));

// Parse a drawing of the server, in which names from files are escaped.
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

// Make a figure with a title, a drawing, and a button to change the scale.
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
