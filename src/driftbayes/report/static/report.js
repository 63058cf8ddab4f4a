"use strict";
// The page is complete without this script, which moves a cursor, reads out values and hides models.
(function () {
  const data = JSON.parse(document.getElementById("numbers").textContent);
  document.documentElement.classList.add("scripted");
  const slider = document.getElementById("tau");
  const shown = document.getElementById("tau-text");
  const hidden = new Set();

  // As in the tables: four digits, with an exponent only if the number is extreme.
  function number(value) {
    if (value === null) { return "–"; }
    const size = Math.abs(Number(value.toPrecision(4)));
    if (size === 0 || (size >= 1e-4 && size < 1e7)) { return String(Number(value.toPrecision(4))); }
    const [mantissa, power] = value.toExponential(3).split("e");
    return `${Number(mantissa)}e${Number(power)}`;
  }

  function rows(table, cells) {
    const body = document.querySelector("#" + table + " tbody");
    const heads = document.querySelectorAll("#" + table + " th");
    body.replaceChildren(...cells.map(function (row) {
      const line = document.createElement("tr");
      line.append(...row.map(function (text, i) {
        const cell = document.createElement("td");
        cell.className = heads[i].className;
        cell.textContent = text;
        return cell;
      }));
      return line;
    }));
  }

  function read(panel, about, index, before) {
    const readout = panel.parentElement.querySelector(".readout");
    readout.textContent = before + about.curves
      .filter(function (curve) { return !hidden.has(curve.group); })
      .map(function (curve) { return curve.label + ": " + number(curve.y[index]); })
      .join(" · ");
  }

  function move(panel, about, index) {
    const cursor = panel.querySelector(".cursor");
    cursor.setAttribute("x1", about.x[index]);
    cursor.setAttribute("x2", about.x[index]);
  }

  function show(index) {
    shown.textContent = data.tau_text[index];
    document.getElementById("tau-here").textContent = data.tau_text[index];
    slider.setAttribute("aria-valuetext", data.tau_text[index]);
    for (const panel of document.querySelectorAll("svg.panel")) {
      const about = data.panels[panel.dataset.panel];
      if (about.at) { continue; }
      move(panel, about, index);
      read(panel, about, index, "");
    }
    rows("models-at", data.tables[index].models);
    rows("parameters-at", data.tables[index].parameters);
  }

  slider.addEventListener("input", function () { show(Number(slider.value)); });

  for (const panel of document.querySelectorAll("svg.panel")) {
    const about = data.panels[panel.dataset.panel];
    panel.addEventListener("pointermove", function (event) {
      const box = panel.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * panel.viewBox.baseVal.width;
      let best = 0;
      about.x.forEach(function (place, i) {
        if (Math.abs(place - x) < Math.abs(about.x[best] - x)) { best = i; }
      });
      if (about.at) {
        // Not against τ: the slider stays.
        panel.classList.add("pointed");
        move(panel, about, best);
        read(panel, about, best, about.at[best] + " → ");
        return;
      }
      slider.value = best;
      show(best);
    });
    const button = panel.parentElement.querySelector("button");
    if (button) {
      button.addEventListener("click", function () {
        const groups = Array.from(panel.querySelectorAll("g.scale"));
        const now = groups.findIndex(function (g) { return g.style.display !== "none"; });
        const next = (now + 1) % groups.length;
        groups.forEach(function (g, i) { g.style.display = i === next ? "" : "none"; });
        button.textContent = groups[next].dataset.scale;
      });
    }
  }

  for (const box of document.querySelectorAll(".controls input[type=checkbox]")) {
    box.addEventListener("change", function () {
      if (box.checked) { hidden.delete(box.value); } else { hidden.add(box.value); }
      for (const curve of document.querySelectorAll("g.curve")) {
        curve.style.display = hidden.has(curve.dataset.model) ? "none" : "";
      }
      show(Number(slider.value));
    });
  }
  show(Number(slider.value));
}());
