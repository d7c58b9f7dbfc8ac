"""Tests what programs do with models besides training, on each rank of UCUDNN_SPATIAL. habits_test.py runs this file,
with a folder for its files as the argument."""
import copy
import os
import sys
import warnings
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import gloo
from comparison import check_close
from ucudnn import spatial
from ucudnn.spatial import conversion

GRID = os.environ["UCUDNN_SPATIAL"]


def picture(seed=0, shape=(2, 3, 8, 8)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).eval()


def refused(call, *words):
    """Expects that `call` raises NotSupported with all of `words` in its message."""
    try:
        call()
    except spatial.NotSupported as refusal:
        missing = [word for word in words if word not in str(refusal)]
        assert not missing, f"{missing} not in: {refusal}"
        return
    raise AssertionError("not refused")


def saved(folder):
    """Saves a converted model. It is loaded like other models, here on ranks and in habits_test.py in a single
    process."""
    whole, model = net(), spatial.convert(net())
    model(spatial.shard(picture()))
    path = f"{folder}/{dist.get_rank()}"
    torch.save(model, f"{path}.model")
    torch.save((picture(), whole(picture())), f"{path}.expected")
    for each in (torch.load(f"{path}.model", weights_only=False), copy.deepcopy(model)):
        check_close("a copy", each(spatial.shard(picture())), whole(picture()))


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))
        self.weight, self.factor = (nn.Parameter(torch.zeros(3), requires_grad=False) for _ in range(2))

    def forward(self, x):
        self.weight = nn.Parameter(0.9 * self.weight + x.detach().mean((0, 2, 3)), requires_grad=False)
        self.factor = nn.Parameter(x.detach().amax((0, 2, 3)))
        self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 2, 3))
        self.last.copy_(x.amax((0, 2, 3)))
        return x * self.factor.view(1, -1, 1, 1) - (self.mean + self.weight).view(1, -1, 1, 1)


def buffers_stay_plain(folder):
    whole, model = Running(), spatial.convert(Running(), trust=[Running])
    for seed in range(2):
        expected = whole(picture(seed))
        with mock.patch.object(spatial.ranks(), "is_checking", seed > 0):
            y = model(spatial.shard(picture(seed)))
        check_close("the result", spatial.gather(y), expected)
        for result in (y, expected):
            result.square().mean().backward()
        check_close("the gradient of a parameter that the pass has made", model.factor.grad, whole.factor.grad)
        for name, buffer in model.named_buffers():
            assert type(buffer) is torch.Tensor, f"{name} is a {type(buffer).__name__}"
            check_close(name, buffer, getattr(whole, name))
        for name, parameter in model.named_parameters():
            assert type(parameter) is nn.Parameter and parameter.is_leaf, f"{name} is a {type(parameter).__name__}"
            check_close(name, parameter, getattr(whole, name))


def a_plain_tensor_on_one_rank(folder):
    """Only one rank passes a plain tensor. The rank must refuse the tensor before it waits for the other ranks, which
    make no call."""
    model = spatial.convert(net())
    if dist.get_rank() == 0:
        refused(lambda: model(picture()), "takes what shard gives", "not converted")
        refused(lambda: model[0](picture()), "plain tensor")
    check_close("what follows", model(spatial.shard(picture())), net()(picture()))


def unlike_images(folder):
    mine = dist.get_rank() == 0
    for unlike in ((3, 3, 8, 8), (2, 3, 12, 8)):
        spatial.shard(picture(0, unlike))  # accepted if all ranks have this shape
        refused(lambda: spatial.shard(picture(0, unlike if mine else (2, 3, 8, 8))), "on rank 0", str(unlike), "on rank 1")
    refused(lambda: spatial.shard(picture().to(torch.float32 if mine else torch.float64)), "float32", "float64")
    for dim in (None, [axis + 1 for axis in spatial.ranks().grid.cut_axes]):
        refused(lambda: spatial.shard(picture() if mine else picture()[0], dim), "(3, 8, 8)", "(2, 3, 8, 8)")
        refused(lambda: spatial.from_local(picture() if mine else picture()[0], dim), "on rank 0", "on rank 1")
    refused(lambda: spatial.shard(picture(), 0), "dimensions [0] of a tensor of 4")
    stripe = spatial.shard(picture())
    refused(lambda: spatial.shard(stripe if mine else picture()), "a stripe already")


def own_rows(folder):
    """from_local takes rows that each rank has loaded itself. The stripes differ from shard's: they have 3 and 6
    rows."""
    grid, whole = spatial.ranks().grid, picture(0, (2, 3, 9, 8)).requires_grad_()
    part = spatial.ranks().part(1)
    rows = (slice(0, 3), slice(3, 9))[part]
    columns = slice(0, 8) if grid.parts[2] == 1 else (slice(0, 5), slice(5, 8))[spatial.ranks().part(2)]
    own = whole.detach()[:, :, rows, columns].clone().requires_grad_()
    stripe = spatial.from_local(own)
    assert spatial.whole_shape(stripe) == whole.shape and torch.equal(spatial.gather(stripe), whole)
    model = spatial.convert(nn.Conv2d(3, 2, 3, 1, 1))
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    plain = copy.deepcopy(model)
    plain.__dict__.update(_forward_hooks={}, _forward_pre_hooks={})
    plain(whole).square().sum().backward()
    model(stripe).square().sum().backward()
    check_close("the gradient of own rows", own.grad, whole.grad[:, :, rows, columns])
    unlike = own.detach()[:1] if dist.get_rank() == 1 else own.detach()
    refused(lambda: spatial.from_local(unlike), "not one tensor in stripes", "on rank 1")
    refused(lambda: spatial.from_local(stripe), "stripe already")


