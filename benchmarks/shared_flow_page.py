"""Tables and figure of docs/shared-flow-in-turbulence.md, from the results of shared_flow.py.

python benchmarks/shared_flow_page.py     print the tables, draw docs/figures/shared-flow.png
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.plots.style import COLOURS, GUIDE, INK, MORE_COLOURS, inward_ticks, journal_figure
from shared_flow import RESULTS, mean_square_correlation

NU = 0.5
BROWNIAN, LANGEVIN = ("brownian+eddies", NU), ("langevin+eddies", NU)
ALONE = {"kappa": ("brownian", 0.0), "k": ("langevin", 0.0)}


@dataclass(frozen=True)
class Results:
    """Stored results of one kind of flow.

    Args:
        stored: Part of the file.
    """

    stored: dict[str, Any]

    @classmethod
    def load(cls, part: str) -> "Results":
        """Read the results from the file."""
        return cls(json.loads(RESULTS.read_text())[part])

    def scale(self, name: str) -> float:
        """Return the mean of a scale over the flows."""
        return float(np.mean([flow[name] for flow in self.stored["flows"]]))

    def rows(self, model: str, tau: float, n: int, nu: float = 0.0) -> list[dict[str, Any]]:
        """Return fits of a model at one sampling time, in the order of flows and windows."""
        wanted = (tau, n, model, nu)
        names = ("tau", "n_particles", "model", "nu")
        found = [r for r in self.stored["rows"] if tuple(r[i] for i in names) == wanted]
        return sorted(found, key=lambda row: (row["flow"], row["window"]))

    def taus(self, model: str, n: int) -> list[float]:
        """Return the sampling times of a model."""
        rows = self.stored["rows"]
        return sorted({r["tau"] for r in rows if (r["model"], r["n_particles"]) == (model, n)})

    def gains(self, of: tuple[str, float], over: tuple[str, float], tau: float, n: int) -> Any:
        """Return differences of ln Z between two models on the same data, by name and order."""
        some, others = (
            {(r["flow"], r["window"]): r["log_evidence"] for r in self.rows(m, tau, n, nu)}
            for m, nu in (of, over)
        )
        return np.array([value - others[key] for key, value in some.items()])

    def values(self, row: tuple[str, float], tau: float, n: int, name: str) -> Any:
        """Return posterior means and sd of the log of a parameter, for all data sets."""
        rows = self.rows(row[0], tau, n, row[1])
        return np.array([[r["log_mean"][name], r["log_sd"][name]] for r in rows]).T

    def pairs(self, kind: str, tau: float) -> FloatArray:
        """Return the correlation of two particles, estimated by distance, for each flow."""
        return np.array([row[kind] for row in self.stored["pairs"] if row["tau"] == tau])

    def shared_variance(self, tau: float, n: int) -> float:
        """Return the mean square correlation of two particles at the fitted length and share."""
        length, own = (
            float(np.exp(self.values(BROWNIAN, tau, n, name)[0].mean()))
            for name in ("length", "own_share")
        )
        return mean_square_correlation(length, own, NU)


def _pm(values: FloatArray, digits: int | None = None) -> str:
    """Format mean and standard deviation."""
    if digits is None:
        digits = 0 if abs(values.mean()) > 10 else 1
    return f"{values.mean():,.{digits}f} ± {values.std(ddof=1):,.{digits}f}".replace("-", "−")


def evidence_table(part: str, n: int, n_langevin: int) -> str:
    """Tabulate the evidence of shared flow, its length and share, against the sampling time."""
    found = Results.load(part)
    lines = [
        "| τ | τ/τ_ζ | data sets | Brownian | Langevin | ln K independent | ln K shared flow | ℓ "
        "| ℓ/forcing scale | ℓ/energy scale | own share a |",
        "|" + "---|" * 11,
    ]
    plain, langevin = ("brownian", 0.0), ("langevin", 0.0)
    for tau in found.taus(BROWNIAN[0], n):
        gain = found.gains(BROWNIAN, plain, tau, n)
        length = np.exp(found.values(BROWNIAN, tau, n, "length")[0])
        own = np.exp(found.values(BROWNIAN, tau, n, "own_share")[0])
        both = ["–"] * 3
        if tau in found.taus(LANGEVIN[0], n_langevin):
            more = found.gains(LANGEVIN, langevin, tau, n_langevin)
            alone = found.gains(langevin, plain, tau, n_langevin)
            both = [_pm(more), _pm(alone), _pm(found.gains(LANGEVIN, BROWNIAN, tau, n_langevin))]
        lines.append(
            f"| {tau:g} | {tau / found.scale('eddy_turnover_time'):.1f} | {len(gain)} "
            f"| {_pm(gain)} | {' | '.join(both)} | {_pm(length, 3)} "
            f"| {length.mean() / found.scale('forcing_scale'):.1f} "
            f"| {length.mean() / found.scale('energy_scale'):.2f} | {_pm(own, 3)} |"
        )
    return "\n".join(lines)


def nu_table() -> str:
    """Tabulate the evidence of shared flow in the paper's flow for several ν."""
    found, nus = Results.load("paper"), (0.5, 1.5, 2.5)
    lines = ["| τ | ν = 1/2 | ν = 3/2 | ν = 5/2 |", "|---|---|---|---|"]
    for tau in found.taus(BROWNIAN[0], 100):
        gains = [found.gains((BROWNIAN[0], nu), ("brownian", 0.0), tau, 100) for nu in nus]
        lines.append(f"| {tau:g} | " + " | ".join(f"{part.mean():.1f}" for part in gains) + " |")
    return "\n".join(lines)


