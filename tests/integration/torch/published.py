"""Other systems for split images are tested with these lists of cases. The lists also say which cases the systems' own
rules excuse. The numbers come from the systems' tests: LBANN/DistConv 55ac373, LLNL/DiHydrogen d7d6e9c and
NVIDIA/physicsnemo 94b3551. A geometry decides which cases ucudnn.spatial supports. Needs no torch."""
import itertools
import math
from dataclasses import dataclass

from ucudnn.spatial import geometry
from ucudnn.spatial.errors import NotSupported
from ucudnn.spatial.geometry import FORWARD, Window
from ucudnn.spatial.grid import AXES, stripes


@dataclass(frozen=True)
class Case:
    """One layer on one grid. Tuples have one value for each spatial dimension; the last dimension is w."""
    list: str
    kind: str  # "conv", "transposed", "max", "average", "batch norm", "layer norm" (over the last dimension) or "group norm"
    size: tuple
    kernel: tuple
    stride: tuple
    pad: tuple
    grid: tuple  # number of parts along each dimension
    images: int = 1
    groups: int = 1  # number of groups of ranks; each group has its own images
    circular: bool = False
    backward: bool = True
    excused: str = ""  # why the system's own rules do not require the case; empty if they do
    norm_groups: int = 1
    affine: bool = True

    @property
    def key(self):
        """Returns the values on which unchanged() and converted() depend."""
        return self.kind, self.size, self.kernel, self.stride, self.pad, self.grid, self.groups, self.circular

    def grid_text(self):
        axes = AXES[3 - len(self.grid):]
        return (f"n{self.groups}" if self.groups > 1 else "") + "".join(
            f"{axis}{parts}" for axis, parts in zip(axes, self.grid) if parts > 1)


def _cube(list, kind, dims, size, kernel, stride, pad, cuts, **more):
    """Makes a case with `dims` dimensions. A single number is the value for all dimensions. `cuts` is {dimension:
    parts}."""
    grid = tuple(cuts.get(i, 1) for i in range(dims))
    def along(value):
        return (value,) * dims if isinstance(value, int) else tuple(value)
    return Case(list, kind, along(size), along(kernel), along(stride), along(pad), grid, **more)


# LBANN/DistConv runs its tests on four ranks, so cases that need eight ranks are excused.


