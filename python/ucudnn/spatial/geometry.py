"""The rows of a cut axis that each part owns and that its windows need. Every answer comes from libucudnn
(ucudnnSpatialGetRows), possibly for a larger window, so this module and the exchange inside cuDNN's calls always agree.
Needs no torch."""
import ctypes
import functools
import os
import pathlib
from dataclasses import dataclass

from .errors import NotSupported
from .grid import AXES, owned

FORWARD, BACKWARD_DATA, BACKWARD_FILTER = range(3)
_OK, _NOT_SUPPORTED = 0, 3000  # cudnnStatus_t


class _Axis(ctypes.Structure):  # ucudnnSpatialAxis_t
    _fields_ = [("struct_size", ctypes.c_size_t), ("operation", ctypes.c_int), ("filter", ctypes.c_int),
                ("stride", ctypes.c_int), ("pad", ctypes.c_int), ("dilation", ctypes.c_int), ("parts", ctypes.c_int),
                ("extents", ctypes.POINTER(ctypes.c_int64))]


class _Rows(ctypes.Structure):  # ucudnnSpatialRows_t
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_int64) for name in ("x_begin", "x_end", "y_begin", "y_end", "needed_begin", "needed_end")]


@dataclass(frozen=True)
class Window:
    filter: int
    stride: int = 1
    pad: int = 0
    dilation: int = 1

    @property
    def extent(self):
        return (self.filter - 1) * self.dilation + 1


@dataclass(frozen=True)
class Rows:
    """The rows of one part, counted in the whole image. `x`, `y`: the rows that it owns. `needed`: the rows that it
    needs of the exchanged tensor (x in forward, y for gradients), including its own."""
    x: tuple
    y: tuple
    needed: tuple


class Library:
    """libucudnn. `rows` returns the Rows of one part; raises NotSupported with the library's reason."""

    def __init__(self, path=None):
        path = str(path or _path())
        try:
            self.library = ctypes.CDLL(path)
        except OSError as error:
            raise OSError(f"{path} cannot be loaded ({error}): set UCUDNN_LIBRARY to the path of libucudnn.so.1, or install "
                          "the wheel, which has it") from None
        self._rows = self._function("ucudnnSpatialGetRows", ctypes.POINTER(_Axis), ctypes.c_int, ctypes.POINTER(_Rows))
        self.library.ucudnnGetLastError.restype = ctypes.c_char_p

    def _function(self, name, *arguments):
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise NotSupported(f"{self.library._name} has no {name}: it is older than this module: install both of one release") from None
        function.argtypes, function.restype = arguments, ctypes.c_int
        return function

    def rows(self, operation, window, extents, part):
        row_counts = (ctypes.c_int64 * len(extents))(*extents)
        axis = _Axis(ctypes.sizeof(_Axis), operation, window.filter, window.stride, window.pad, window.dilation,
                     len(extents), row_counts)
        rows = _Rows(ctypes.sizeof(_Rows))
        status = self._rows(axis, part, rows)
        if status == _NOT_SUPPORTED:
            raise NotSupported(self._why())
        if status != _OK:
            raise ValueError(f"ucudnnSpatialGetRows: status {status}: {self._why()}")
        return Rows((rows.x_begin, rows.x_end), (rows.y_begin, rows.y_end), (rows.needed_begin, rows.needed_end))

    def _why(self):
        why = self.library.ucudnnGetLastError().decode()
        return why.removeprefix("ucudnnSpatialGetRows: ").removeprefix("h: ")  # the caller adds the axis

    def sum_nothing(self):
        """Tells libucudnn not to sum gradients, because this package does."""
        function = self._function("ucudnnSpatialSetReduce", ctypes.c_int)
        if status := function(0):
            raise NotSupported(f"ucudnnSpatialSetReduce(none) fails with status {status}: {self._why()}")

    def split_thread(self, split):
        """`split`: whether cuDNN calls of the calling thread are for stripes from now on. If false they are local, for
        operations whose rows this package has fetched itself."""
        function = self._function("ucudnnSpatialEnableThread", ctypes.c_int)
        if status := function(int(split)):
            raise NotSupported(f"ucudnnSpatialEnableThread fails with status {status}")


def _path():
    beside = pathlib.Path(__file__).resolve().parents[1] / "lib/libucudnn.so.1"
    return os.environ.get("UCUDNN_LIBRARY") or (beside if beside.exists() else "libucudnn.so.1")


@functools.lru_cache(maxsize=None)
def all_rows(geometry, operation, window, extents):
    """Returns a tuple with the Rows of every part."""
    return tuple(geometry.rows(operation, window, extents, part) for part in range(len(extents)))


@dataclass(frozen=True)
class Read:
    """A window that slides over one cut axis. Each part computes some of the outputs."""
    outputs: tuple  # number of rows of y, by part
    reads: tuple  # by part, [begin, end) of x, counted from the image's first row; may extend beyond the image
    needed: tuple  # by part, the rows of the image in `reads`, joined with the part's own rows
    is_own_call: bool = True  # `outputs` are what each part's own call of cuDNN computes, so ucudnn can exchange inside it