def alone_table() -> str:
    """Tabulate the spread of κ of particles treated as independent, and its explanation."""
    found, n = Results.load("laptop"), 1000
    lines = [
        "| τ | windows | spread of ln κ | stated | ratio | ratio expected: shared flow "
        "| correlation of squares |",
        "|" + "---|" * 7,
    ]
    for tau in found.taus("brownian", n):
        values = found.values(ALONE["kappa"], tau, n, "kappa")
        expected = (found.shared_variance(tau, 400), found.pairs("squares", tau).mean())
        ratios = " | ".join(f"{np.sqrt(1 + (n - 1) * part):.2f}" for part in expected)
        lines.append(f"| {tau:g} | {values.shape[1]} | {_width(values)} | {ratios} |")
    return "\n".join(lines)


def together_table() -> str:
    """Tabulate spread between windows and posterior width, independent and shared."""
    found = Results.load("laptop")
    lines = [
        "| | particles | τ | windows | independent: spread | stated | ratio | shared flow: spread "
        "| stated | ratio |",
        "|" + "---|" * 10,
    ]
    for name, symbol, n, model in (("kappa", "κ", 400, BROWNIAN), ("k", "k", 100, LANGEVIN)):
        for tau in found.taus(model[0], n):
            shared = found.values(model, tau, n, name)
            if shared.shape[1] < 8:
                continue
            alone = found.values(ALONE[name], tau, n, name)
            lines.append(
                f"| {symbol} | {n} | {tau:g} | {shared.shape[1]} "
                f"| {_width(alone)} | {_width(shared)} |"
            )
    return "\n".join(lines)


def pair_table() -> str:
    """Tabulate the mean square correlation of two particles, times 1000, by several methods."""
    found = Results.load("laptop")
    lines = [
        "| τ | fitted ℓ and a | counted by distance | of squared displacements |",
        "|---|---|---|---|",
    ]
    for tau in found.taus(BROWNIAN[0], 400):
        counted = " | ".join(_pm(1e3 * found.pairs(kind, tau), 2) for kind in ("kicks", "squares"))
        lines.append(f"| {tau:g} | {1e3 * found.shared_variance(tau, 400):.2f} | {counted} |")
    return "\n".join(lines)


def _width(values: FloatArray) -> str:
    """Format spread, root mean square of the stated width, and their ratio with its error."""
    spread, claimed = values[0].std(ddof=1), np.sqrt(np.mean(values[1] ** 2))
    ratio = spread / claimed
    error = ratio / np.sqrt(2 * (values.shape[1] - 1))
    return f"{spread:.4f} | {claimed:.4f} | {ratio:.2f} ± {error:.2f}"


def effective_table() -> str:
    """Tabulate the effective number of the paper's 1000 particles for κ, and its explanation."""
    found = Results.load("paper")
    lines = [
        "| τ | measured | shared flow | shared flow and heterogeneous particles "
        "| correlation with the next window | with the energy |",
        "|" + "---|" * 6,
    ]
    for tau in found.taus(BROWNIAN[0], 100):
        spread, shared = _spread_at(found, tau), found.shared_variance(tau, 100)
        measured = 1000 * (spread["expected"] / spread["over_flows"]) ** 2
        error = measured * np.sqrt(2 / (spread["n_data_sets"] - 1))
        both = spread["over_particles"] ** 2 + spread["expected"] ** 2 * 999 * shared
        lines.append(
            f"| {tau:g} | {measured:.0f} ± {error:.0f} | {1000 / (1 + 999 * shared):.0f} "
            f"| {1000 * spread['expected'] ** 2 / both:.0f} | {_correlations(found, tau)} |"
        )
    return "\n".join(lines)


def _correlations(found: Results, tau: float) -> str:
    """Format the correlations of ln κ with the next window and with the energy."""
    (row,) = (row for row in found.stored["windows"] if row["tau"] == tau)
    texts = (
        f"{row[name]:.2f} ± {row[f'{name}_error']:.2f}" if name in row else "–"
        for name in ("following", "energy")
    )
    return " | ".join(texts).replace("-", "−")


