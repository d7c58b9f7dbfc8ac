"""Runs a sample of the published lists on four or eight ranks and compares with the whole image, forward and backward.
Each case must be exact or refused, as published.py decides by the geometry. published_test.py runs this file."""
import itertools
import math
import os
import sys
import traceback
from dataclasses import replace

import torch
from torch import nn

import gloo
import published
from comparison import striped_like_whole
from plain_geometry import PlainGeometry, tested_geometry
from ucudnn import spatial
from ucudnn.spatial.grid import divided

RANKS = int(os.environ["WORLD_SIZE"])
EACH = {4: 15, 8: 4}[RANKS]  # approximate number of cases to run from each list


def smaller(case):
    """Returns the same layer on the same grid, with extents of 8 along uncut dimensions and at most 64 along cut ones."""
    return replace(case, size=tuple(min(size, 64) if parts > 1 else 8 for size, parts in zip(case.size, case.grid)))


def sample(cases):
    """Returns a sample of the cases that need RANKS ranks. Leaves out norms whose statistics cover images of several
    groups, because ucudnn has no setting for this."""
    distinct = list({(case.key, case.images, case.norm_groups, case.affine): case for case in map(smaller, cases)
                     if math.prod(case.grid) > 1 and math.prod(case.grid) * case.groups == RANKS
                     and published.converted(PlainGeometry(), case) != published.OF_OTHER_GROUPS}.values())
    return distinct[::max(1, len(distinct) // EACH)]


def layer(case):
    """Returns the layer of a case, with 4 channels for a group norm and 2 for other layers."""
    dims, mode = len(case.size), "circular" if case.circular else "zeros"
    if case.kind == "batch norm":
        return getattr(nn, f"BatchNorm{dims}d")(2)
    if case.kind == "layer norm":
        return nn.LayerNorm(case.size[-1:], elementwise_affine=case.affine)
    if case.kind == "group norm":
        return nn.GroupNorm(case.norm_groups, 4, affine=case.affine)
    if case.kind == "conv":
        return getattr(nn, f"Conv{dims}d")(2, 3, case.kernel, case.stride, case.pad, padding_mode=mode)
    if case.kind == "transposed":
        return getattr(nn, f"ConvTranspose{dims}d")(2, 3, case.kernel, case.stride, case.pad)
    kind = {"max": nn.MaxPool1d, "average": nn.AvgPool1d}[case.kind].__name__.replace("1", str(dims))
    if dims == 1:
        return getattr(nn, kind)(case.kernel[0], case.stride[0], case.pad[0])
    return getattr(nn, kind)(case.kernel, case.stride, case.pad)


def failure(case):
    """Runs a case. Returns how it differs from the decision of published.py, or None."""
    torch.manual_seed(3)
    group = spatial.ranks().group
    images = divided(case.images, case.groups)[group]  # may be 0 if there are fewer images than groups
    x = torch.randn(images, 4 if case.kind == "group norm" else 2, *case.size, generator=torch.Generator().manual_seed(group))
    cuts = [stride for stride, parts in zip(case.stride, case.grid) if parts > 1]
    multiple = 1 if case.kind == "transposed" or not cuts else max(cuts)
    wanted = published.converted(PlainGeometry(), case)
    try:
        striped_like_whole(layer(case), x, multiple=multiple)
    except spatial.NotSupported as refusal:
        return None if wanted else f"refused: {refusal}"
    except Exception:
        return traceback.format_exc()
    return f"exact, not refused: {wanted}" if wanted else None


if __name__ == "__main__":
    gloo.join()
    failed = count = 0
    cases = [case for make in published.LISTS.values() for case in sample(make())]
    for grid, found in itertools.groupby(sorted(cases, key=published.Case.grid_text), published.Case.grid_text):
        print(grid, flush=True)
        os.environ["UCUDNN_SPATIAL"] = grid
        spatial.init(grid, tested_geometry())
        for case in found:
            count += 1
            if why := failure(case):
                failed += 1
                print(f"=== {case}\n{why}", flush=True)
    print(f"{count} cases, {failed} failed")
    sys.exit(1 if failed else 0)
