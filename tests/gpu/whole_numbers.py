"""Tensors of small whole numbers, and results on them as text that must be equal between two runs, whatever their
algorithms."""

import hashlib

import numpy


def whole(shape, one_in, seed):
    """Returns -1 and 1 in one of `one_in` places on average, 0 elsewhere."""
    random = numpy.random.default_rng(seed)
    return random.choice([-1.0, 1.0], shape) * (random.integers(0, one_in, shape) == 0)


def checksum(*arrays):
    """Returns the checksum of the arrays rounded to whole numbers, or 'off by X' if one is too far off to be only rounded."""
    digest = hashlib.sha256()
    for array in arrays:
        values = numpy.asarray(array, dtype=numpy.float64)
        rounded = numpy.rint(values)
        off = numpy.abs(values - rounded).max()
        if not off < 0.25:
            return f"off by {off}"
        digest.update((rounded + 0.0).tobytes())  # -0 is 0
    return digest.hexdigest()[:16]
