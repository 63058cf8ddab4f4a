"""Try every model with its options on every kind of data and for every use; write the results.

    python tools/support_matrix.py run docs/figures/support.json     # a quarter of an hour; resumes
    python tools/support_matrix.py page docs/figures/support.json docs/support.md

A combination either works or raises a `DriftbayesError`; anything else is listed at the
end, with exit code 1. The tests verify the numbers.
"""

import argparse
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from driftbayes.data._sampling import Displacements
    from driftbayes.data._trajectories import Trajectories
    from driftbayes.inference import Hypothesis, PosteriorDraws

TAU = 0.5
_BROKEN = "BROKEN:"
_PER_POOL = 6
# Models to try, with and without a state-space form, and their kinds of data.
FAMILIES = {"langevin": "RIE", "matern": "R"}
CHAINS = (
    "",
    "+noise",
    "+blur",
    "+blur+noise",
    "+mean",
    "+blur+noise+mean",
    "+linear",
    "+noise+linear",
    "+anisotropic",
    "+anisotropic+mean",
    "+blur+anisotropic",
    "+scatter",
    "+blur+scatter",
    "+student",
    "+noise+student",
    "+noise+outliers",
    "*2",
    "+noise*2",
    "+rotating",
    "+noise+mean+rotating",
)
# Letter and description of each kind of data.
KINDS = {
    "R": "regular, exact",
    "I": "irregular times, or missing positions with gaps kept",
    "E": "errors given: an sd column, or `--noise`",
}
USES = {
    "likelihood": "`compare`, `scan`",
    "simulate": "`simulate`",
    "draws": "draws",
    "predict": "`predict`",
    "score": "`score`",
    "check": "`check`",
    "export": "`export`",
    "datatree": "ArviZ",
}


def jobs() -> list[tuple[str, str]]:
    """List every model with every chain of options, and each kind of data it is tried on."""
    return [
        (family + chain, kind)
        for family, kinds in FAMILIES.items()
        for chain in CHAINS
        for kind in kinds
    ]


def tracks_of(kind: str) -> "Trajectories":
    """Return a small data set: eight particles with velocity memory."""
    from driftbayes.data._trajectories import Trajectories

    rng = np.random.default_rng(7)
    n_particles, n_times = 8, 14
    velocity = np.zeros((n_particles, n_times, 2))
    for i in range(1, n_times):
        kick = rng.normal(size=(n_particles, 2))
        velocity[:, i] = 0.6 * velocity[:, i - 1] + 0.8 * kick
    x = np.cumsum(velocity, axis=1) * TAU + rng.normal(size=(n_particles, 1, 2))
    times = np.arange(n_times) * TAU
    if kind == "I":
        times = times + rng.uniform(-0.2, 0.2, size=n_times) * TAU
        x[:, 6] = np.nan
    if kind == "E":
        return Trajectories.from_arrays(
            x, times=times, position_sd=np.full((n_particles, n_times), 0.05)
        )
    return Trajectories.from_arrays(x, times=times)


def hypothesis_of(name: str) -> "Hypothesis":
    """Return the model with default priors of scale one."""
    from driftbayes.comparison import make_hypotheses
    from driftbayes.models import MODELS, model_named
    from driftbayes.priors import Fixed

    given = {
        parameter: Fixed(0.2)
        for parameter in model_named(name, MODELS).parameters
        if parameter.startswith("exposure")
    }
    (hypothesis,) = make_hypotheses([name], priors=given, u_rms=1.0, timescale=1.0).hypotheses
    return hypothesis


def draws_of(hypothesis: "Hypothesis", data: "Displacements") -> "PosteriorDraws":
    """Draw from the prior, to try uses of draws without inference."""
    import jax

    from driftbayes.inference import Hypothesis, PosteriorDraws, evidence
    from driftbayes.models import MODELS, model_named
    from driftbayes.priors import Exponential

    plain = Hypothesis(model_named("brownian", MODELS), kappa=Exponential(mean=1.0))
    record = evidence(plain, data)
    keys = jax.random.split(jax.random.key(3), len(hypothesis.names))
    theta = np.stack(
        [
            np.asarray(hypothesis.priors[name].sample(key, (4,)))
            for name, key in zip(hypothesis.names, keys, strict=True)
        ],
        axis=1,
    )
    record = replace(record, hypothesis=hypothesis)
    return PosteriorDraws(hypothesis, theta, np.zeros(4), record, 0)


