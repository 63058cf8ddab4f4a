"""Anisotropy: a diffusivity tensor in place of one number."""

__all__ = ["with_anisotropy"]

from functools import cache
from typing import Any, ClassVar

import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import GaussianTerms
from driftbayes.models._base import AbstractModel, Channels, Parameter
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption, check_base, with_own
from driftbayes.models.options.mean_flow import flow_terms
from driftbayes.precision import as_number

# An orthonormal basis of the symmetric matrices of zero trace, so that equal priors of its
# coefficients single out no direction of space.
_BASES = {
    2: np.array([[[1, 0], [0, -1]], [[0, 1], [1, 0]]]) / np.sqrt(2),
    3: np.array(
        [
            np.diag([1, -1, 0]) / np.sqrt(2),
            np.diag([1, 1, -2]) / np.sqrt(6),
            np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) / np.sqrt(2),
            np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]) / np.sqrt(2),
            np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0]]) / np.sqrt(2),
        ]
    ),
}


@cache
def with_anisotropy(model: type[AbstractModel], n_dim: int) -> type[AbstractModel]:
    r"""The model with a diffusivity tensor $K = k\,e^H$, H symmetric and of zero trace.

    The scale k is then the geometric mean of the principal diffusivities. H has two components in
    two dimensions, five in three, in an orthonormal basis: normal priors of equal width make all
    directions of space alike.

    Args:
        model: The class of models.
        n_dim: Number of spatial dimensions, 2 or 3.
    """
    if n_dim not in _BASES:
        msg = f"anisotropy needs two or three dimensions, got {n_dim}; leave it out"
        raise DriftbayesError(msg)
    basis = _BASES[n_dim]
    own = [f"h{i + 1}" for i in range(len(basis))]

    check_base(model, "anisotropic")

    class Anisotropic(AbstractOption, of=model):
        h: Float[Array, " component"]

        name: ClassVar[str] = f"{model.name}+anisotropic"
        summary: ClassVar[str] = f"{model.summary}, with a diffusivity tensor"
        parameters: ClassVar[dict[str, Parameter]] = with_own(
            model,
            {
                name: Parameter(name, "component of H in K = k exp(H), of zero trace", 0, 0)
                for name in own
            },
        )
        limit: ClassVar[str] = f"{model.name}, as H → 0"
        kind: ClassVar[Kind] = "channels"
        exact_positions: ClassVar[bool] = True

        def __init__(self, **values: Any) -> None:
            self.h = jnp.stack([as_number(values.pop(name)) for name in own])
            self.base = model(**values)

        def shape_tensor(self) -> Float[Array, "dim dim"]:
            """The tensor of unit determinant, exp H, by which the scale is multiplied."""
            return self._power(1.0)

        def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
            if not isinstance(data, Channels):
                msg = f"{self.name} needs displacements by axis; prepare them for it"
                raise DriftbayesError(msg)
            terms = self.channel_terms(data)
            return flow_terms(terms, self.inverse_shape(terms.n_dim), jnp.zeros(1))

        def inverse_shape(self, n_dim: int) -> Float[Array, "dim dim"]:
            if n_dim != len(basis[0]):
                msg = (
                    f"{self.name} is for {len(basis[0])} dimensions, the data have {n_dim}; "
                    "name the model anew for them"
                )
                raise DriftbayesError(msg)
            return self._power(-1.0)

        def derived(self, data: Data) -> dict[str, Scalar]:
            """The diffusivity tensor, and how many times it is larger one way than the other."""
            tensor = self.value_of(self.scale_parameter) * self.shape_tensor()
            n = len(tensor)
            own = {f"K_{i + 1}{j + 1}": tensor[i, j] for i in range(n) for j in range(i, n)}
            widths = jnp.linalg.eigvalsh(tensor)
            return {**own, "K_max_over_min": widths[-1] / widths[0]}

        def changed(
            self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
        ) -> Float[Array, "particle position dim"]:
            return positions @ self._power(0.5)

        def _power(self, exponent: float) -> Float[Array, "dim dim"]:
            h = jnp.einsum("c,cij->ij", self.h, jnp.asarray(basis))
            return jax.scipy.linalg.expm(exponent * h)

    return Anisotropic
