"""The simulator mixes real factors with complex modes, and vectors with stacks of them."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def usual_promotion():
    """JAX's own rules of promotion, which users have, instead of stricter ones."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def gpu_branches(monkeypatch):
    """Code that asks for the platform gets its GPU branch, which a CPU can run as well."""

    def other(*operands, default, **_):
        return default(*operands)

    monkeypatch.setattr(jax.lax, "platform_dependent", other)
