"""Runs published models by random plans, on each rank of parallel_models_test.py. Compares them in fp64 with the plain
module on rank 0."""
import copy
import random
import sys

import parallel_ranks
import schedules
import torch
import torch.distributed as dist
import torch.nn.functional as F
from parallel_ranks import RANK, WORLD, part, plan_file
from ucudnn import parallel
from ucudnn.parallel.tracing import describe


def torchvision(name, **arguments):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=7, **arguments)
    return make


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.0, num_classes=7)


def timm(name, **arguments):
    def make():
        import timm
        return timm.create_model(name, num_classes=7, **arguments)
    return make


# Learning rates that differ from 0.01. Because images are small, the last batch normalizations of these models average
# few numbers. At 0.01, changing the order of a batch's images makes the plain model differ from itself by 1e-7; at
# these rates the difference hardly grows.
RATES = {"efficientnet_b0": 1e-4, "inception_v3": 3e-6, "inception_v3 without": 3e-6}


def two_heads(outputs, labels):
    return F.cross_entropy(outputs.logits, labels) + 0.4 * F.cross_entropy(outputs.aux_logits, labels)


MODELS = {  # {name: (function that makes it, extent of its images, images in a batch)}
    "alexnet": (torchvision("alexnet", dropout=0.0), 63, 4),
    "vgg11": (torchvision("vgg11", dropout=0.0, init_weights=False), 32, 3),
    "resnet18": (torchvision("resnet18"), 48, 5),
    "densenet121": (torchvision("densenet121"), 64, 4),
    # Inception's second head needs images of 299 x 299.
    "inception_v3": (torchvision("inception_v3", dropout=0.0, init_weights=False), 299, 3),
    "inception_v3 without": (torchvision("inception_v3", dropout=0.0, init_weights=False, aux_logits=False), 107, 3),
    "mobilenet_v3_small": (torchvision("mobilenet_v3_small", dropout=0.0), 48, 4),
    "efficientnet_b0": (torchvision("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0), 40, 4),
    "convnext": (convnext, 32, 4),
    "timm convnext": (timm("convnext_atto", drop_path_rate=0.0), 32, 4),
    "timm regnet": (timm("regnety_002"), 48, 4),
}


def from_first(make):
    """Calls make() on rank 0. Returns its result on all ranks."""
    told = [make() if RANK == 0 else None]
    dist.broadcast_object_list(told, 0)
    return told[0]


def planned(name, network, batch):
    """Returns a random plan. VGG's two large layers are always divided along their parameters, because each replica
    would need memory for all parameters."""
    rng, outputs = random.Random(name + str(WORLD)), {output.node for output in network.outputs}
    large = {"classifier.0": "c", "classifier.3": "r"} if name == "vgg11" else {}

    def choose(node):
        if node.name in large:
            return dict.fromkeys("nchwr", 1) | {large[node.name]: WORLD}, 0
        return schedules.degrees_of(rng, network, node, WORLD, "ncr" if node.name in outputs else "nchwr")
    return plan_file(schedules.Writer(network, batch, WORLD, choose).text(), name.replace(" ", "_"))


def from_rank0(divided, key, whole):
    """Returns rank 0's tensor `whole` on all ranks. It has the shape of parameter `key` of the undivided model."""
    whole = whole.detach().contiguous() if RANK == 0 else torch.empty(divided._ucudnn.shards[key].shape)
    dist.broadcast(whole, 0)
    return whole


def same_gradients(name, divided, single):
    """Compares the gradients of all parameters, each relative to its own norm. Some gradients are mathematically zero,
    such as the gradient of a bias before a batch normalization, and have only rounding errors. So one unit of roundoff
    of the norm of all gradients is allowed, too."""
    wholes = {key: from_rank0(divided, key, single.get_parameter(key).grad if RANK == 0 else None) for key, _ in divided.named_parameters()}
    rounding = torch.finfo(torch.float64).eps * torch.stack([whole.norm() for whole in wholes.values()]).norm().item()
    for key, own in divided.named_parameters():
        error, norm = (own.grad.as_subclass(torch.Tensor) - part(divided, key, wholes[key])).norm().item(), wholes[key].norm().item()
        assert error <= 1e-9 * norm + rounding, (name, key, error, norm, rounding)


def compare(name, steps):
    make, extent, batch = MODELS[name]
    torch.manual_seed(0)
    with torch.device("cpu" if RANK == 0 else "meta"):
        model = make()
    network = from_first(lambda: describe(model, (3, extent, extent)))
    single, heads = copy.deepcopy(model), len(network.outputs) == 2
    loss = [(F.cross_entropy, 1.0), (F.cross_entropy, 0.4)] if heads else F.cross_entropy
    divided = parallel.apply(model, planned(name, network, batch), loss=loss, network=network)
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=RATES.get(name, 0.01), momentum=0.9) for m in (divided, single))
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(batch, 3, extent, extent, generator=generator), torch.randint(0, 7, (batch,), generator=generator)

        def alone():
            other.zero_grad()
            found = two_heads(single(x), y) if heads else F.cross_entropy(single(x), y)
            found.backward()
            other.step()
            return found.item()
        optimizer.zero_grad()
        found, wanted = divided(x, y), from_first(alone)
        assert abs(found.item() - wanted) <= 1e-10 * abs(wanted), (name, step, found.item(), wanted)
        found.backward()
        if step == 0:
            same_gradients(name, divided, single)
        optimizer.step()
    for key, own in divided.named_parameters():
        whole = from_rank0(divided, key, single.get_parameter(key) if RANK == 0 else None)
        error = (own - part(divided, key, whole)).abs().max().item() if own.numel() else 0.0
        assert error <= 1e-10 * max(whole.abs().max().item(), 1), (name, key, error)
    report = parallel.report(divided)
    assert report.difference() == 0, (name, report)
    divided.eval(), single.eval()
    with torch.no_grad():
        found, wanted = divided(x), single(x) if RANK == 0 else None
        assert wanted is None or (found - wanted).abs().max() <= 1e-9 * wanted.abs().max(), name
    divided._ucudnn.close()


if __name__ == "__main__":
    parallel_ranks.join(600)
    for name in sys.argv[2:] or MODELS:
        compare(name, int(sys.argv[1]))
        dist.barrier()
        print(f"{name} done", flush=True)
    dist.destroy_process_group()