def windows(geometry, axis, window, extents, front, back):
    """Returns the Read of windows over an axis with `front` and `back` rows of padding; `window.pad` is not used.
    libucudnn knows only windows with equal padding on both sides. So it is asked about a window with equal padding
    that has the same outputs, counted from the first row or from the last. There may be no such window, or a part would
    have fewer than one output per `stride` rows. Then libucudnn is asked about a larger window, and the last part has
    fewer outputs."""
    total = sum(extents)
    count = (total + front + back - window.extent) // window.stride + 1
    rest = (total + front + back - window.extent) % window.stride
    why = None
    for step, pad in ((1, front), (-1, back - rest)):
        if pad < 0 or (total + 2 * pad - window.extent) // window.stride + 1 != count:
            continue
        try:
            rows = all_rows(geometry, FORWARD, Window(window.filter, window.stride, pad, window.dilation), extents[::step])
        except NotSupported as refusal:
            why = why or f"{AXES[axis]}: {refusal}"
            continue
        if step < 0:
            rows = tuple(Rows(_mirror(r.x, total), _mirror(r.y, count), _mirror(r.needed, total))
                         for r in reversed(rows))
        return _read(window, front, rows)
    if all(extent % window.stride == 0 for extent in extents[:-1]) and sum(extents[:-1]) // window.stride >= count:
        raise NotSupported(f"{AXES[axis]}: {count} windows of extent {window.extent} and stride {window.stride} over {total} rows "
                           f"with {front} rows of padding before and {back} behind them leave none to the last of "
                           f"{len(extents)} parts, of {extents[-1]} rows: use larger images or fewer ranks")
    # a larger window always has enough padding, so its refusal is the one to report
    is_small = front + back < window.extent - window.stride
    behind = max(back, window.extent - window.stride - front)
    pad = max(front, behind)
    larger = Window(window.extent + 2 * pad - front - behind, window.stride, pad)
    try:
        rows = all_rows(geometry, FORWARD, larger, extents)
    except NotSupported as refusal:
        raise NotSupported(why if why and not is_small else f"{AXES[axis]}: {refusal}") from None
    last = rows[-1]
    rows = (*rows[:-1], Rows(last.x, (last.y[0], min(last.y[1], count)), last.needed))
    return _read(window, front, rows, is_larger=True)


def _mirror(interval, total):
    return total - interval[1], total - interval[0]


def _read(window, front, rows, is_larger=False):
    """Returns the Read for libucudnn's `rows`. `is_larger`: the rows are for a larger window, so the windows need not
    read all of them."""
    reads = tuple((r.y[0] * window.stride - front, (r.y[1] - 1) * window.stride - front + window.extent) for r in rows)
    total, needed = rows[-1].x[1], []
    for (begin, end), r in zip(reads, rows):
        needed.append((min(max(begin, 0), r.x[0]), max(min(end, total), r.x[1])))
        if needed[-1] != r.needed and not (is_larger and r.needed[0] <= needed[-1][0] and needed[-1][1] <= r.needed[1]):
            raise AssertionError(f"libucudnn's {r} does not read {begin} to {end}")
    return Read(tuple(r.y[1] - r.y[0] for r in rows), reads, tuple(needed), not is_larger)


def transposed_windows(geometry, axis, window, extents, output_padding):
    """Returns (rows of output by part, rows of input needed by part) of a transposed convolution whose input has
    `extents` rows. To libucudnn, this output is the x of a convolution. Each row of input gives `stride` rows of
    output. If the whole output has more or fewer rows, the first part gets half of the difference and the last part the
    rest, because programs crop or pad at both ends. libucudnn is then asked about a convolution without the difference.
    The window of that convolution is at least as large as `window`."""
    more = window.extent - 2 * window.pad + output_padding - window.stride
    outputs = tuple(extent * window.stride for extent in extents)
    if len(extents) == 1 or more == 0:
        outputs = (*outputs[:-1], outputs[-1] + more)
        expected, asked = outputs, window
    else:
        front = more // 2
        pad = max(0, window.pad + front, window.extent - window.stride - window.pad - front)
        expected, asked = outputs, Window(window.stride + 2 * pad, window.stride, pad)
        outputs = (outputs[0] + front, *outputs[1:-1], outputs[-1] + more - front)
    if min(outputs) < 1:
        raise NotSupported(f"{AXES[axis]}: a transposed convolution of {extents} rows gives {outputs} rows")
    try:
        rows = all_rows(geometry, BACKWARD_DATA, asked, expected)
    except NotSupported as refusal:
        raise NotSupported(f"{AXES[axis]}: {refusal}") from None
    if tuple(r.y for r in rows) != tuple(owned(extents)):
        raise NotSupported(f"{AXES[axis]}: stripes of {extents} rows are not what its convolution would give")
    return outputs, tuple(r.needed for r in rows)