def distconv():
    name = "DistConv"
    def one(dims, dim, k, parts=4, stride=1, **more):
        return _cube(name, "conv", dims, 64, k, stride, k // 2, {dim: parts}, **more)
    each = [(dims, dim, k) for dims in (1, 2, 3) for dim in range(dims) for k in (1, 3, 5)]
    yield from (one(*case) for case in each)
    yield from (_cube(name, "conv", dims, 64, k, stride, int(k == 3), {0: 4})
                for dims in (1, 2, 3) for k in (1, 2, 3) for stride in (2, 4))
    yield from (one(*case, parts, stride, circular=True, groups=4 // parts, images=4 // parts)
                for case in each for stride in (1, 2) for parts in (2, 4))
    yield from (one(*case, parts=1, groups=4, images=4) for case in each)
    yield from (one(*case, parts=2, groups=2, images=2) for case in each)
    # DistConv runs the next two lists with channels_last, without and with circular padding.
    yield from (one(dims, dim, k) for dims, dim, k in each if dims > 1)
    yield from (one(dims, dim, k, circular=True) for dims, dim, k in each if dims > 1 and k > 1)
    yield from (_cube(name, "conv", dims, 64, k, stride, k // 2, {i: 2, j: 2}, circular=circular)
                for dims in (2, 3) for i, j in itertools.permutations(range(dims), 2)
                for k in (1, 3, 5) for stride in (1, 2, 4) for circular in (False, True))
    both = {0: 2, 1: 2}
    for k in ((3, 5), (5, 3), (1, 3), (3, 1)):
        yield _cube(name, "conv", 2, 64, k, 1, [each // 2 for each in k], both)
    for k in ((3, 5), (5, 3)):
        yield _cube(name, "conv", 2, 64, k, 1, [each // 2 for each in k], both, circular=True)
    for stride in (1, 2):
        yield _cube(name, "conv", 2, 64, (3, 5), stride, (1, 2), both)
    eight = {"cuts": {0: 2, 1: 2, 2: 2}, "excused": "skipped on fewer than eight ranks"}
    for k, stride in itertools.product((1, 3, 5), (1, 2, 4)):
        yield _cube(name, "conv", 3, 64, k, stride, k // 2, **eight)
    for k in ((3, 5, 7), (1, 3, 5), (7, 3, 1)):
        yield _cube(name, "conv", 3, 32, k, 1, [each // 2 for each in k], **eight)


# The cases of LLNL/DiHydrogen's tests: of `test_distconv.sh --all` in two and three dimensions, for convolutions and
# for norms (--bn), and of test_pooling.sh.


def _factors(count, places):
    if places == 1:
        return [(count,)]
    return [(first, *rest) for first in range(1, count + 1) if count % first == 0
            for rest in _factors(count // first, places - 1)]


def _skipped(size, k, stride, is_padded, parts):
    if not is_padded and stride > 1:
        return "skipped: stride without padding"
    if len(parts) == 3 and parts[-1] > 1:
        return "skipped: innermost dimension cut"
    for each in parts:
        own = size // each + (k // 2 if is_padded else 0)
        outputs = math.trunc((own - k + 1) / stride)
        if each > size or size // each < k // 2 or outputs == 0 or outputs < k // 2:
            return "skipped: stripes too small"
    if not is_padded and size < k:
        return "skipped: image too small"
    return ""


def _shapes(dims):
    """Yields (groups, parts, images, size). Each comes twice, because the tests run with 1 and with 16 channels."""
    for ranks, images, _, size in itertools.product((4, 64, 8), (4, 1, 16), (1, 16), (16, 15, 63, 99)):
        for groups, *parts in _factors(ranks, dims + 1):
            yield groups, parts, images, size


def dihydrogen(dims):
    for (groups, parts, images, size), k, stride, is_padded, _ in itertools.product(
            _shapes(dims), (3, 5, 7, 1), (1, 2), (True, False), ("overlap", "no overlap")):
        yield _cube(f"DiHydrogen {dims}-D", "conv", dims, size, k, stride, k // 2 if is_padded else 0,
                    dict(enumerate(parts)), images=images, groups=groups, excused=_skipped(size, k, stride, is_padded, parts))


def dihydrogen_norms(dims):
    """Yields batch norms. DiHydrogen's statistics cover the images of all groups."""
    for groups, parts, images, size in _shapes(dims):
        yield _cube(f"DiHydrogen norms {dims}-D", "batch norm", dims, size, 1, 1, 0, dict(enumerate(parts)), images=images,
                    groups=groups, excused="skipped: more stripes than rows" if max(parts) > size else "")


def dihydrogen_pooling():
    grids = [(1, 1, 1), (1, 1, 2), (1, 2, 1), (1, 2, 2), (2, 1, 1), (2, 1, 2), (2, 2, 1)]
    grids += [(1, 1, 1, 1), (1, 1, 1, 2), (1, 1, 2, 1), (1, 1, 2, 2), (2, 1, 1, 1), (2, 1, 1, 2), (2, 1, 2, 1), (2, 2, 1, 1)]
    for groups, *parts in grids:
        yield _cube("DiHydrogen pooling", "max", len(parts), 32, 3, 1, 1, dict(enumerate(parts)), images=8, groups=groups)


# NVIDIA/physicsnemo tests its ShardTensor on four ranks: on a mesh of 4 or 2 x 2.


def _expected_to_fail(kind, k, stride, pad, is_backward, is_mesh):
    if kind == "transposed" and k % 2:
        return "xfail: odd kernel, transposed"
    if k % 2 == 0 and stride != k:
        return "xfail: even kernel, another stride"
    if pad and stride > 1:
        return "xfail: padding and stride"
    if stride > 1 and stride != k:
        return "xfail: stride is not the kernel"
    return "xfail: backward on a 2-D mesh" if is_backward and is_mesh else ""


def physicsnemo():
    sizes = {("conv", 1, 1): (32, 256), ("conv", 2, 1): (128, 256), ("conv", 2, 2): (128, 256), ("conv", 3, 1): (64,),
             ("conv", 3, 2): (64,), ("transposed", 1, 1): (32, 256), ("transposed", 2, 1): (128, 256),
             ("transposed", 2, 2): (64, 256), ("transposed", 3, 1): (32, 64), ("transposed", 3, 2): (32, 64)}
    for (kind, dims, mesh), heights in sizes.items():
        for size, k, pad, stride, backward in itertools.product(
                heights, (2, 3), (0, 1) if kind == "conv" else (0,), (1, 2), (False, True)):
            # Images of 2-D transposed convolutions are twice as high, and on the 2 x 2 mesh also twice as wide.
            shape = ((2 * size, size * mesh) if (kind, dims) == ("transposed", 2) else (size,) * dims)
            yield _cube("physicsnemo", kind, dims, shape, k, stride, pad, {0: 4} if mesh == 1 else {0: 2, 1: 2},
                        images=2, backward=backward, excused=_expected_to_fail(kind, k, stride, pad, backward, mesh == 2))


def physicsnemo_pooling():
    for kind, (dims, mesh, larger), k, stride, backward in itertools.product(
            ("average", "max"), ((1, 1, 256), (2, 1, 256), (2, 2, 256), (3, 1, 128), (3, 2, 128)), (2, 4), (2, 4),
            (False, True)):
        cuts = {dims - 1: 4} if mesh == 1 else {dims - 2: 2, dims - 1: 2}
        for size in (32, larger):
            yield _cube("physicsnemo pooling", kind, dims, size, k, stride, 0, cuts, images=2, backward=backward,
                        excused="" if k == stride else "xfail: stride is not the window")


def physicsnemo_norms():
    """Yields each norm twice, because the tests run in fp32 and in mixed precision."""
    for affine, _ in itertools.product((True, False), ("fp32", "mixed")):
        yield _cube("physicsnemo norms", "layer norm", 1, 128, 1, 1, 0, {0: 4}, images=2, backward=False, affine=affine,
                    excused="xfail: affine" if affine else "")
    for norm_groups, affine, backward, _ in itertools.product((1, 4), (True, False), (True, False), ("mixed", "fp32")):
        yield _cube("physicsnemo norms", "group norm", 2, 257, 1, 1, 0, {0: 4}, images=2, backward=backward,
                    norm_groups=norm_groups, affine=affine)


LISTS = {
    "DistConv": lambda: list(distconv()),
    "DiHydrogen 2-D": lambda: list(dihydrogen(2)),
    "DiHydrogen 3-D": lambda: list(dihydrogen(3)),
    "DiHydrogen pooling": lambda: list(dihydrogen_pooling()),
    "DiHydrogen norms 2-D": lambda: list(dihydrogen_norms(2)),
    "DiHydrogen norms 3-D": lambda: list(dihydrogen_norms(3)),
    "physicsnemo": lambda: list(physicsnemo()),
    "physicsnemo pooling": lambda: list(physicsnemo_pooling()),
    "physicsnemo norms": lambda: list(physicsnemo_norms()),
}


# Functions that decide whether ucudnn.spatial supports a case.


def _cut(case):
    for i, parts in enumerate(case.grid):
        if parts > 1:
            yield i, parts


def _refusal(decide):
    """Decorator. If decide(library, case) raises a refusal, returns the refusal's message instead. Returns "" if there
    is no refusal."""
    def reason(library, case):
        try:
            return decide(library, case) or ""
        except NotSupported as refusal:
            return str(refusal)
    return reason


OF_OTHER_GROUPS = "statistics of other groups' images"


def _norm(case):
    """Returns "" if ucudnn.spatial supports the norm, otherwise why not: each rank needs at least one row, and a batch
    norm must not count images of other groups."""
    for i, parts in _cut(case):
        stripes(1, case.size[i], parts)
    return OF_OTHER_GROUPS if case.kind == "batch norm" and case.groups > 1 else ""


@_refusal
def converted(library, case):
    """Returns why a program that uses convert cannot run the case, or "" if it can."""
    if case.kind.endswith("norm"):
        return _norm(case)
    for i, parts in _cut(case):
        k, s, p = case.kernel[i], case.stride[i], case.pad[i]
        if case.kind == "transposed":
            geometry.transposed_windows(library, 1, Window(k, s, p), stripes(1, case.size[i], parts), 0)
        else:
            geometry.windows(library, 1, Window(k, s), stripes(1, case.size[i], parts, s), p, p)


@_refusal
def unchanged(library, case):
    """Returns why a program that does not know of ucudnn cannot run the case by calling cuDNN on its stripes, or "" if
    it can. The program's framework itself implements circular padding (followed by a convolution without padding), and
    norms that cuDNN's legacy API lacks."""
    if case.kind.endswith("norm"):
        return _norm(case) if case.kind == "batch norm" else "computed by the framework, or refused of the graph API"
    for i, parts in _cut(case):
        if case.kind == "transposed":
            return "" if case.kernel[i] == case.stride[i] and not case.pad[i] else "more rows than the stripe's"
        window = Window(case.kernel[i], case.stride[i], 0 if case.circular else case.pad[i])
        geometry.all_rows(library, FORWARD, window, stripes(1, case.size[i], parts, case.stride[i]))
        if case.circular and case.pad[i]:
            return "circular padding"
    return ""
