"""The interface of ucudnn.spatial.geometry.Library in plain Python, for tests without libucudnn. It applies the rule of
docs/spatial.md, "What is refused", and computes the rows that windows read. Needs no torch."""
import os

from ucudnn.spatial.errors import NotSupported
from ucudnn.spatial.geometry import BACKWARD_DATA, Library, Rows
from ucudnn.spatial.grid import owned


def geometries():
    """Yields PlainGeometry and, if UCUDNN_TEST_LIBRARY is set, libucudnn's geometry. Raises if the library cannot be
    loaded or lacks ucudnnSpatialGetRows."""
    yield PlainGeometry()
    if path := os.environ.get("UCUDNN_TEST_LIBRARY"):
        yield Library(path)


def tested_geometry():
    """Returns the geometry for the ranks of a test: libucudnn's if UCUDNN_TEST_LIBRARY is set, otherwise
    PlainGeometry."""
    return list(geometries())[-1]


class PlainGeometry:
    def rows(self, operation, window, extents, part):
        k, s, p = window.extent, window.stride, window.pad
        if len(extents) > 1 and not k - s <= 2 * p <= k - 1:
            raise NotSupported(f"windows of extent {k} and stride {s} go on across a cut with the pad {p}")
        outputs = []
        for i, extent in enumerate(extents):
            if i + 1 < len(extents) and extent % s:
                raise NotSupported(f"part {i} of {len(extents)} has extent {extent}, which the stride {s} does not divide")
            outputs.append((extent + 2 * p - k) // s + 1)
            if outputs[-1] < 1:
                raise NotSupported(f"part {i} of {len(extents)} has no window: extent {extent}")
        x, y = owned(extents)[part], owned(outputs)[part]
        if operation == 0:
            own, first, last = x, max(0, y[0] * s - p), min(sum(extents), (y[1] - 1) * s - p + k)
        else:
            own, first, last = y, max(0, -(-(x[0] + p - k + 1) // s)), min(sum(outputs), (x[1] - 1 + p) // s + 1)
            assert operation == BACKWARD_DATA
        return Rows(x, y, (min(own[0], first), max(own[1], last)))

    def sum_nothing(self):
        pass

    def split_thread(self, split):
        pass
