"""Symmetric matrices as their upper triangles: half the size on disk."""

__all__ = ["n_steps_of", "pack", "unpack"]

import math

import numpy as np

from driftbayes.typing import FloatArray


def pack(matrices: FloatArray) -> FloatArray:
    """Upper triangles, (..., step, step) to (..., entry)."""
    return matrices[(..., *np.triu_indices(matrices.shape[-1]))]


def unpack(entries: FloatArray) -> FloatArray:
    """Symmetric matrices again, (..., entry) to (..., step, step)."""
    n_steps = n_steps_of(entries.shape[-1])
    rows, columns = np.triu_indices(n_steps)
    out = np.empty((*entries.shape[:-1], n_steps, n_steps))
    out[..., rows, columns] = entries
    out[..., columns, rows] = entries
    return out


def n_steps_of(n_entries: int) -> int:
    """Size of the matrix whose upper triangle has so many entries."""
    return (math.isqrt(8 * n_entries + 1) - 1) // 2
