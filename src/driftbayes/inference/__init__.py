"""Evidence and posterior of a hypothesis, by several methods."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy
from driftbayes.inference import describe as _describe  # noqa: F401  (registers descriptions)
from driftbayes.inference._batch import AnyData, Batch
from driftbayes.inference.evidence import QUANTILES, Evidence
from driftbayes.inference.evidences import (
    evidence,
    evidence_batch,
    evidence_with_variants,
    log_evidences,
)
from driftbayes.inference.exact import LogEvidence, LogEvidences, exact, exact_batch
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.methods import (
    METHODS,
    SMC,
    Auto,
    Bridge,
    Exact,
    Importance,
    Laplace,
    Method,
    Nested,
    as_method,
)

if TYPE_CHECKING:
    from driftbayes.inference._laplace import laplace, laplace_batch
    from driftbayes.inference.density import class_probabilities, log_likelihood
    from driftbayes.inference.draws import PosteriorDraws, posterior_draws

__getattr__ = lazy(
    __name__,
    {
        "draws": "PosteriorDraws posterior_draws",
        "_laplace": "laplace laplace_batch",
        "density": "class_probabilities log_likelihood",
    },
)

__all__ = [
    "METHODS",
    "QUANTILES",
    "SMC",
    "AnyData",
    "Auto",
    "Batch",
    "Bridge",
    "Evidence",
    "Exact",
    "Hypothesis",
    "Importance",
    "Laplace",
    "LogEvidence",
    "LogEvidences",
    "Method",
    "Nested",
    "PosteriorDraws",
    "as_method",
    "class_probabilities",
    "evidence",
    "evidence_batch",
    "evidence_with_variants",
    "exact",
    "exact_batch",
    "laplace",
    "laplace_batch",
    "log_evidences",
    "log_likelihood",
    "posterior_draws",
]
