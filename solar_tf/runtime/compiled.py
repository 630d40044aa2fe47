"""numba's compiler as all kernels use it: cached on disk, without the GIL."""

from numba import njit

compiled = njit(cache=True, nogil=True)
