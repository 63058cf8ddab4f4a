"""Evidence and posterior of a hypothesis, by several methods."""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy
from driftbayes.inference import _describe  # noqa: F401  (registers descriptions)
from driftbayes.inference._batch import AnyData, Batch
from driftbayes.inference._evidence import QUANTILES, Evidence, ParameterEstimate
from driftbayes.inference._evidences import (
    evidence,
    evidence_batch,
    evidence_with_variants,
    log_evidences,
)
from driftbayes.inference._exact import LogEvidence, LogEvidences, exact, exact_batch
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._methods import (
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
    from driftbayes.inference._density import class_probabilities, log_likelihood
    from driftbayes.inference._draws import PosteriorDraws, posterior_draws
    from driftbayes.inference._laplace import laplace, laplace_batch
    from driftbayes.inference._scale import GammaForm, log_scale_evidence

__getattr__ = lazy(
    __name__,
    {
        "_draws": "PosteriorDraws posterior_draws",
        "_laplace": "laplace laplace_batch",
        "_density": "class_probabilities log_likelihood",
        "_scale": "GammaForm log_scale_evidence",
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
    "GammaForm",
    "Hypothesis",
    "Importance",
    "Laplace",
    "LogEvidence",
    "LogEvidences",
    "Method",
    "Nested",
    "ParameterEstimate",
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
    "log_scale_evidence",
    "posterior_draws",
]
