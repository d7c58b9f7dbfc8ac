"""Compares a converted model under FSDP's fully_shard with one process: ranks have parts of the parameters and stripes
of the images. parameters_test.py runs this file."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

import gloo
from comparison import check_close
from training import averaged, batch, group, net
from ucudnn import spatial


def compared(is_by_layer):
    """Compares two training steps. FSDP averages gradients over all ranks. Ranks of a spatial group have equal
    gradients, so this is the average over groups."""
    whole, model = net(), spatial.convert(net(), trust=["Net"])
    mesh, groups = init_device_mesh("cpu", (dist.get_world_size(),)), spatial.ranks().grid.groups
    for layer in (model.first, model.norm, model.second, model.head) if is_by_layer else ():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimisers = [torch.optim.SGD(each.parameters(), lr=0.05, momentum=0.9) for each in (whole, model)]
    for step in range(2):
        for optimiser in optimisers:
            optimiser.zero_grad()
        averaged(whole, [step * groups + g for g in range(groups)])
        images, labels = batch(step * groups + group())
        F.cross_entropy(model(spatial.shard(images)), labels).backward()
        wanted = dict(whole.named_parameters())
        for name, parameter in model.named_parameters():
            check_close(f"gradient of {name}", parameter.grad.full_tensor(), wanted[name].grad)
        for optimiser in optimisers:
            optimiser.step()
        for name, parameter in model.named_parameters():
            check_close(name, parameter.full_tensor(), wanted[name])


def in_place():
    """An in-place operation on the output of a sharded layer is refused. torch would drop the hook that FSDP has on
    this output, and this hook fetches the parameters."""
    model = spatial.convert(nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU(inplace=True)))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model):
        fully_shard(layer, mesh=mesh)
    try:
        model(spatial.shard(batch(group())[0]))
    except spatial.NotSupported as refusal:
        if "in place over a tensor with hooks" in str(refusal):
            return
        raise
    raise AssertionError("not refused")


def converted_later():
    """convert refuses a model whose parameters fully_shard has already divided."""
    model = net()
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    try:
        spatial.convert(model, trust=["Net", "FSDPNet"])
    except spatial.NotSupported as refusal:
        if "fully_shard" in str(refusal):
            return
        raise
    raise AssertionError("not refused")


if __name__ == "__main__":
    gloo.join()
    for name, case in (("by layer", lambda: compared(True)), ("as one", lambda: compared(False)),
                       ("in place", in_place), ("converted later", converted_later)):
        print(name, flush=True)
        case()
