// The page: data come in, are judged at one sampling time, and scanned if asked for.

import { ask } from "./ask.js";
import { attempt, byId } from "./build.js";
import { beginComparison } from "./compare.js";
import { beginData, showCard } from "./data.js";
import { beginScan } from "./scan.js";
import { beginSimulation } from "./simulate.js";

let card = null;

// On a narrow screen the answer would otherwise stand far below the choices.
const isWide = matchMedia("(min-width: 960px)").matches;
for (const part of document.querySelectorAll("details.part")) { part.open = isWide; }

// Models and priors as they are chosen now.
function question() {
  const chosen = Array.from(document.querySelectorAll("#models input:checked"), (box) => box.value);
  const more = byId("more-models").value.split(",").map((name) => name.trim()).filter(Boolean);
  const scale = (name) => (byId(name).value === "" ? null : Number(byId(name).value));
  return { models: [...chosen, ...more], u_rms: scale("u-rms"), timescale: scale("timescale") };
}

const start = await attempt("page-error", () => ask("start"));
if (start) {
  const current = () => card;
  const { forget, follow } = beginScan({ current, question });
  const judge = beginComparison(start, { question, onChange: () => forget(card), onTau: follow });
  const onCard = (found) => {
    card = found;
    showCard(found);
    forget(found);
    judge(found);
  };
  beginData(start, { onCard, current });
  beginSimulation(start, { onCard, isLive: () => card !== null && card.is_simulated });
  if (start.first) { onCard(start.first); }
  document.documentElement.dataset.ready = "yes";
}
