"""The court: a hypothesis and the data go in, an `Evidence` comes out."""

from collections.abc import Sequence
from typing import Literal

from driftbayes.errors import DriftbayesError
from driftbayes.inference._batch import Batch
from driftbayes.inference.evidence import QUANTILES, Evidence
from driftbayes.inference.exact import exact, exact_batch
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.laplace import Coords, laplace, laplace_batch
from driftbayes.sampling import Displacements

__all__ = [
    "METHODS",
    "QUANTILES",
    "Batch",
    "Evidence",
    "Hypothesis",
    "Method",
    "evidence",
    "evidence_batch",
    "exact",
    "exact_batch",
    "laplace",
    "laplace_batch",
]

Method = Literal["auto", "laplace"]
METHODS: tuple[Method, ...] = ("auto", "laplace")


def evidence(
    hypothesis: Hypothesis,
    data: Displacements | Batch,
    *,
    method: Method = "auto",
    coords: Coords = "natural",
) -> Evidence:
    """The evidence of one hypothesis.

    Args:
        hypothesis: Model family and prior.
        data: Displacements at one tau.
        method: "auto" integrates exactly; "laplace" is the paper's approximation.
        coords: Coordinates of Laplace's method.
    """
    return evidence_batch([hypothesis], data, method=method, coords=coords)[0]


def evidence_batch(
    hypotheses: Sequence[Hypothesis],
    data: Displacements | Batch,
    *,
    method: Method = "auto",
    coords: Coords = "natural",
) -> list[Evidence]:
    """Evidences of one hypothesis for several data sets, or of several priors for one data set."""
    batch = Batch.of(data) if isinstance(data, Displacements) else data
    if method == "auto":
        return exact_batch(hypotheses, batch)
    if method == "laplace":
        return laplace_batch(hypotheses, batch, coords=coords)
    msg = f"method must be one of {', '.join(METHODS)}, got {method!r}"
    raise DriftbayesError(msg)