def _spread_at(found: Results, tau: float, quantity: str = "log_kappa") -> dict[str, float]:
    """Interpolate the measured spread in ln τ."""
    rows = [row for row in found.stored["spread"] if row["quantity"] == quantity]
    x = np.log([row["tau"] for row in rows])
    names = ("n_data_sets", "expected", "over_particles", "over_flows")
    return {
        name: float(np.exp(np.interp(np.log(tau), x, np.log([row[name] for row in rows]))))
        for name in names
    }


def draw() -> Path:
    """Draw evidence and length against the sampling time, and the spread of κ."""
    path = RESULTS.with_suffix(".png")
    paper, laptop = Results.load("paper"), Results.load("laptop")
    kinds = (
        (paper, 100, INK, "o", "paper, 100 particles"),
        (laptop, 400, MORE_COLOURS[0], "s", "256², 400 particles"),
    )
    with journal_figure(7.4, 2.7, 1, 3) as (figure, (left, middle, right)):
        for found, n, colour, marker, label in kinds:
            turnover = found.scale("eddy_turnover_time")
            taus = np.array(found.taus(BROWNIAN[0], n))
            style = {"color": colour, "marker": marker, "capsize": 2}
            gains = [found.gains(BROWNIAN, ("brownian", 0.0), tau, n) for tau in taus]
            _errors(left, taus / turnover, gains, label=label, **style)
            lengths = [np.exp(found.values(BROWNIAN, tau, n, "length")[0]) for tau in taus]
            scale = found.scale("energy_scale")
            _errors(middle, taus / turnover, [part / scale for part in lengths], **style)
            middle.axhline(found.scale("forcing_scale") / scale, color=colour, lw=0.8, ls="--")
        more = [paper.gains(LANGEVIN, ("langevin", 0.0), tau, 100) for tau in taus_of(paper)]
        x = np.array(taus_of(paper)) / paper.scale("eddy_turnover_time")
        _errors(
            left, x, more, label="paper, Langevin", color=COLOURS["langevin"], marker="^", capsize=2
        )
        left.set(yscale="log", ylim=(0.3, 1e4), ylabel="ln Z, shared flow − independent")
        middle.set(ylabel="ℓ / energy scale", ylim=(0, 0.6))
        middle.text(
            0.97, 0.95, "dashed: forcing scale", transform=middle.transAxes, ha="right", va="top"
        )
        _draw_spread(right, paper, GUIDE, INK, MORE_COLOURS[1])
        for ax in (left, middle, right):
            ax.set(xscale="log", xlabel="τ / eddy turnover time")
            inward_ticks(ax)
        left.legend(fontsize=6.5, loc="lower left")
        right.legend(fontsize=6.5, loc="upper right")
        figure.savefig(path, dpi=200)
    return path


def taus_of(found: Results) -> list[float]:
    """Return the sampling times at which Langevin was fitted."""
    return found.taus(LANGEVIN[0], 100)


def _errors(ax: Any, x: FloatArray, values: Sequence[FloatArray], **style: Any) -> None:
    """Draw means with standard deviations between data sets."""
    mean, sd = ([f(part) for part in values] for f in (np.mean, lambda v: np.std(v, ddof=1)))
    ax.errorbar(x, mean, sd, lw=1, ms=3, **style)


def _draw_spread(ax: Any, found: Results, *colours: str) -> None:
    """Draw the spread of ln κ from 1000 of the paper's particles, and its explanation."""
    rows = [row for row in found.stored["spread"] if row["quantity"] == "log_kappa"]
    rows = [row for row in rows if row["n_data_sets"] >= 20]
    tau, n, expected, over, flows = (
        np.array([row[name] for row in rows])
        for name in ("tau", "n_data_sets", "expected", "over_particles", "over_flows")
    )
    fitted = np.array(found.taus(BROWNIAN[0], 100))
    shared = [found.shared_variance(t, 100) for t in fitted]
    used = tau <= 1.2 * fitted[-1]
    effect = 999 * np.interp(np.log(tau[used]), np.log(fitted), shared)
    x = tau / found.scale("eddy_turnover_time")
    guide, ink, other = colours
    ax.errorbar(
        x,
        100 * flows,
        100 * flows / np.sqrt(2 * (n - 1)),
        fmt="o",
        ms=3,
        color=ink,
        lw=1,
        label="measured",
    )
    ax.plot(x, 100 * expected, color=guide, label="independent particles")
    alone = expected[used] * np.sqrt(1 + effect)
    ax.plot(x[used], 100 * alone, color=other, ls="--", label="shared flow")
    both = np.sqrt(over[used] ** 2 + expected[used] ** 2 * effect)
    ax.plot(x[used], 100 * both, color=other, label="and heterogeneous particles")
    ax.set(ylabel="spread of κ, 1000 particles, %", ylim=(0, None))


def tables() -> list[str]:
    """Return all tables of the page."""
    evidence = evidence_table("paper", 100, 100), evidence_table("laptop", 400, 100)
    return [*evidence, nu_table(), together_table(), effective_table(), pair_table(), alone_table()]


if __name__ == "__main__":
    print(*tables(), draw(), sep="\n\n")