def uses_of(name: str) -> tuple[str, ...]:
    """List the uses to try; draws only for `langevin`, because others take minutes to compile."""
    is_quick = name.startswith("langevin") and "&" not in name
    return tuple(use for use in USES if is_quick or use != "draws")


def tried(name: str, kind: str, uses: tuple[str, ...] | None = None) -> dict[str, str]:
    """Try each use; return an empty text if it works, else the error message."""
    uses = uses_of(name) if uses is None else uses
    from driftbayes.data._sampling import displacements
    from driftbayes.errors import DriftbayesError
    from driftbayes.models import MODELS, model_named

    tracks = tracks_of(kind)
    tau = None if kind == "I" else TAU
    data = displacements(tracks, tau, gaps="keep")
    try:
        model_named(name, MODELS)
        hypothesis = hypothesis_of(name)
    except DriftbayesError as error:
        return dict.fromkeys(uses, str(error))
    actions = _actions(hypothesis, data, tracks, tau)
    found = {}
    for use in uses:
        try:
            actions[use]()
            found[use] = ""
        except DriftbayesError as error:
            found[use] = str(error)
        except Exception as error:
            # An unexpected error: continue, and fail at the end.
            found[use] = f"{_BROKEN} {type(error).__name__}: {error}"[:500]
    return found