def a_mesh(folder):
    """spatial.init accepts a DeviceMesh with the dimensions of the grid."""
    grid = spatial.ranks().grid
    cut = {letter: parts for letter, parts in zip("ndhw", (grid.groups, *grid.parts)) if parts > 1}
    geometry = spatial.ranks().geometry
    made = spatial.init(init_device_mesh("cpu", tuple(cut.values()), mesh_dim_names=tuple(cut)), geometry)
    assert made.grid == grid
    for names in (("x", "y"), ("w", "h")):
        try:
            spatial.init(init_device_mesh("cpu", tuple(cut.values()), mesh_dim_names=names[:len(cut)]), geometry)
        except ValueError as error:
            assert "spatial grid" in str(error) or "UCUDNN_SPATIAL" in str(error), error
        else:
            raise AssertionError(f"a mesh of {names}")
    check_close("what follows", spatial.convert(net())(spatial.shard(picture())), net()(picture()))


def a_wrapped_model(folder):
    refused(lambda: spatial.convert(DistributedDataParallel(net()), trust=["DistributedDataParallel"]),
            "DistributedDataParallel", "convert the model inside of it first, and wrap what convert gives")


def losses_are_printed(folder):
    """A number that is the same on all ranks can be formatted. A stripe cannot."""
    x = picture()
    assert f"{spatial.shard(x).square().mean():.4f}" == f"{x.square().mean():.4f}"
    refused(lambda: f"{spatial.shard(x):.4f}", "gather it first")


def results_are_read_and_saved(folder):
    """A result that is the same on all ranks works with numpy, lists and files. A stripe is refused with an error that
    names what to call instead."""
    x, path = spatial.shard(picture()), f"{folder}/{dist.get_rank()}.results"
    loss, mean = x.square().mean(), picture().mean((2, 3))
    for found in (x.mean((2, 3)).numpy(), np.asarray(x.mean((2, 3))), np.array(x.mean((2, 3)).tolist())):
        assert type(found) is np.ndarray and np.abs(found - mean.numpy()).max() < 1e-12
    weight = nn.Parameter(x.mean((0, 2, 3)), requires_grad=False)
    torch.save({"loss": loss, "weight": weight, "mean": [x.mean((2, 3))]}, path)
    saved = torch.load(path)
    assert type(saved["loss"]) is torch.Tensor and type(saved["weight"]) is nn.Parameter and saved["loss"] == float(loss)
    check_close("a saved mean", saved["mean"][0], mean)
    refused(lambda: torch.save(x, path), "spatial.gather(x)", "spatial.to_local(x)")
    refused(lambda: np.asarray(x), "gather it first")
    for found in (loss.expand(()), loss.broadcast_to(()), torch.broadcast_to(loss, loss.shape), loss.repeat(()), loss.view(()),
                  loss.new_full((), float(loss))):
        check_close("a number in its own shape", found, picture().square().mean())


def parameters_without_a_shape(folder):
    for layer, name in ((nn.LazyConv2d(2, 3), "0.weight"), (nn.LazyBatchNorm2d(affine=False), "0.running_mean")):
        refused(lambda: spatial.convert(nn.Sequential(layer), trust=["LazyConv2d", "LazyBatchNorm2d"]), f"{name} has no shape yet",
                "convert it then")


def newer_packages_are_told(folder):
    with mock.patch.object(conversion, "newer", lambda names: [("torchvision", "99.1", "0.29.2")]):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            spatial.convert(net())
    assert len(told) == 1 and "torchvision" in str(told[0].message) and "99.1 is newer" in str(told[0].message), told


class Nested:
    """Images and their mask, in an object as detectors pass it."""

    def __init__(self, tensors, mask):
        self.tensors, self.mask = tensors, mask


def objects_of_tensors(folder):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3, padding=1)

        def forward(self, nested):
            return Nested(self.conv(nested.tensors) * nested.mask, nested.mask)
    torch.manual_seed(3)
    model, x, mask = Model(), picture(), picture(1, (2, 1, 8, 8))
    whole = copy.deepcopy(model)
    spatial.convert(model, trust=[Model])
    y, expected = model(Nested(spatial.shard(x), spatial.shard(mask))).tensors, whole(Nested(x, mask)).tensors
    check_close("output", spatial.gather(y), expected)
    y.square().mean().backward()
    expected.square().mean().backward()
    check_close("gradient", model.conv.weight.grad, whole.conv.weight.grad)
    refused(lambda: spatial.shard(x.numpy()), "ndarray", "torch.as_tensor")


def resized_by_a_part(folder):
    """If a factor gives no integer number of rows, it is refused. The message names a `multiple` for shard that makes
    the factor possible."""
    x = picture(0, (1, 2, 12, 12))
    refused(lambda: F.interpolate(spatial.shard(x), size=(5, 7)), "size 5 does not say whether", "use scale_factor")
    refused(lambda: F.interpolate(spatial.shard(x), scale_factor=0.75), "6 and 6 rows by 0.75", "shard(..., multiple=4)")
    found = F.interpolate(spatial.shard(x, multiple=4), scale_factor=0.75, mode="bilinear")
    check_close("resized", spatial.gather(found), F.interpolate(x, scale_factor=0.75, mode="bilinear"))


CASES = (saved, buffers_stay_plain, a_plain_tensor_on_one_rank, unlike_images, own_rows, a_mesh, a_wrapped_model,
         losses_are_printed, results_are_read_and_saved, parameters_without_a_shape, objects_of_tensors,
         resized_by_a_part, newer_packages_are_told)

if __name__ == "__main__":
    gloo.join()
    for case in CASES:
        print(case.__name__, flush=True)
        case(sys.argv[1])
