"""Makes tensors of small whole numbers, and checksums of results computed from them. The checksums of two runs must be
equal, whatever algorithms the runs use."""

import hashlib

import numpy


def whole(shape, one_in, seed):
    """Returns an array that is -1 or 1 in one of `one_in` places on average, and 0 elsewhere."""
    random = numpy.random.default_rng(seed)
    return random.choice([-1.0, 1.0], shape) * (random.integers(0, one_in, shape) == 0)


def checksum(*arrays):
    """Returns the checksum of the arrays rounded to whole numbers. If an element is 0.25 or more off a whole number, which
    rounding alone does not explain, returns 'off by X'."""
    digest = hashlib.sha256()
    for array in arrays:
        values = numpy.asarray(array, dtype=numpy.float64)
        rounded = numpy.rint(values)
        off = numpy.abs(values - rounded).max()
        if not off < 0.25:
            return f"off by {off}"
        digest.update((rounded + 0.0).tobytes())  # adding 0.0 turns -0.0 into 0.0
    return digest.hexdigest()[:16]