def _actions(
    hypothesis: "Hypothesis", data: "Displacements", tracks: "Trajectories", tau: float | None
) -> dict[str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    from driftbayes.checks._innovations import Layout, Score, Whitener
    from driftbayes.checks._replicas import Replicator, check_replicable, mean_flows
    from driftbayes.errors import DriftbayesError
    from driftbayes.inference import posterior_draws
    from driftbayes.inference._draws import to_datatree
    from driftbayes.prediction._forecast import predict_particles
    from driftbayes.prediction._predict import predict
    from driftbayes.prediction._scores import prequential
    from driftbayes.simulators._long_time import Estimate, dispersion

    draws = draws_of(hypothesis, data)

    def likelihood() -> None:
        model = hypothesis.at(jnp.asarray(draws.theta[0]))
        value = float(model.log_likelihood(data))
        if not np.isfinite(value):
            raise ArithmeticError(f"{hypothesis.name}: ln L is {value}")

    def simulate() -> None:
        model = hypothesis.at(jnp.asarray(draws.theta[0]))
        x = model.simulate(jax.random.key(1), n_particles=3, n_steps=4, n_dim=2, tau=TAU)
        if not np.isfinite(np.asarray(x)).all():
            raise ArithmeticError(f"{hypothesis.name}: simulated positions are not finite")

    def prediction() -> None:
        predict([draws], [1.0, 2.0], probabilities=[1.0], n_dim=2)
        predict_particles([draws], tracks, [1.0], tau=tau, n_members=2, probabilities=[1.0])

    def score() -> None:
        prequential([hypothesis], data, method="laplace")

    def posterior() -> None:
        # Laplace's method compiles fastest; its status does not matter here.
        try:
            posterior_draws(hypothesis, data, n_draws=20, method="laplace", coords="log")
        except DriftbayesError as error:
            if "Laplace" not in str(error):
                raise
            posterior_draws(hypothesis, data, n_draws=20, method="laplace_is")

    def check() -> None:
        layout = Layout(data)
        check_replicable(hypothesis.model, layout)
        replicas = Replicator(draws, layout, 1)(range(2))
        flows = mean_flows(hypothesis, draws.theta[:1], layout)
        flow = None if flows is None else flows[0][0]
        white = Whitener(hypothesis, draws.theta[0], layout, flow)(replicas)
        scores = Score(hypothesis, draws.theta[0], layout)(replicas)
        if not (np.isfinite(white).all() and np.isfinite(scores).all()):
            raise ArithmeticError(f"{hypothesis.name}: innovations or scores are not finite")

    def exported() -> None:
        values = hypothesis.values(jnp.asarray(draws.theta[0]))
        estimates = {
            name: Estimate(float(v), 0.0, float(v), float(v), "") for name, v in values.items()
        }
        if "scatter" in estimates:
            estimates["scatter"] = Estimate(0.3, 0.01, 0.3, 0.3, "")
        dispersion(hypothesis.model, estimates)

    return {
        "likelihood": likelihood,
        "simulate": simulate,
        "draws": posterior,
        "predict": prediction,
        "score": score,
        "check": check,
        "export": exported,
        "datatree": partial(to_datatree, draws, data),
    }


def _job(job: tuple[str, str]) -> dict[str, Any]:
    import jax

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    # Every program runs once or twice, so compilation takes most of the time.
    jax.config.update("jax_disable_most_optimizations", True)  # noqa: FBT003
    # Drop the programs of other models, which fill the memory.
    jax.clear_caches()
    name, kind = job
    return {"model": name, "kind": kind, "uses": tried(name, kind)}


def page(rows: list[dict[str, Any]]) -> str:
    """Format the page of the documentation."""
    table: dict[str, dict[str, str]] = {}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        blank = {use: "" if use in row["uses"] else "·" for use in USES}
        cells = table.setdefault(row["model"], blank)
        for use, refusal in row["uses"].items():
            if not refusal:
                cells[use] += row["kind"]
            else:
                text = refusal.replace(row["model"], "MODEL")
                reasons.setdefault(text, []).append(f"{row['model']} ({row['kind']}, {use})")
    never = [
        name for name, cells in table.items() if not any(set(c) - {"·"} for c in cells.values())
    ]
    lines = [
        "# Supported combinations",
        "",
        "Look up which model and options support which data and commands. Every combination was "
        "tried (`python tools/support_matrix.py`); the others are refused with a message.",
        "",
        "Kinds of data: "
        + "; ".join(f"**{letter}** {words}" for letter, words in KINDS.items())
        + ". A letter marks a supported combination, – none, · not tried (draws need only the "
        "likelihood).",
        "",
        "`langevin` represents all models with a state-space form (`driftbayes models`), `matern`, "
        "tried on regular data only, those without. Sums (`a&b`) support the options of their "
        "components; they were not tried.",
        "",
        "| model | " + " | ".join(USES.values()) + " |",
        "|---" * (1 + len(USES)) + "|",
    ]
    lines += [
        f"| `{name}` | " + " | ".join(cells[use] or "–" for use in USES) + " |"
        for name, cells in table.items()
        if name not in never
    ]
    lines += ["", "## Refusals", "", "Not supported for any data or command:", ""]
    lines += [f"- `{name}`: {_reason(name, rows)}." for name in never]
    lines += ["", "Messages for combinations that some data or commands do not support:", ""]
    shown = {text: where for text, where in reasons.items() if not _is_of(where, never)}
    lines += [f"- *{text}*" for text in sorted(shown)]
    return "\n".join(lines) + "\n"


def _reason(name: str, rows: list[dict[str, Any]]) -> str:
    return next(row["uses"]["likelihood"] for row in rows if row["model"] == name)


def _is_of(where: list[str], never: list[str]) -> bool:
    return all(place.split(" (")[0] in never for place in where)


def main() -> int:
    """Run the matrix, or write its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="try every combination")
    run.add_argument("output", type=Path)
    run.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    write = commands.add_parser("page", help="write the page from the results")
    write.add_argument("results", type=Path)
    write.add_argument("output", type=Path)
    args = parser.parse_args()
    if args.command == "page":
        args.output.write_text(page(json.loads(args.results.read_text())), encoding="utf-8")
        return 0
    rows = json.loads(args.output.read_text()) if args.output.exists() else []
    todo = jobs()[len(rows) :]
    # Replace processes regularly: compiled programs use up the memory mappings that Linux allows.
    for start in range(0, len(todo), _PER_POOL):
        with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
            rows += list(pool.map(_job, todo[start : start + _PER_POOL]))
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        args.output.write_text(f"{text}\n", encoding="utf-8")
        print(f"{len(rows)} of {len(jobs())}", flush=True)
    broken = [
        f"{row['model']} ({row['kind']}, {use}): {text}"
        for row in rows
        for use, text in row["uses"].items()
        if text.startswith(_BROKEN)
    ]
    print("\n".join(broken) if broken else "every combination works or raises DriftbayesError")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
