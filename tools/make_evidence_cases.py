"""Store exact evidences of many models on small data, before changing an engine.

    python tools/make_evidence_cases.py tests/golden/evidence_cases.json

Each case is a model with its options on one of four data sets, under default priors of scale one.
The stored numbers come from the code that is to be replaced: they show that nothing changed, not
that it is correct, which other tests verify.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from support_matrix import hypothesis_of, tracks_of

if TYPE_CHECKING:
    from driftbayes.inference import Evidence

CASES = {
    "R": (
        *("brownian", "langevin", "fractional", "confined_brownian", "second_order", "matern"),
        *("oscillating", "confined", "two_scale", "brownian+noise", "langevin+noise"),
        *("confined_brownian+noise", "brownian+mean", "langevin+mean", "brownian+linear"),
        *("brownian+anisotropic", "langevin+anisotropic", "brownian+scatter", "langevin+scatter"),
        *("brownian+student", "brownian+blur", "langevin+blur", "brownian*2"),
        *("oscillating+rotating", "brownian+blur+noise"),
    ),
    "I": (
        *("brownian", "langevin", "second_order", "oscillating", "confined", "brownian+noise"),
        *("langevin+noise", "langevin+mean", "brownian+blur", "brownian+scatter", "brownian+mean"),
        *("confined_brownian",),
    ),
    "E": ("brownian", "langevin", "confined", "brownian+mean"),
}


def evidence_of(name: str, kind: str) -> "Evidence":
    """Compute the exact evidence of one case."""
    from driftbayes.data._sampling import displacements
    from driftbayes.inference import evidence

    data = displacements(tracks_of(kind), None if kind == "I" else 0.5, gaps="keep")
    return evidence(hypothesis_of(name), data, method="quadrature")


def main() -> int:
    """Compute all cases and write them."""
    import jax

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    rows: list[dict[str, Any]] = []
    for kind, names in CASES.items():
        for name in names:
            found = evidence_of(name, kind)
            rows.append(
                {
                    "model": name,
                    "data": kind,
                    "log_evidence": found.log_evidence,
                    "log_evidence_err": found.log_evidence_err,
                    "posterior_mean": found.posterior_mean,
                    "posterior_sd": found.posterior_sd,
                    "status": found.status.value,
                }
            )
            print(f"{kind} {name}: {found.log_evidence:.9f} {found.status.value}", flush=True)
            if len(rows) % 8 == 0:
                jax.clear_caches()
    if not np.isfinite([row["log_evidence"] for row in rows]).all():
        print("some evidences are not finite")
        return 1
    Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
