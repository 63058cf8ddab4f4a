"""The figure of the ladder: what each rung gains, and what the best ones say of the velocity."""

__all__ = ["ladder_figure"]

from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.reproduce.turbulence.experiment import PUBLISHED

if TYPE_CHECKING:
    from driftbayes.reproduce.turbulence.ladder import Ladder

_STYLES = {
    "brownian": ("#D55E00", "-"),
    "langevin": ("#0072B2", "-"),
    "fractional": ("#D55E00", "--"),
    "confined_brownian": ("#D55E00", ":"),
    "second_order": ("#009E73", "-"),
    "matern": ("#CC79A7", "-"),
    "oscillating": ("#E69F00", "-"),
    "confined": ("#56B4E9", "-"),
    "two_scale": ("black", "-"),
}


def ladder_figure(ladder: "Ladder") -> Any:
    """Two panels: ln K against Langevin, and time scales of the models, along tau."""
    from matplotlib.figure import Figure

    from driftbayes.plots.style import GUIDE, journal_style

    x = ladder.taus / PUBLISHED.eddy_turnover_time
    log_k = ladder.against_reference()
    with journal_style():
        figure = Figure(figsize=(7.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        for i, model in enumerate(ladder.models):
            colour, line = _STYLES.get(model, (GUIDE, "-"))
            low, high = log_k[:, i].min(axis=0), log_k[:, i].max(axis=0)
            left.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
            left.plot(x, log_k[:, i].mean(axis=0), line, color=colour, lw=1.2, label=model)
        left.set_xscale("log")
        left.set_yscale("symlog", linthresh=3.0)
        left.set_xlabel("τ / eddy turnover time")
        left.set_ylabel("ln K against Langevin")
        left.legend(fontsize=6, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        for name, label, power in (
            ("langevin.gamma", "Langevin: 1/γ", -1),
            ("two_scale.gamma", "two-scale: fast 1/γ", -1),
            ("two_scale.slow", "two-scale: slow 1/(ργ)", -1),
            ("second_order.gamma", "second-order: 1/γ", -1),
        ):
            if name.split(".")[0] not in ladder.models:
                continue
            values = _values(ladder, name) ** power / PUBLISHED.eddy_turnover_time
            colour, _ = _STYLES[name.split(".")[0]]
            style = "--" if name.endswith("slow") else "-"
            right.fill_between(
                x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, lw=0
            )
            right.plot(x, values.mean(axis=0), style, color=colour, lw=1.2, label=label)
        right.plot(x, x, color=GUIDE, lw=0.8, label="τ")
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("τ / eddy turnover time")
        right.set_ylabel("time scale / eddy turnover time")
        right.legend(fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def _values(ladder: "Ladder", name: str) -> np.ndarray:
    if name == "two_scale.slow":
        return ladder.means["two_scale.gamma"] * ladder.means["two_scale.ratio"]
    return ladder.means[name]
