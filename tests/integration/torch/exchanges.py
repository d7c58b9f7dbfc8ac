"""A small network with integers, on which fp64 is exact. layers() describes it for striped_layers.cpp. When this
file runs on ranks, it makes a converted model of the network. Each rank compares its rows bit for bit with the rows
that striped_layers wrote. exchanges_test.py runs both."""
import array
import os
import pathlib
import sys

import torch
from torch import nn

import gloo
from ucudnn import spatial
from ucudnn.spatial.grid import owned, stripes

IMAGES = 2, 3, 40, 12
RANKS, MULTIPLE = 4, 4  # this cuts the 40 rows into stripes of 12, 12, 8 and 8
# (filters, size, stride, padding, dilation, groups) of each convolution. The third convolution reads rows beyond the
# nearest neighbour's stripe.
CONVOLUTIONS = [(6, 3, 1, 1, 1, 1), (8, 7, 2, 3, 1, 1), (8, 3, 1, 5, 5, 2), (6, 4, 2, 1, 1, 1), (4, 1, 1, 0, 1, 1)]


def layers():
    """Returns the text of FOLDER/layers (see striped_layers.cpp)."""
    rows = stripes(1, IMAGES[2], RANKS, MULTIPLE)
    words = ["images", *IMAGES, "stripes", *rows, "end"]
    for i, convolution in enumerate(CONVOLUTIONS):
        words += ["relu"] * (i > 0) + ["conv", *convolution]
    return " ".join(map(str, words))


def whole_numbers(shape, seed, largest):
    return torch.randint(-largest, largest + 1, shape, generator=torch.Generator().manual_seed(seed)).double()


def network():
    """Returns (the model, the images, the gradient of the output)."""
    modules, channels = [], IMAGES[1]
    for i, (filters, size, stride, pad, dilation, groups) in enumerate(CONVOLUTIONS):
        modules += [nn.ReLU()] * (i > 0)
        modules.append(nn.Conv2d(channels, filters, size, stride, pad, dilation, groups, dtype=torch.float64))
        channels = filters
    model = nn.Sequential(*modules)
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            parameter.copy_(whole_numbers(parameter.shape, seed, 1))
        images = whole_numbers(IMAGES, 100, 2)
        return model, images, whole_numbers(model(images).shape, 200, 2)


def write(folder):
    model, images, gradient = network()
    (folder / "layers").write_text(layers())
    with open(folder / "numbers", "wb") as file:
        for tensor in (images, *model.parameters(), gradient):
            array.array("d", tensor.detach().flatten().tolist()).tofile(file)


def compare(folder):
    rank = int(os.environ["RANK"])
    rows = array.array("d", (folder / f"rows.{rank}").read_bytes())
    model, images, gradient = network()
    stripe = spatial.shard(images, multiple=MULTIPLE).detach().requires_grad_()
    y = spatial.convert(model)(stripe)
    begin, end = owned(y.cut.extents[1])[rank]
    (spatial.gather(y) * gradient).sum().backward()
    found = [("output", y), ("gradient of the images", stripe.grad)]
    found += [(f"gradient of {name}", parameter.grad) for name, parameter in model.named_parameters()]
    at, different = 0, []
    for name, tensor in found:
        mine = spatial.to_local(tensor.detach())
        theirs = torch.tensor(rows[at:at + mine.numel()], dtype=torch.float64).view(mine.shape)
        at += mine.numel()
        assert mine.abs().max() < 2 ** 52 and mine.count_nonzero() > mine.numel() // 2, f"{name} proves nothing"
        if not torch.equal(mine, theirs):
            different.append(f"{name}: differs in {(mine != theirs).sum()} of {mine.numel()}")
    assert at == len(rows), f"{len(rows)} numbers, not {at}"
    print(f"by {type(spatial.ranks().geometry).__name__}: {at} numbers, output rows {begin} to {end}", *different, sep="\n")
    return bool(different)


if __name__ == "__main__":
    gloo.join()
    sys.exit(compare(pathlib.Path(sys.argv[1])))
