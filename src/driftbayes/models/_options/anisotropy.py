"""Anisotropic diffusion: a diffusivity tensor."""

from collections.abc import Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float

from driftbayes._jax_typing import Key, Leaf, Positions, Scalar, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.errors import DriftbayesError, expect
from driftbayes.likelihood import Collected, GaussianTerms
from driftbayes.models._base import AbstractModel, Kind, Parameter, fact
from driftbayes.models._options._base import AbstractOption
from driftbayes.models._options.flows import flow_terms

# An orthonormal basis of the symmetric matrices of zero trace, so that equal priors of the
# coefficients are isotropic.
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


def n_components(n_dim: int) -> int:
    """Return the number of components of H in two or three dimensions."""
    if n_dim not in _BASES:
        msg = f"anisotropy needs two or three dimensions, got {n_dim}; omit it"
        raise DriftbayesError(msg)
    return len(_BASES[n_dim])


def _as_leaves(values: Iterable[Any]) -> tuple[Any, ...]:
    """Convert components of H to leaves."""
    wanted = "a tuple of two or five components, for example (Normal(0, 1), Normal(0, 1))"
    expect(values, Iterable, "h", wanted)
    return tuple(as_leaf(value) for value in values)


class Anisotropic(AbstractOption):
    r"""The model with a diffusivity tensor $K = k\,e^H$, H symmetric and of zero trace.

    The scale k is the geometric mean of the principal diffusivities. H has two components in two
    dimensions and five in three, in an orthonormal basis: normal priors of equal width are
    isotropic.

    Args:
        base: The wrapped model.
        h: Components of H, two or five; as parameters `h1`, `h2`, ...

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Anisotropic(langevin, h=(db.Normal(0, 1), db.Normal(0, 1))).name
        'langevin+anisotropic'
    """

    h: tuple[Leaf, ...] = eqx.field(converter=_as_leaves)

    option: ClassVar[str] = "anisotropic"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, with a diffusivity tensor")
    own: ClassVar[dict[str, Parameter]] = fact(
        lambda self: {
            name: Parameter(name, "component of H in K = k exp(H), of zero trace", 0, 0)
            for name in (f"h{i + 1}" for i in range(len(self.h)))
        }
    )
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as H → 0")
    kind: ClassVar[Kind] = "channels"
    has_derived: ClassVar[bool] = True
    exact_positions: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if len(self.h) not in (2, 5):
            msg = f"H has 2 components in two dimensions and 5 in three, got {len(self.h)}"
            raise DriftbayesError(msg)

    def own_values(self) -> tuple[Any, ...]:
        return self.h

    def rebuilt(self, base: AbstractModel, own: list[Any]) -> AbstractModel:
        return Anisotropic(base, tuple(own))

    @property
    def _basis(self) -> np.ndarray:
        """Basis of H."""
        return _BASES[2 if len(self.h) == 2 else 3]

    def shape_tensor(self) -> Float[Array, "dim dim"]:
        """Return exp H, the tensor of unit determinant that multiplies the scale."""
        return self._power(1.0)

    def terms(self, sums: Collected) -> GaussianTerms:
        terms = sums.parts[0]
        return flow_terms(terms, self.inverse_shape(terms.n_dim), jnp.zeros(1))

    def inverse_shape(self, n_dim: int) -> Float[Array, "dim dim"]:
        if n_dim != self._basis.shape[-1]:
            raise DriftbayesError(
                f"{self.name} is for {self._basis.shape[-1]} dimensions, the data have {n_dim}; "
                "name the model anew for them"
            )
        return self._power(-1.0)

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the diffusivity tensor and the ratio of its extreme eigenvalues."""
        tensor = self.value_of(self.scale_parameter) * self.shape_tensor()
        n = len(tensor)
        own = {f"K_{i + 1}{j + 1}": tensor[i, j] for i in range(n) for j in range(i, n)}
        widths = jnp.linalg.eigvalsh(tensor)
        return {**own, "K_max_over_min": widths[-1] / widths[0]}

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        return positions @ self._power(0.5)

    def _power(self, exponent: float) -> Float[Array, "dim dim"]:
        """Compute exp(exponent · H)."""
        h = jnp.einsum("c,cij->ij", jnp.stack([*self.h]), jnp.asarray(self._basis))
        return jax.scipy.linalg.expm(exponent * h)
