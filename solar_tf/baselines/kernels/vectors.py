"""Sums over float32 vectors, compiled: the innermost loops of SLEEC, SLICE and AnnexML."""

import numpy as np
from numba import njit

# Sums in any order and divisions that never raise: LLVM then fills whole vector registers.
fast = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")


@fast
def dot(a, b):
    total = np.float32(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@fast
def add_scaled(total, scale, vector):
    """total += scale * vector."""
    for i in range(len(total)):
        total[i] += scale * vector[i]
