"""On each rank of parallel_models_test.py, published models run by random plans and are compared with the plain module, in
fp64."""
import copy
import random
import sys

import parallel_ranks
import schedules
import torch
import torch.distributed as dist
import torch.nn.functional as F
from parallel_habits import sgd
from parallel_ranks import WORLD, part, plan_file
from ucudnn import parallel
from ucudnn.parallel.tracing import describe


def torchvision(name, **arguments):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=7, **arguments)
    return make


def vgg11():
    """Returns the model with a classifier of 64 hidden units: 11 of 129 million weights."""
    import torchvision
    model = torchvision.models.vgg11(num_classes=7)
    model.classifier = torch.nn.Sequential(torch.nn.Linear(512 * 7 * 7, 64), torch.nn.ReLU(True), torch.nn.Linear(64, 7))
    return model


def inception_v3():
    """Returns the model with its auxiliary head, whose 5 x 5 convolution is 1 x 1, because small images have no more positions
    there."""
    from torchvision.models import inception
    model = inception.inception_v3(num_classes=7, init_weights=False, dropout=0.0)
    model.AuxLogits.conv1 = inception.BasicConv2d(128, 768, kernel_size=1)
    return model


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.0, num_classes=7)


def timm(name, **arguments):
    def make():
        import timm
        return timm.create_model(name, num_classes=7, **arguments)
    return make


# Small images leave few numbers to the last batch normalizations: at a rate of 0.01, the plain model differs from itself by
# 8e-8 when the images of its batches change places. At these rates it differs by less than 1e-12 in ten steps.
RATES = {"efficientnet_b0": 1e-4, "inception_v3": 3e-6}


def two_heads(outputs, labels):
    return F.cross_entropy(outputs.logits, labels) + 0.4 * F.cross_entropy(outputs.aux_logits, labels)


MODELS = {  # how it is made, extent of its images, images of a batch
    "alexnet": (torchvision("alexnet", dropout=0.0), 63, 4),
    "vgg11": (vgg11, 32, 3),
    "resnet18": (torchvision("resnet18"), 48, 5),
    "densenet": (lambda: __import__("torchvision").models.DenseNet(8, (2, 3), 16, num_classes=7), 40, 4),
    "inception_v3": (inception_v3, 107, 3),
    "mobilenet_v3_small": (torchvision("mobilenet_v3_small", dropout=0.0), 48, 4),
    "efficientnet_b0": (torchvision("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0), 40, 4),
    "convnext": (convnext, 32, 4),
    "timm convnext": (timm("convnext_atto", drop_path_rate=0.0), 32, 4),
    "timm regnet": (timm("regnety_002"), 48, 4),
}


def compare(name, steps):
    make, extent, batch = MODELS[name]
    torch.manual_seed(0)
    model = make()
    network = describe(model, (3, extent, extent))
    rng = random.Random(name + str(WORLD))
    outputs = {output.node for output in network.outputs}
    plan = plan_file(schedules.Writer(network, batch, WORLD, lambda node: schedules.degrees_of(
        rng, network, node, WORLD, "ncr" if node.name in outputs else "nchwr")).text(), name.replace(" ", "_"))
    single = copy.deepcopy(model)
    heads = len(network.outputs) == 2
    loss = [(F.cross_entropy, 1.0), (F.cross_entropy, 0.4)] if heads else F.cross_entropy
    divided = parallel.apply(model, plan, loss=loss)
    optimizers = [torch.optim.SGD(m.parameters(), lr=RATES.get(name, 0.01), momentum=0.9) for m in (divided, single)]
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(batch, 3, extent, extent, generator=generator), torch.randint(0, 7, (batch,), generator=generator)
        for optimizer in optimizers:
            optimizer.zero_grad()
        found = divided(x, y)
        wanted = two_heads(single(x), y) if heads else F.cross_entropy(single(x), y)
        assert abs(found.item() - wanted.item()) <= 1e-10 * abs(wanted.item()), (name, step, found.item(), wanted.item())
        found.backward()
        wanted.backward()
        for optimizer in optimizers:
            optimizer.step()
    for key, parameter in single.named_parameters():
        own = divided.get_parameter(key)
        error = (own - part(divided, key, parameter)).abs().max().item() if own.numel() else 0.0
        assert error <= 1e-10 * max(parameter.abs().max().item(), 1), (name, key, error)
    report = parallel.report(divided)
    assert report.difference() == 0, (name, report)
    divided.eval(), single.eval()
    with torch.no_grad():
        assert (divided(x) - single(x)).abs().max() <= 1e-9 * single(x).abs().max(), name
    divided._ucudnn.close()


if __name__ == "__main__":
    parallel_ranks.join(600)
    for name in sys.argv[2:] or MODELS:
        compare(name, int(sys.argv[1]))
        dist.barrier()
        print(f"{name} done", flush=True)
    dist.destroy_process_group()
