// Connect the parts of the page: data, comparison, scan, simulation.

import { ask } from "./ask.js";
import { attempt, byId } from "./build.js";
import { beginComparison } from "./compare.js";
import { beginData, showCard } from "./data.js";
import { beginScan } from "./scan.js";
import { beginSimulation } from "./simulate.js";

let card = null;

// On a narrow screen open choices would hide the answer.
const isWide = matchMedia("(min-width: 960px)").matches;
for (const part of document.querySelectorAll("details.part")) { part.open = isWide; }

// Return the chosen models and priors.
function models() {
  const chosen = Array.from(document.querySelectorAll("#models input:checked"), (box) => box.value);
  const more = byId("more-models").value.split(",").map((name) => name.trim()).filter(Boolean);
  const scale = (name) => (byId(name).value === "" ? null : Number(byId(name).value));
  return { models: [...chosen, ...more], u_rms: scale("u-rms"), timescale: scale("timescale") };
}

const start = await attempt("page-error", () => ask("start"));
if (start) {
  const current = () => card;
  const { forget, follow } = beginScan({ current, models });
  const compare = beginComparison({ models, onChange: () => forget(card), onTau: follow });
  const onCard = (found) => {
    card = found;
    showCard(found);
    forget(found);
    compare(found);
  };
  beginData(start, { onCard, current });
  beginSimulation(start, { onCard, isLive: () => card !== null && card.is_simulated });
  if (start.first) { onCard(start.first); }
  document.documentElement.dataset.ready = "yes";
}
