"""What programs do with a model, for each rank of parallel_habits_test.py. Compares with the same program on one
device."""
import contextlib
import copy
import io
import itertools
import json
import os
import pathlib
import random
import types

import parallel_ranks
import schedules
import torch
import torch.distributed as dist
import torch.nn.functional as F
from parallel_ranks import RANK, WORLD, part, plan_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from ucudnn import parallel
from ucudnn.parallel import model as model_of_parallel
from ucudnn.parallel.tracing import describe


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.relu, self.pool, self.drop = nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(dropout)
        self.fc1, self.fc2 = nn.Linear(6 * 4 * 4, 9), nn.Linear(9, 5)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)) + x)
        x = torch.flatten(self.pool(x), 1)
        return self.fc2(self.drop(self.relu(self.fc1(x))))


BATCH = 8
NETWORKS = {}


def network_of(dropout=0.0):
    """Returns the network of Net. Rank 0 describes each model once and sends the others the result, because describing takes
    longer than anything else here."""
    if dropout not in NETWORKS:
        told = [describe(Net(dropout), (3, 8, 8)) if RANK == 0 else None]
        dist.broadcast_object_list(told, 0)
        NETWORKS[dropout] = told[0]
    return NETWORKS[dropout]


def apply(model, plan, loss=F.cross_entropy, **arguments):
    return parallel.apply(model, plan, loss=loss, network=network_of(model.drop.p), **arguments)


def made(seed=0, batch=BATCH, **arguments):
    torch.manual_seed(seed)
    model = Net(**arguments)
    generator = torch.Generator().manual_seed(seed)
    return model, torch.randn(batch, 3, 8, 8, generator=generator), torch.randint(0, 5, (batch,), generator=generator)


def random_plan(seed, batch=BATCH, change=None, **arguments):
    rng, network = random.Random(seed), network_of(**arguments)
    allowed = {"fc2": "ncr"}
    written = schedules.Writer(
        network, batch, WORLD,
        lambda node: schedules.degrees_of(rng, network, node, WORLD, allowed.get(node.name, "nchwr"))).schedule()
    if change:
        change(written)
    return plan_file(json.dumps(written), f"habits{seed}_{batch}_{len(arguments)}_{random_plan.count}")


random_plan.count = 0


def pinned(degrees, network=None):
    """Returns a plan. `degrees`: {layer: its degrees}. The entry None is for all other layers. Without this entry, all other
    layers have one part."""
    random_plan.count += 1
    network = network or network_of()
    return plan_file(schedules.Writer(network, BATCH, WORLD, lambda node: (
        dict.fromkeys("nchwr", 1) | degrees.get(node.name, degrees.get(None, {})), 0)).text(), f"pinned{random_plan.count}")


def pair(seed=0, loss=F.cross_entropy, plan=None, **arguments):
    """Returns (a divided model, the same model undivided, images, labels)."""
    random_plan.count += 1
    model, x, y = made(seed, **arguments)
    single = copy.deepcopy(model)
    return apply(model, plan or random_plan(seed, **arguments), loss=loss), single, x, y


def plain(x):
    return x.as_subclass(torch.Tensor)


def same(divided, single, within=1e-12, gradients=False):
    for name, parameter in single.named_parameters():
        own, whole = divided.get_parameter(name), parameter
        if gradients:
            if parameter.grad is None:
                assert own.grad is None or not own.grad.abs().as_subclass(torch.Tensor).numel() or not plain(
                    own.grad).any(), name
                continue
            own, whole = plain(own.grad), parameter.grad
        wanted = part(divided, name, whole)
        assert own.shape == wanted.shape, (name, own.shape, wanted.shape)
        error = (own.detach() - wanted.detach()).abs().max().item() if own.numel() else 0.0
        assert error <= within * (1 + whole.abs().max().item()), f"rank {RANK}: {name} differs by {error}"


def same_buffers(divided, single):
    for name, buffer in single.named_buffers():
        shard = divided._ucudnn.shards.get(name)
        own, wanted = divided.get_buffer(name), shard.of(buffer) if shard else buffer
        assert own.shape == wanted.shape and torch.allclose(own, wanted, rtol=1e-12), (name, own, wanted)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def two_forwards():
    divided, single, x, y = pair(1)
    (divided(x, y) + 2 * divided(x, y)).backward()
    (F.cross_entropy(single(x), y) + 2 * F.cross_entropy(single(x), y)).backward()
    same(divided, single, gradients=True)


def second_backward():
    divided, single, x, y = pair(2)
    loss = divided(x, y)
    loss.backward(retain_graph=True)
    loss.backward()
    loss = F.cross_entropy(single(x), y)
    loss.backward(retain_graph=True)
    loss.backward()
    same(divided, single, gradients=True)


def double_backward():
    divided, _, x, y = pair(3)
    loss = divided(x, y)
    try:
        torch.autograd.grad(loss, [p for p in divided.parameters() if p.numel()], create_graph=True, allow_unused=True)
    except parallel.NotSupported as error:
        assert "create_graph" in str(error), error
    else:
        raise AssertionError("no refusal")


def accumulation():
    divided, single, x, y = pair(4)
    optimizers = sgd(divided), sgd(single)
    for step in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        for micro in range(3):
            with contextlib.nullcontext() if micro == 2 else divided.no_sync():
                (divided(x + micro, y) / 3).backward()
            (F.cross_entropy(single(x + micro), y) / 3).backward()
        for optimizer in optimizers:
            optimizer.step()
    same(divided, single)
    # Setting gradients to zero also discards gradients that were not summed yet.
    for zero in (lambda: optimizers[0].zero_grad(), lambda: optimizers[0].zero_grad(set_to_none=False),
                 lambda: divided.zero_grad(set_to_none=False), lambda: [one.grad.data.zero_() for one in divided.parameters()]):
        with divided.no_sync():
            divided(x, y).backward()
        zero()
        single.zero_grad()
        divided(x, y).backward()
        single(x)  # updates running statistics once more, like the divided model's first forward pass
        F.cross_entropy(single(x), y).backward()
        same(divided, single, gradients=True)
        divided.zero_grad()
    divided, _, x, y = pair(4, plan=pinned({None: {"n": WORLD}}))
    with divided.no_sync():
        divided(x, y).backward()
    for one in divided.parameters():
        one.grad.mul_(0.5)
    refused(lambda: divided(x, y), parallel.NotSupported, "the gradient of fc2.weight was written to after a pass in no_sync")


def frozen():
    divided, single, x, y = pair(5)
    for model in (divided, single):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not name.startswith(("conv", "bn")))
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)
    report = parallel.report(divided)
    assert report.difference() == 0, report
    for model in (divided, single):
        model.zero_grad()
        model.conv2.requires_grad_(True)
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)
    assert parallel.report(divided).difference() == 0


def frozen_counts():
    """Compares counts of moved elements with counts by hand. Each of four ranks has two images, but fc1's 9 channels
    are divided. Before fc1, a rank sends its two images of 96 numbers to each of the three others. After fc1, it sends
    to each of the three its own channels of that rank's two images."""
    divided, _, x, y = pair(5, plan=pinned({None: {"n": 4}, "fc1": {"c": 4}}))
    channels, peers = divided.fc1.bias.numel(), 1 if RANK else 3
    after = 3 * 2 * channels + 2 * (9 - channels)  # own channels to 3 ranks, and gradients of its two images' other channels
    conv1, conv2, norms, fc2 = 3 * 6 * 9 + 6, 6 * 6 * 9 + 6, 2 * (6 + 6), 9 * 5 + 5  # numbers of parameters that all ranks share
    for trained, transfer, update, statistics in (
            # Statistics are 2 numbers for each of 6 channels of two normalizations, forward and (if a layer before is
            # trained) backward, and 1 number for the loss.
            (("fc", ), 3 * 2 * 96 + after, fc2, 12 + 12 + 1),
            (("fc", "conv2"), 2 * 3 * 2 * 96 + after, fc2 + conv2, 12 + 24 + 1),
            (("fc", "conv", "bn"), 2 * 3 * 2 * 96 + after, fc2 + conv2 + conv1 + norms, 24 + 24 + 1)):
        for name, parameter in divided.named_parameters():
            parameter.requires_grad_(name.startswith(trained))
        divided(x, y).backward()
        counted = {kind: [sum(pair[way] for pair in pairs.values()) for way in (0, 1)]
                   for kind, pairs in parallel.report(divided).counted.items()}
        assert counted["transfer"] == [transfer] * 2 and counted["statistics"] == [peers * statistics] * 2, (trained, counted)
        # For each sum, a rank sends three quarters to the others, and then the quarter that it has summed to each of the
        # three. This is 1.5 times the sum's elements. Parts have integer sizes, so counts may differ by one.
        assert all(abs(each - 1.5 * update) <= 1 for each in counted["update"]), (trained, counted)
        assert counted.get("labels", [0, 0]) == [0, 0], counted


def clipping():
    for plan in (None, pinned({None: {"n": WORLD}, "fc1": {"c": WORLD}})):
        divided, single, x, y = pair(6, plan=plan)
        assert plan is None or divided._ucudnn.sums, "no rank shares a parameter"
        for order in (2.0, 1.0, float("inf")):
            for foreach in (None, False):
                divided.zero_grad(), single.zero_grad()
                divided(x, y).backward()
                F.cross_entropy(single(x), y).backward()
                found = torch.nn.utils.clip_grad_norm_(divided.parameters(), 0.1, order, foreach=foreach)
                wanted = torch.nn.utils.clip_grad_norm_(single.parameters(), 0.1, order, foreach=foreach)
                assert abs(found.item() - wanted.item()) < 1e-12 * wanted.item(), (order, found, wanted)
                same(divided, single, gradients=True)
    try:
        divided.fc1.weight.grad.max(1)
    except parallel.NotSupported as error:
        assert "max with more arguments than a type, of a gradient of which this rank has a part" in str(error)
    else:
        raise AssertionError("no refusal")


def clip_one(parameter):
    torch.nn.utils.clip_grad_norm_([parameter], 0.5)


def hooks():
    """Hooks of parameters may compute norms. torch.autograd.grad may return gradients of some parameters, even of parameters
    of which a rank has no part."""
    for degrees in ({"conv1": {"h": 2}}, {"conv1": {"n": 2}, "fc1": {"c": 2}, "fc2": {"c": WORLD}}):
        model, x, y = made(35)
        single, divided = copy.deepcopy(model), apply(model, pinned(degrees), timeout_s=20)
        told = []
        for one in (divided, single):
            loss = one(x, y) if one is divided else F.cross_entropy(one(x), y)
            gradients = torch.autograd.grad(loss, [one.fc2.weight, one.bn1.bias], retain_graph=True)
            told.append([gradient.norm().item() for gradient in gradients])
            loss.backward(inputs=[one.fc2.bias], retain_graph=True)
            told[-1].append(one.fc2.bias.grad.norm().item())
            for parameter in one.parameters():
                parameter.register_hook(lambda gradient: gradient / (gradient.norm() + 1e-3))
                parameter.register_post_accumulate_grad_hook(clip_one)
            loss.backward()
        assert all(abs(a - b) < 1e-12 for a, b in zip(*told)), told
        same(divided, single, gradients=True)
        divided._ucudnn.close()


def clip_by_hand(gradients, limit):
    total = sum(gradient.data.norm(2).item()**2 for gradient in gradients)**0.5
    for gradient in gradients:
        gradient.detach().mul_(limit / total)


def idioms():
    """A program may compute tensors from gradients element by element. Norms of such tensors equal the norms on one device.
    Other reductions are refused."""
    divided, single, x, y = pair(6, plan=pinned({None: {"n": WORLD}, "fc1": {"c": WORLD}}))
    optimizers = sgd(divided), sgd(single)
    for step in range(2):
        for model, optimizer in zip((divided, single), optimizers):
            optimizer.zero_grad()
            (divided(x, y) if model is divided else F.cross_entropy(single(x), y)).backward()
            clip_by_hand([one.grad for one in model.parameters()], 0.1)
            for one in model.parameters():
                one.grad = one.grad * 2
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.15)
            optimizer.step()
    same(divided, single)
    told = []
    for model in (divided, single):
        loss = divided(x, y) if model is divided else F.cross_entropy(single(x), y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        told.append([function(one).item() for one in gradients for function in (
            lambda g: g.data.norm(), lambda g: (g**2).norm(1), lambda g: (2 - g.float().flatten()).norm(),
            lambda g: g.sum() if g.numel() in (6, 45) else copy.deepcopy(g).norm(3.0),
            lambda g: torch.where(g > 0, g, -g).t().norm(float("inf")) if g.ndim == 2 else g.abs().norm(float("inf")))])
        if model is divided:
            for function in (lambda g: (g**2).sum(0), lambda g: g.std(), lambda g: torch.cat([g.flatten(), g.flatten()]),
                             lambda g: g.detach().numpy(), lambda g: g[0], lambda g: g.norm(0)):
                for one in gradients[-4:-2]:
                    refused(lambda: function(one), parallel.NotSupported, "of a gradient of which this rank has a part: ")
    assert all(abs(a - b) <= 1e-6 * abs(b) + 1e-12 for a, b in zip(*told)), told
    divided(x, y).backward()
    outside = torch.full((4, ), 3.0)
    for model in (divided, single):
        found = torch.nn.utils.get_total_norm([outside, *(one.grad for one in model.parameters())])
        told.append(found.item()**2 - sum(one.grad.norm().item()**2 for one in model.parameters()))
    assert all(abs(each - 36) < 1e-9 for each in told[2:]), told[2:]
    divided.fc1.bias.grad = torch.zeros_like(divided.fc1.bias)
    refused(optimizers[0].step, parallel.NotSupported, "the gradient of fc1.bias was replaced by a tensor that was not computed")


def reductions():
    """Reductions over all elements give the same as reductions of the whole gradients, on all ranks. This holds even if a
    number on one rank is not finite."""
    divided, single, x, y = pair(6, plan=pinned({"conv1": {"c": 2}, "conv2": {"n": 2}, "fc1": {"c": WORLD}}))
    divided(x, y).backward(), F.cross_entropy(single(x), y).backward()
    for is_finite in (True, False):
        if not is_finite:
            single.fc1.bias.grad[0] = float("nan")
            if RANK == 0:
                plain(divided.fc1.bias.grad)[0] = float("nan")
        told = [[function(one.grad) for one in model.parameters() for function in (
            lambda g: g.isnan().any(), lambda g: torch.isfinite(g).all(), lambda g: (g.abs() > 1e-9).sum(), lambda g: g.max(),
            lambda g: (g.abs() > 1e-9).count_nonzero(), lambda g: g.float().amin(), lambda g: g.abs().mean(), lambda g: torch.min(g),
            lambda g: (g**2).sum(dtype=torch.float32))] for model in (divided, single)]
        for found, wanted in zip(*told):
            assert type(found) is torch.Tensor and (found.dtype, found.shape) == (wanted.dtype, wanted.shape), (found, wanted)
            assert torch.allclose(found.double(), wanted.double(), 1e-6, 1e-12, equal_nan=True), (found, wanted)


def scaler():
    """If gradients overflow on one rank, all ranks skip the step."""
    divided, single, x, y = pair(7)
    divided.float(), single.float()
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**10) for _ in range(2)]
    optimizers = sgd(divided), sgd(single)
    for step in range(4):
        data = x.float().clone()
        if step == 1:
            data[0, 0, 0, 0] = float("inf")
        losses = divided(data, y), F.cross_entropy(single(data), y)
        for scaled, optimizer, loss in zip(scalers, optimizers, losses):
            optimizer.zero_grad()
            scaled.scale(loss).backward()
            scaled.unscale_(optimizer)
        for model, scaled, optimizer in zip((divided, single), scalers, optimizers):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaled.step(optimizer)
            scaled.update()
        assert scalers[0].get_scale() == scalers[1].get_scale(), (step, scalers[0].get_scale(), scalers[1].get_scale())
    same(divided, single, 1e-3)


def overflow():
    """Only the scaler tells other ranks that the gradient of rank 0's class is not finite."""
    torch.manual_seed(27)
    model, (_, x, _) = nn.Sequential(nn.Flatten(), nn.Linear(192, 6)).float(), made(27)
    x, single, loss = x.float(), copy.deepcopy(model), F.binary_cross_entropy_with_logits
    network = describe(model, (3, 8, 8))
    divided = parallel.apply(model, pinned({"1": {"c": WORLD}}, network), loss=loss, network=network)
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**10) for _ in range(2)]
    optimizers = sgd(divided), sgd(single)
    for step in range(3):
        labels = torch.rand(BATCH, 6, generator=torch.Generator().manual_seed(step)).float()
        if step == 1:
            labels[0, 0] = 1e38  # its gradient times the scale exceeds the largest fp32 number
        for scaled, optimizer, found in zip(scalers, optimizers, (divided(x, labels), loss(single(x), labels))):
            optimizer.zero_grad()
            scaled.scale(found).backward()
        is_finite = all(plain(parameter.grad).isfinite().all() for parameter in divided.parameters())
        assert is_finite == (step != 1 or RANK != 0), (step, RANK)
        for scaled, optimizer in zip(scalers, optimizers):
            scaled.step(optimizer)
            scaled.update()
        assert scalers[0].get_scale() == scalers[1].get_scale() == 2.0**(10 if step < 1 else 9), step
        same(divided, single, 1e-6)  # tolerance for fp32 sums over eight images


class Signs(nn.Module):
    """A network whose tensors are exact in bf16 if each of its images has 1 and -1 equally often. Only gradients that pass
    the batch normalization are rounded."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4, eps=0.0)
        self.fc1, self.fc2 = nn.Linear(64, 6), nn.Linear(6, 5)
        with torch.no_grad():
            self.conv.weight.copy_((torch.eye(4)[[2, 0, 3, 1]] * torch.tensor([1.0, -1.0, -1.0, 1.0])).view(4, 4, 1, 1))
            for parameter, low, high in ((self.bn.weight, 1, 3), (self.bn.bias, -1, 2), *(
                    (one, -1, 2) for fc in (self.fc1, self.fc2) for one in fc.parameters())):
                parameter.copy_(torch.randint(low, high, parameter.shape))

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(torch.flatten(torch.relu(self.bn(self.conv(x))), 1))))


def autocast():
    """In bf16, a plan's gradients differ from the gradients on one device by at most the plan's roundings. These are counted
    below."""
    torch.manual_seed(8)
    model = Signs().float()
    single, network = copy.deepcopy(model), describe(model, (4, 4, 4))
    signs = torch.cat([torch.ones(BATCH * 8), -torch.ones(BATCH * 8)]).float()
    x = torch.stack([signs[torch.randperm(BATCH * 16)].view(BATCH, 4, 4) for _ in range(4)], 1)
    labels = torch.randint(-1, 2, (BATCH, 5)).float()
    plan = pinned({None: {"n": WORLD}, "fc1": {"c": WORLD}}, network)
    divided = parallel.apply(model, plan, loss=parallel.Sum(lambda y, t: (y * t).sum()), network=network)
    executor = divided._ucudnn
    assert executor.sums and {one.kind for one in executor.schedule.statistics.values()} >= {"batch_normalization"}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = divided(x, labels)
        before = single.conv(x)
        after = single.bn(before)
        hidden = single.fc1(torch.flatten(torch.relu(after), 1))
        outputs = single.fc2(torch.relu(hidden))
        wanted = (outputs * labels).sum()
    assert max(hidden.abs().max(), outputs.abs().max()) <= 256 and outputs.dtype == torch.bfloat16
    before.retain_grad(), after.retain_grad()
    found.backward(), wanted.backward()
    assert found.item() == wanted.item(), (found, wanted)
    # On one device, a batch normalization rounds its gradient once. A divided batch normalization rounds three times: the
    # gradient without the contribution of the statistics, this contribution, and their difference. Then each rank rounds its
    # part of the gradient of conv.weight. Each bound is 2^-8, one rounding of bf16, times the largest possible sum of the
    # rounded numbers.
    rounding, axes = 2.0**-8, (0, 2, 3)
    whole, direct = before.grad.abs().float().sum(axes), (after.grad.float() * single.bn.weight.view(1, -1, 1, 1)).abs().sum(axes)
    bounds = {"conv.weight": (1 + rounding)**2 * rounding * (direct + 5 * whole).view(-1, 1, 1, 1),
              "bn.weight": 2.0**-20 * after.grad.abs().float().sum(axes)}  # statistics are in fp32
    for name, parameter in single.named_parameters():
        error = (plain(divided.get_parameter(name).grad) - part(divided, name, parameter.grad)).abs()
        bound = part(divided, name, bounds.get(name, torch.zeros(())).expand(parameter.shape))
        assert (error <= bound).all(), f"rank {RANK}: {name} differs by {error.max()} of {bound.max()}"
    assert parallel.report(divided).difference() == 0


def evaluation():
    """Between training steps, evaluation gives every rank the whole outputs, and uses running statistics."""
    divided, single, x, y = pair(9, dropout=0.0)
    optimizers = sgd(divided), sgd(single)
    for step in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        divided(x, y).backward()
        F.cross_entropy(single(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()
        divided.eval(), single.eval()
        with torch.no_grad():
            found, wanted = divided(x), single(x)
            assert (found - wanted).abs().max() < 1e-11, (found - wanted).abs().max()
            assert abs(divided(x, y).item() - F.cross_entropy(wanted, y).item()) < 1e-12
        divided.train(), single.train()
    same_buffers(divided, single)


def averaged():
    """AveragedModel works with divided models, which it copies with deepcopy."""
    divided, single, x, y = pair(10)
    averages = [torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
                for model in (divided, single)]
    optimizers = sgd(divided), sgd(single)
    for step in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        divided(x, y).backward()
        F.cross_entropy(single(x), y).backward()
        for optimizer, average, model in zip(optimizers, averages, (divided, single)):
            optimizer.step()
            average.update_parameters(model)
    same(averages[0].module, averages[1].module)
    for average in averages:
        average.eval()
    with torch.no_grad():
        assert (averages[0](x) - averages[1](x)).abs().max() < 1e-11


def whole_batches(divided, count, seed, epochs):
    """Returns, for each epoch, the indices of whole batches in the order of rank 0's sampler."""
    executor = types.SimpleNamespace(schedule=divided._ucudnn.schedule, sizes=set(), rows=lambda size: (0, size))
    sampler = parallel.batch_sampler(range(count), types.SimpleNamespace(_ucudnn=executor), seed)
    told = [[list(sampler) for _ in range(epochs)]]
    dist.broadcast_object_list(told, 0)
    return told[0]


def loader():
    """Each rank reads a data set with parallel.batch_sampler for two epochs. Its 21 images are not a multiple of the
    batch size 8."""
    divided, single, _, _ = pair(11)
    generator = torch.Generator().manual_seed(3)
    images, labels = torch.randn(21, 3, 8, 8, generator=generator), torch.randint(0, 5, (21,), generator=generator)
    data = TensorDataset(images, labels)
    sampler = parallel.batch_sampler(data, divided, seed="text, whose hash differs between processes")
    orders = whole_batches(divided, 21, sampler.seed, 2)
    assert all(sorted(sum(order, [])) == list(range(21)) for order in orders) and orders[0] != orders[1]
    optimizers = sgd(divided), sgd(single)
    read = 0
    for epoch in range(2):
        for number, (x, y) in enumerate(DataLoader(data, batch_sampler=sampler)):
            read += len(x)
            for optimizer in optimizers:
                optimizer.zero_grad()
            divided(x, y).backward()
            chosen = orders[epoch][number]
            F.cross_entropy(single(images[chosen]), labels[chosen]).backward()
            for optimizer in optimizers:
                optimizer.step()
        assert number == 2
    same(divided, single, 1e-11)
    rows = divided._ucudnn.rows(BATCH)
    assert read <= 2 * 3 * max(1, rows[1] - rows[0] if rows else 1)


def out_of_step():
    """Ranks whose samplers are at different batches are refused. A rank may have drawn a batch in advance, skipped a batch,
    or used another seed."""
    divided, _, x, y = pair(11, plan=pinned({None: {"n": WORLD}}))
    data = TensorDataset(x.repeat(3, 1, 1, 1), y.repeat(3))
    for seed, looks, skips, text in ((0, True, False, "24 images, seed 0, epoch 1, batch 0 on rank 0, "), (RANK, False, False, "seed 1, "),
                                     (0, False, True, "seed 0, epoch 0, batch 1 on rank 0, ")):
        batches = DataLoader(data, batch_sampler=parallel.batch_sampler(data, divided, seed))
        if looks and RANK == 0:
            next(iter(batches))
        batches = iter(batches)
        if skips and RANK == 0:
            next(batches)
        refused(lambda: divided(*next(batches)), parallel.NotSupported, text)


def last_whole():
    """Every rank may have all images of a smaller last batch. These may be as many as a rank's images of a full
    batch."""
    divided, single, x, y = pair(11, plan=pinned({None: {"n": 2}}))
    parallel.batch_sampler(range(BATCH + BATCH // 2), divided)
    rows = divided._ucudnn.rows(BATCH) or (0, 1)
    for own, count in ((slice(BATCH // 2), BATCH // 2), (slice(*rows), BATCH), (slice(BATCH), BATCH)):
        with torch.no_grad():
            found, wanted = divided(x[own]), single(x[:count])
            assert found.shape == wanted.shape and (found - wanted).abs().max() < 1e-12, (own, found.shape, wanted.shape)
            assert abs(divided(x[own], y[own]).item() - F.cross_entropy(wanted, y[:count]).item()) < 1e-12, own


class Augmented(torch.utils.data.Dataset):
    """Images with noise. With an epoch, the noise depends only on the epoch and the image's number."""

    def __init__(self, images, labels, epoch=None):
        self.images, self.labels, self.epoch = images, labels, epoch

    def __len__(self):
        return len(self.images)

    def __getitem__(self, number):
        with torch.random.fork_rng(devices=()) if self.epoch is not None else contextlib.nullcontext():
            if self.epoch is not None:
                torch.manual_seed(self.epoch * len(self) + number)
            return self.images[number] + torch.randn(3, 8, 8), self.labels[number]


def augmented():
    """If several ranks load the same images, these images and their labels must be equal on the ranks. Images that only one
    rank loads may be arbitrary."""
    for degrees, others in (({None: {"n": WORLD}}, None), ({"conv1": {"c": WORLD}}, list(range(WORLD))),
                            ({None: {"n": WORLD}, "conv1": {"h": WORLD}}, list(range(WORLD)))):
        divided, single, x, y = pair(11, plan=pinned(degrees))
        torch.manual_seed(RANK)
        for epoch in (None, 3):
            data = Augmented(x, y, epoch)
            images, labels = next(iter(DataLoader(data, batch_sampler=parallel.batch_sampler(data, divided, shuffle=False))))
            if epoch is None and others:
                refused(lambda: divided(images, labels), parallel.NotSupported,
                        f"images 0 to {BATCH} of the batch differ between the ranks {others}, which all load them: the same are")
            else:
                divided(images, labels)
        if others:
            refused(lambda: divided(images, labels if RANK else (labels + 1) % 5), parallel.NotSupported,
                    f"labels of images 0 to {BATCH} of the batch differ between the ranks {others}, which all load them")
        found, batch = divided(images, labels), next(iter(DataLoader(data, batch_size=BATCH)))
        wanted = F.cross_entropy(single(batch[0]), batch[1])
        assert abs(found.item() - wanted.item()) < 1e-12, (degrees, found, wanted)


def blank():
    """A rank's part of a batch can have as many images as a smaller whole batch. If all images are equal, the sampler or the
    labels still show whether a rank passes its part or the smaller batch."""
    count = BATCH + BATCH // 2
    divided, single, _, _ = pair(11, plan=pinned({None: {"n": 2}}))
    images, labels = torch.ones(count, 3, 8, 8), torch.arange(count) % 5
    data = TensorDataset(images, labels)
    for number, (x, y) in enumerate(DataLoader(data, batch_sampler=parallel.batch_sampler(data, divided, shuffle=False))):
        wanted = F.cross_entropy(single(images[:count - BATCH if number else BATCH]), labels[number * BATCH:][:BATCH])
        for _ in range(2):
            assert abs(divided(x, y).item() - wanted.item()) < 1e-12, number
    for number, (x, _) in enumerate(DataLoader(data, batch_sampler=parallel.batch_sampler(data, divided))):
        assert len(divided(x)) == (count - BATCH if number else BATCH), number


def whole_labels():
    """whole_labels returns the whole labels on every rank, even on a rank that loads no images, and for a smaller last
    batch."""
    divided, single, _, _ = pair(9, plan=pinned({None: {"n": 2}}))
    refused(lambda: divided.whole_labels(torch.zeros(4)), parallel.NotSupported, "whole_labels(labels) before a pass: model(images) comes")
    generator = torch.Generator().manual_seed(4)
    images, labels = torch.randn(BATCH + 3, 3, 8, 8, generator=generator), torch.rand(BATCH + 3, 2, generator=generator)
    data, seen = TensorDataset(images, labels), 0
    divided.eval(), single.eval()
    with torch.no_grad():
        for x, y in DataLoader(data, batch_sampler=parallel.batch_sampler(data, divided, shuffle=False)):
            outputs, whole = divided(x), divided.whole_labels(y)
            assert torch.equal(whole, labels[seen:seen + len(outputs)]) and torch.equal(divided.whole_labels(y > 0.5), whole > 0.5), seen
            assert torch.equal(divided.whole_labels(whole), whole)
            seen += len(outputs)
        assert seen == len(data) and parallel.report(divided).difference() == 0
        refused(lambda: divided.whole_labels(y[:0] if RANK == 1 else y), parallel.NotSupported, "0 labels on rank 1: 1 are expected, ")
        refused(lambda: divided.whole_labels(y if RANK else y.float()), parallel.NotSupported, "ranks differ in labels: torch.float32 of")


def rests():
    """A last batch may have fewer images than there are ranks. All ranks then have the gradients and running statistics of
    one device, even ranks without images."""
    for plan in (pinned({None: {"n": WORLD}}), pinned({None: {"n": WORLD}, "conv2": {"c": WORLD}, "fc1": {"r": WORLD}})):
        divided, single, x, y = pair(12, plan=plan)
        for rest in (1, 2):
            parallel.batch_sampler(range(BATCH + rest), divided)
            for count in (rest, BATCH):
                divided.zero_grad(), single.zero_grad()
                found, wanted = divided(x[:count], y[:count]), F.cross_entropy(single(x[:count]), y[:count])
                assert abs(found.item() - wanted.item()) < 1e-12, (rest, count)
                found.backward(), wanted.backward()
                same(divided, single, gradients=True)
                same_buffers(divided, single)
        report = parallel.report(divided)
        assert report.difference() == 0 and report.steps == 4, report


def reported():
    """A report predicts the passes that have run. The test makes passes without a backward pass, without sums, without
    statistics, with two backward passes, and with other batch sizes."""
    model, x, y = made(13)
    divided = apply(model, pinned({None: {"n": WORLD}, "conv2": {"h": WORLD}, "fc1": {"c": WORLD}, "fc2": {"c": WORLD}}))
    parallel.batch_sampler(range(BATCH + 5), divided)

    def without_sums():
        with divided.no_sync():
            divided(x, y).backward()

    def twice():
        loss = divided(x, y)
        loss.backward(retain_graph=True)
        loss.backward()
    found = []
    for run in (lambda: divided(x, y), lambda: divided(x), without_sums, lambda: divided(x, y).backward(), twice,
                lambda: divided.eval()(x, y).backward(), lambda: divided(x[:5]), lambda: divided.train()(x[:5], y[:5]).backward()):
        run()
        report = parallel.report(divided)
        assert report.difference() == 0, (len(found), report)
        found.append((report.steps, *(report.predicted.get(kind) for kind in ("update", "labels"))))
    assert [one[0] for one in found] == [0, 0, 1, 1, 2, 1, 0, 1], found
    assert [one[1] is not None for one in found] == [False, False, False, True, True, True, False, True], found


def begin_again(seed):
    """Makes the next model count as the first model of a process."""
    torch.manual_seed(seed)
    model_of_parallel._APPLIED = itertools.count()


def dropout():
    """Dropout masks do not depend on the partition, and a rate of 1/4 drops about a quarter. Other models and copies have
    different masks. All masks are the same when the program starts again."""
    random_plan.count += 1
    model, x, y = made(12, dropout=0.5)
    other, further, again = (copy.deepcopy(model) for _ in range(3))
    begin_again(99)
    first = apply(model, random_plan(12, dropout=0.5), loss=F.cross_entropy)
    third = apply(further, random_plan(12, dropout=0.5), loss=F.cross_entropy)
    begin_again(99)
    random_plan.count += 1
    second = apply(other, random_plan(13, dropout=0.5), loss=F.cross_entropy)
    fourth = apply(again, random_plan(13, dropout=0.5), loss=F.cross_entropy)
    unused = copy.deepcopy(first) if RANK else None  # some ranks make one more copy
    copies = [copy.deepcopy(each) for each in (first, second, third, fourth)]
    copies += [copy.deepcopy(each) for each in copies[:2]]
    for step in range(3):
        losses = [each(x, y).item() for each in (first, second, third, fourth, *copies)]
        assert all(abs(a - b) < 1e-12 for a, b in zip(losses[::2], losses[1::2])), losses
        assert len({round(loss, 9) for loss in losses}) == 5, losses
    assert unused is None or unused._ucudnn.step == 0
    first.eval().drop.train()  # in evaluation, each pass has its own mask if its dropout is in training mode
    with torch.no_grad():
        assert not torch.equal(first(x), first(x))
        first.drop.eval()
        assert torch.equal(first(x), first(x))
    from ucudnn.parallel.dropout import kept
    box, inner = ((0, 8), (0, 6), (0, 1), (0, 5), (0, 4)), ((3, 7), (2, 4), (0, 1), (1, 3), (2, 4))
    for per, shape in (("element", (8, 6, 5, 4)), ("channel", (8, 6, 1, 1)), ("image", (8, 1, 1, 1))):
        mask, own = (kept(1, 2, 3, each, box, (0, 1, 3, 4), 0.5, per, torch.device("cpu")) for each in (box, inner))
        assert mask.shape == shape and torch.equal(own.expand(4, 2, 2, 2), mask.expand(8, 6, 5, 4)[3:7, 2:4, 1:3, 2:4]), per
    box = ((0, 64), (0, 100), (0, 1), (0, 1), (0, 1))
    mask = kept(1, 2, 3, box, box, (0, 1, 3, 4), 0.25, "element", torch.device("cpu"))
    assert abs(mask.double().mean().item() - 0.75) < 0.03
    inner = ((3, 9), (20, 31), (0, 1), (0, 1), (0, 1))
    assert torch.equal(mask[3:9, 20:31], kept(1, 2, 3, inner, box, (0, 1, 3, 4), 0.25, "element", torch.device("cpu")))
    assert not torch.equal(mask, kept(1, 3, 3, box, box, (0, 1, 3, 4), 0.25, "element", torch.device("cpu")))


class Dropping(nn.Module):
    """A network that drops channels, images and elements."""

    def __init__(self):
        super().__init__()
        self.conv, self.channels, self.next = nn.Conv2d(3, 6, 3, padding=1), nn.Dropout2d(0.4), nn.Conv2d(6, 6, 3, padding=1)
        self.fc, self.elements, self.last = nn.Linear(6 * 8 * 8, 9), nn.Dropout(0.5), nn.Linear(9, 5)

    def forward(self, x):
        x = self.channels(torch.relu(self.conv(x)))
        y = self.next(x)
        if self.training:
            y = y * torch.empty([y.shape[0], 1, 1, 1], dtype=y.dtype).bernoulli_(0.75).div_(0.75)
        return self.last(self.elements(self.fc(torch.flatten(x + y, 1))))


def dropout_alone():
    """An earlier run on a single rank wrote the loss and gradients of each kind of dropout. Four ranks must get the same in
    each partition."""
    file, network = os.path.join(os.environ["UCUDNN_TEST_FOLDER"], "dropout"), describe(Dropping(), (3, 8, 8))
    expected = torch.load(file) if WORLD > 1 else None
    assert [node.members.get("per", "element") for node in network.nodes if node.op == "dropout"] == ["channel", "image", "element"]
    for degrees in ({}, {None: {"n": WORLD}}, {"conv": {"c": 3}, "next": {"h": WORLD}, "fc": {"c": WORLD}},
                    {"conv": {"n": 2, "w": 2}, "next": {"n": 2, "c": 2}, "fc": {"n": 2, "c": 2}},
                    {"conv": {"h": WORLD}, "next": {"c": WORLD}, "fc": {"n": WORLD}, "last": {"c": 2}})[:None if WORLD > 1 else 1]:
        begin_again(28)
        model, (_, x, y) = Dropping(), made(28)
        divided, found = parallel.apply(model, pinned(degrees, network), loss=F.cross_entropy, network=network), []
        for step in range(2):
            divided.zero_grad()
            loss = divided(x, y)
            loss.backward()
            found.append({"loss": loss.detach(), **{name: plain(one.grad) for name, one in divided.named_parameters()}})
        for one, other in zip(found, expected or found):
            for name, value in one.items():
                wanted = part(divided, name, other[name]) if name != "loss" else other[name]
                assert torch.allclose(value, wanted, rtol=1e-12, atol=1e-12), f"{degrees}, rank {RANK}: {name}"
        divided._ucudnn.close()
    if WORLD == 1:
        assert found[0]["loss"] != found[1]["loss"], "each step has masks of its own"
        torch.save(found, file)


def unlike_weights():
    """`apply` uses the parameters of rank 0. Other ranks may have other values or meta tensors."""
    for is_meta in (False, True):
        model, x, y = made(14)
        single = copy.deepcopy(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(RANK)
        if is_meta and RANK:
            model = model.to("meta")
        random_plan.count += 1
        divided = apply(model, random_plan(14), loss=F.cross_entropy)
        same(divided, single, 0.0)
        divided(x, y).backward()
    meta, _, _ = made(14)
    refused(lambda: apply(meta.to("meta"), random_plan(14)), parallel.NotSupported, "rank 0's model is on meta")


def checkpointed():
    random_plan.count += 1
    model, x, y = made(15)
    single = copy.deepcopy(model)
    divided = apply(model, random_plan(15), loss=F.cross_entropy, checkpoint=["conv1", "conv2", "pool", "relu"])
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)


def overwriting():
    """If only one step reads an output, this step writes its own output over it. Gradients keep the same bits."""
    model, x, y = made(18)
    divided = apply(model, pinned({None: {"n": WORLD}}))
    executor = divided._ucudnn
    executor.read_model(divided)
    plan, found = executor.plan(BATCH), []
    assert [executor.network.by_name[name].op for name in executor.places if name in plan.overwriting] == [
        "activation", "add", "activation"], plan.overwriting
    for names in (plan.overwriting, set()):
        plan.overwriting = names
        divided.zero_grad()
        divided(x, y).backward()
        found.append(([plain(parameter.grad) for parameter in divided.parameters()], parallel.report(divided).kept))
    (overwritten, less), (separate, more) = found
    assert all(map(torch.equal, overwritten, separate))
    begin, end = plan.rows
    kept = 3 * (end - begin) * 6 * 8 * 8  # elements of three overwritten outputs, each with 6 channels of 8 x 8
    assert less["outputs"] == more["outputs"] and less["followers"][0] + kept == more["followers"][0], (less, more)


def replicas():
    """Ranks that share a parameter have the same bits of it after several steps."""
    divided, _, x, y = pair(16)
    optimizer = sgd(divided)
    for step in range(5):
        optimizer.zero_grad()
        divided(x, y).backward()
        optimizer.step()
    told = [None] * WORLD
    dist.all_gather_object(told, {name: (divided._ucudnn.shards[name].ranges, parameter.detach().clone())
                                  for name, parameter in divided.named_parameters()})
    for name in told[0]:
        seen = {}
        for each in told:
            ranges, values = each[name]
            if ranges is not None:
                assert torch.equal(seen.setdefault(ranges, values), values), name


def overlap_off():
    random_plan.count += 1
    model, x, y = made(17)
    other = copy.deepcopy(model)
    plan = random_plan(17)
    models = [
        apply(each, plan, loss=F.cross_entropy, overlap=overlap) for each, overlap in ((model, True), (other, False))
    ]
    for each in models:
        each(x, y).backward()
    for a, b in zip(*(each.parameters() for each in models)):
        assert torch.equal(plain(a.grad), plain(b.grad))


def refused(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error) and "\n" not in str(error), (text, error)
    else:
        raise AssertionError(f"no refusal: {text}")


def refusals():
    divided, _, x, y = pair(18)
    model, _, _ = made(18)
    for call in (divided.state_dict, lambda: divided.load_state_dict({})):
        refused(call, parallel.NotSupported, "a rank has parts of parameters")
    refused(lambda: torch.save(divided, "/dev/null"), parallel.NotSupported, "pickling a model")
    refused(lambda: nn.parallel.DistributedDataParallel(divided), parallel.NotSupported, "DistributedDataParallel or torch.jit.trace of a model")
    from torch.distributed.fsdp import fully_shard
    mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))
    refused(lambda: fully_shard(divided, mesh=mesh), parallel.NotSupported, "fully_shard of a model that runs by a plan")
    divided, _, x, y = pair(18)
    refused(lambda: parallel.apply(divided, "none.json"), parallel.NotSupported, "runs by a plan already")
    refused(lambda: parallel.apply(model, "none.json"), ValueError, "none.json")
    first = dist.new_group([0])
    refused(lambda: parallel.apply(model, "none.json", group=first), parallel.NotSupported,
            f"group= {'does not have this rank' if RANK else 'has 1 ranks'}; a group of all {WORLD} ranks")

    def other_world(written):
        written["devices"] += 1
        written["levels"] = [WORLD + 1]
        loss = next(one for one in written["statistics"] if one["kind"] == "loss")
        loss["groups"][0]["devices"] = list(range(WORLD + 1))
    random_plan.count += 1
    refused(lambda: parallel.apply(model, random_plan(18, change=other_world), loss=F.cross_entropy), ValueError,
            f"a plan for {WORLD + 1} devices; torch.distributed has {WORLD} ranks")
    random_plan.count += 1
    refused(lambda: parallel.apply(nn.Sequential(nn.Conv2d(3, 4, 3)), random_plan(18)), ValueError, "a plan of the network")
    random_plan.count += 1
    plan = random_plan(18)
    mine = model if RANK else nn.Sequential(nn.Conv2d(3, 4, 3))
    refused(lambda: parallel.apply(mine, plan), (ValueError, parallel.NotSupported),
            "a plan of the network")  # all ranks have the message of rank 0
    refused(lambda: parallel.apply(model, plan, loss=[F.cross_entropy] * 2), parallel.NotSupported,
            "2 losses of a model with 1 outputs")
    refused(lambda: parallel.apply(model, plan, loss=F.cross_entropy, checkpoint=["conv9"]), parallel.NotSupported,
            "checkpoint=['conv9']: names of nodes are expected")
    loss = F.cross_entropy if RANK else F.binary_cross_entropy_with_logits
    refused(lambda: parallel.apply(model, plan, loss=loss), parallel.NotSupported, "ranks differ in losses: ")
    random_plan.count += 1
    plans = plan, random_plan(19)
    refused(lambda: parallel.apply(model, plans[RANK == 1], loss=F.cross_entropy), parallel.NotSupported,
            "ranks differ in the plan: ")
    version, torch.__version__ = torch.__version__, f"2.{RANK}"
    refused(lambda: parallel.apply(model, plan, loss=F.cross_entropy), parallel.NotSupported,
            "ranks differ in the version of torch: 2.0 on rank 0, 2.1 on rank 1; the same is expected")
    torch.__version__ = version

    def other_version(written):
        written["version"] = 2
    random_plan.count += 1
    refused(lambda: parallel.apply(model, random_plan(18, change=other_version)), ValueError, "'version': 2; expected 1")
    from ucudnn.parallel.model import refused_places
    assert refused_places([("cuda", "a"), ("cuda", "b")], "nccl") is refused_places([("cuda", "a")] * 2, "gloo") is None
    assert "ranks 1 and 2 share b" in refused_places([("cuda", "a"), ("cuda", "b"), ("cuda", "b")], "nccl")
    assert "the model of rank 1 is on cpu" in refused_places([("cuda", "a"), ("cpu", "")], "nccl")


class Odd(nn.Module):
    """A network with a softmax over channels in the middle, and a fully connected layer at the end."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6, 5)

    def forward(self, x):
        return self.last(torch.softmax(self.conv(x), 1).mean((2, 3)))


class Hooked(Odd):
    """Has the same description as Odd, but other gradients."""

    def forward(self, x):
        y = self.conv(x)
        if y.requires_grad:
            y.register_hook(lambda gradient: -gradient)
        return self.last(torch.softmax(y, 1).mean((2, 3)))


def rules():
    """If a plan breaks a rule for a layer, all ranks refuse the plan, even ranks without a part of this layer."""
    network = describe(Odd(), (3, 8, 8))

    def plan(**parts):
        return pinned({name: {"c": count} for name, count in parts.items()}, network)
    refused(lambda: parallel.apply(Odd(), plan(conv=2)), parallel.NotSupported, "a softmax over divided channels")
    refused(lambda: parallel.apply(Odd(), plan(last=2), loss=lambda y, t: y.mean()), parallel.NotSupported,
            "last: classes 0 to 3 of 5 are on rank 0, where F.cross_entropy and")
    parallel.apply(Odd(), plan(last=2), loss=F.cross_entropy)._ucudnn.close()
    refused(lambda: parallel.apply(Hooked(), plan()), parallel.NotSupported, "the gradient of conv.weight has the norm")
    divided = parallel.apply(Odd(), plan(), loss=lambda y, t: y.sum())
    refused(lambda: divided(torch.randn(BATCH, 3, 8, 8), torch.zeros(BATCH)), parallel.NotSupported,
            "a loss that is no mean over images")


class Norms(nn.Module):
    """A network with group and layer normalizations between convolutions."""

    def __init__(self):
        super().__init__()
        self.conv, self.group, self.next = nn.Conv2d(3, 6, 3, padding=1), nn.GroupNorm(3, 6), nn.Conv2d(6, 6, 3, padding=1)
        self.layer, self.plain, self.last = nn.LayerNorm(6), nn.GroupNorm(2, 6, affine=False), nn.Linear(6, 5)
        for norm in (self.group, self.layer):
            nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)

    def forward(self, x):
        x = torch.relu(self.next(torch.relu(self.group(self.conv(x)))))
        x = self.plain(self.layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        return self.last(torch.square(x).mean((2, 3)))


def norms():
    """Group normalizations are divided along whole groups, along positions and inside groups. Layer normalizations are
    divided along positions and channels. Compares training, evaluation and autocast."""
    for degrees, channels in (({"group": {"c": 3}, "layer": {"h": 3}, "plain": {"n": 2}, "conv": {"w": 2}}, (2, 6)),
                              ({"group": {"h": 3}, "layer": {"c": 3}, "plain": {"w": 3}}, (6, 2)),
                              ({"group": {"c": 2}, "layer": {"c": 2}, "plain": {"c": 3}}, (3, 3))):
        torch.manual_seed(23)
        model, (_, x, y) = Norms(), made(23)
        network, single = describe(model, (3, 8, 8)), copy.deepcopy(model)
        divided = parallel.apply(model, pinned(degrees, network), loss=F.cross_entropy)
        if RANK < 2:
            assert (len(divided.group.weight), len(divided.layer.weight)) == channels, degrees
        divided(x, y).backward()
        F.cross_entropy(single(x), y).backward()
        same(divided, single, gradients=True)
        assert parallel.report(divided).difference() == 0, degrees
        divided.eval()
        with torch.no_grad():
            assert torch.allclose(divided(x), single(x), rtol=1e-12), degrees
        with torch.no_grad(), torch.autocast("cpu"):
            assert torch.allclose(divided(x).double(), single(x).double(), atol=0.1), degrees
        divided._ucudnn.close()


class Spelled(nn.Module):
    """A network of operators whose arguments are not the defaults."""

    def __init__(self):
        super().__init__()
        self.conv, self.last, self.twice = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6, 1), nn.BatchNorm2d(6, affine=False)
        self.register_buffer("mean", torch.zeros(6)), self.register_buffer("variance", torch.ones(6))
        self.register_buffer("divisor", torch.rand(6, 1, 1) + 1)
        self.register_buffer("offset", torch.rand(1, 3, 1, 1))
        self.shift, self.spread = nn.Parameter(torch.rand(6)), nn.Parameter(torch.rand(6, 1, 1) + 1)

    def forward(self, x):
        y = (self.conv(x - self.offset) - self.shift.view(6, 1, 1)) / self.divisor / self.spread
        y = self.twice(F.batch_norm(y, self.mean, self.variance, training=self.training, momentum=0.5))
        y = F.dropout(self.twice(torch.sub(y, y.tanh(), alpha=3)), 0.5, training=False)
        y = torch.sub(y.sub_(2, alpha=0.25), (1 - y / torch.tensor(4.0)).sigmoid())
        y = torch.add(y, torch.div(y, 0.5, rounding_mode="floor"), alpha=0.125) - 3 * y.relu()
        return self.last(F.adaptive_max_pool2d(y, 1).flatten(1)).squeeze(-1)


def spelled():
    """Operators keep the program's arguments. Two layers that share a running mean must have the same channels on every
    rank."""
    network, loss = describe(Spelled(), (3, 8, 8)), F.binary_cross_entropy_with_logits
    for degrees in ({None: {"n": WORLD}, "last": {"r": 2}}, {None: {"c": 3}, "last": {}}):
        torch.manual_seed(27)
        model, (_, x, y) = Spelled(), made(27)
        single, plan, y = copy.deepcopy(model), pinned(degrees, network), y / 5
        assert parallel.count(Spelled(), plan, RANK, loss=loss).difference() == 0
        divided = parallel.apply(model, plan, loss=loss, network=network)
        for _ in range(2):
            found, wanted = divided(x, y), loss(single(x), y)
            assert abs(found.item() - wanted.item()) <= 1e-12, (found, wanted)
            found.backward(), wanted.backward()
        same(divided, single, gradients=True)
        for name, buffer in divided.named_buffers():
            shard = divided._ucudnn.shards.get(name)
            whole = single.get_buffer(name)
            assert torch.allclose(buffer, shard.of(whole) if shard else whole, rtol=1e-12), (name, buffer, whole)
        assert parallel.report(divided).difference() == 0
        divided.eval(), single.eval()
        assert torch.allclose(divided(x), single(x), rtol=1e-12)
        divided._ucudnn.close()
    for other in ({"conv": {"c": 3}}, {"conv": {"n": 2}}):
        refused(lambda: parallel.apply(Spelled(), pinned({None: {"n": WORLD}} | other, network), network=network),
                parallel.NotSupported, "twice@1: its ranks have the channels {0: (0, 6), 1: (0, 6), 2: (0, 6)}, those of twice")


class Functions(nn.Module):
    """A network of functions of one number, of a parameter that all channels share, and of reordered dimensions."""

    def __init__(self):
        super().__init__()
        self.conv, self.slope, self.slopes, self.last = nn.Conv2d(3, 6, 3, padding=1), nn.PReLU(), nn.PReLU(6), nn.Linear(6, 5)
        self.gate, self.shift = nn.Parameter(torch.tensor([0.5])), nn.Parameter(torch.tensor([[[0.25]]]))
        self.register_buffer("unit", torch.tensor(3.0))
        nn.init.uniform_(self.slopes.weight)

    def forward(self, x):
        y = self.slope(self.conv(x))
        y = y + self.gate * torch.erf(self.slopes(y.clip(-1, 1)))
        y = torch.nan_to_num(2**y).atan() / self.unit - self.shift
        y = F.threshold(y, -0.05, 0.5).swapaxes(1, 3).movedim((1, 3), (3, 2)).movedim(1, -1).swapaxes(2, 3)
        return self.last(y.mean((2, 3)).unflatten(1, (6, 1, 1)).flatten(1).log1p())


def functions():
    """Functions of one number give the results of one device in every partition. Gradients of parameters that all
    channels share are summed over all parts."""
    torch.manual_seed(36)
    model, (_, x, y) = Functions(), made(36)
    network = describe(model, (3, 8, 8))
    opaque = [node.name for node in network.nodes if node.op == "opaque"]
    assert opaque == ["slope", "slopes", "mul", "div", "sub"], opaque
    for degrees in ({"n": WORLD}, {"c": WORLD}, {"h": WORLD}, {"n": 2}):
        single = copy.deepcopy(model)
        whole = {"h": degrees.get("h", 1), "n": degrees.get("n", 1), "w": degrees.get("c", 1)}
        plan = pinned({None: degrees, "mean": {"n": 2}, "last": {"r": 2}} | dict.fromkeys(opaque, whole), network)
        divided = parallel.apply(copy.deepcopy(model), plan, loss=F.cross_entropy, network=network)
        found, wanted = divided(x, y), F.cross_entropy(single(x), y)
        assert abs(found.item() - wanted.item()) <= 1e-12, (degrees, found, wanted)
        found.backward(), wanted.backward()
        same(divided, single, gradients=True)
        assert parallel.report(divided).difference() == 0, degrees
        folder = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent / "functions"
        parallel.save(divided, folder)
        with torch.no_grad():
            divided.gate.zero_(), divided.unit.zero_()
        parallel.load(divided, folder)
        whole = parallel.whole_state_dict(divided)["model"]
        assert all(torch.equal(whole[name], value) for name, value in single.state_dict().items()), degrees
        divided._ucudnn.close()


def losses():
    """If a loss is a node of the network, it works after any layer with divided classes. Without a node, a logistic loss
    also works after any layer. A cross-entropy without a node needs a layer for which the plan has statistics."""
    cross, logistic = F.cross_entropy, F.binary_cross_entropy_with_logits
    for count, loss, told, refusal in ((3, cross, cross, None), (3, logistic, logistic, None),
                                       (3, logistic, cross, "a plan for the loss logistic_loss; another one is given"),
                                       (3, None, cross, "a plan without statistics of a classifier"),
                                       (4, None, cross, None), (4, None, logistic, None)):
        torch.manual_seed(26)
        layers = nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 6)
        model, (_, x, y) = nn.Sequential(*layers[:count]), made(26)
        network, single = describe(model, (3, 8, 8), loss=loss), copy.deepcopy(model)
        plan = pinned({None: {"c": WORLD}}, network)
        if refusal is not None:
            refused(lambda: parallel.apply(model, plan, loss=told), parallel.NotSupported, refusal)
            continue
        divided, labels = parallel.apply(model, plan, loss=told), y if told is cross else torch.rand(BATCH, 6)
        found, wanted = divided(x, labels), told(single(x), labels)
        assert abs(found.item() - wanted.item()) <= 1e-12, (loss, told)
        found.backward(), wanted.backward()
        same(divided, single, gradients=True)
        report = parallel.report(divided)
        assert report.difference() == 0, report
        assert torch.allclose(divided(x), single(x), rtol=1e-12)
        divided._ucudnn.close()


def local_batch_norm():
    """With batch_norm="local", each rank's part of the images has its own statistics, as if it were a batch."""
    model, x, y = made(24)
    single, plan = copy.deepcopy(model), pinned({None: {"n": WORLD}})
    divided = apply(model, plan, batch_norm="local")
    divided(x, y).backward()
    rows = [divided._ucudnn.schedule.nodes["conv1"].boxes[rank][0] for rank in range(WORLD)]
    buffers = {}
    for rank, (begin, end) in enumerate(rows):
        replica = copy.deepcopy(single)
        (F.cross_entropy(replica(x[begin:end]), y[begin:end]) * ((end - begin) / BATCH)).backward()
        for parameter, other in zip(single.parameters(), replica.parameters()):
            parameter.grad = other.grad if parameter.grad is None else parameter.grad + other.grad
        buffers[rank] = dict(replica.named_buffers())
    same(divided, single, gradients=True)
    for name, buffer in divided.named_buffers():
        assert torch.allclose(buffer, buffers[RANK][name], rtol=1e-12), name
    report = parallel.report(divided)
    moved = [sum(pair[way] for pair in report.counted["statistics"].values()) for way in (0, 1)]  # only the loss has statistics
    assert report.difference() == 0 and moved == ([1, 1] if RANK else [WORLD - 1] * 2), report
    refused(lambda: apply(made(24)[0], plan, batch_norm="global"), parallel.NotSupported, "batch_norm='global'; 'all' or")


def calls():
    """If one rank's arguments are wrong, all ranks refuse the call, and the next call works as usual."""
    divided, single, x, y = pair(22)
    rank = next(rank for rank in range(WORLD - 1, -1, -1)
                if rank in divided._ucudnn.schedule.nodes[divided._ucudnn.network.nodes[0].name].boxes)
    mine, whose = RANK == rank, "" if RANK == rank else f"rank {rank} refuses: "
    refused(lambda: divided(torch.randn(BATCH + 1, 3, 8, 8) if mine else x, y), parallel.NotSupported,
            f"{whose}{BATCH + 1} images on rank {rank}: ")
    refused(lambda: divided(x, y[1:] if mine else y), parallel.NotSupported, f"{whose}{BATCH - 1} labels on rank {rank}: ")
    refused(lambda: divided(torch.randn(BATCH, 3, 8, 9) if mine else x, y), parallel.NotSupported,
            f"{whose}images of shape (3, 8, 9) on rank {rank}: (3, 8, 8) is expected")
    handle = divided.conv1.register_forward_hook(lambda *a: None) if mine else None
    refused(lambda: divided(x, y), parallel.NotSupported, f"{whose}hooks of conv1")
    if handle:
        handle.remove()
    divided.bn1.train(not RANK)
    refused(lambda: divided(x, y), parallel.NotSupported,
            "ranks differ in modules in evaluation: [] on rank 0, ['bn1'] on rank 1; the same is expected")
    divided.bn1.train()
    divided.fc1.bias.requires_grad_(mine)
    refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in parameters that are not trained")
    divided.fc1.bias.requires_grad_(True)
    refused(lambda: divided(x, y) if mine else divided(x), parallel.NotSupported, "ranks differ in labels")
    with torch.autocast("cpu", enabled=mine):
        refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in autocast")
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)


def states():
    """A saved state can be loaded by a model with another plan, and by a single process, with every bit."""
    parent = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent
    divided, single, x, y = pair(19)
    for kind in (sgd, lambda model: torch.optim.AdamW(model.parameters(), lr=0.01)):
        optimizer, folder = kind(divided), str(parent / kind.__name__.strip("<>"))
        for step in range(2):
            optimizer.zero_grad()
            divided(x, y).backward()
            optimizer.step()
        parallel.save(divided, folder, optimizer)
        whole = parallel.whole_state_dict(divided, optimizer)
        random_plan.count += 1
        other = apply(made(20)[0], random_plan(21), loss=F.cross_entropy)
        others = kind(other)
        parallel.load(other, folder, others)
        again = parallel.whole_state_dict(other, others)
        for key in ("model", "optimizer"):
            assert set(whole[key]) == set(again[key])
            for name, value in whole[key].items():
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(again[key][name])), name
        single.load_state_dict(whole["model"])
        same(divided, single, 0.0)
        plain_state = {name: torch.zeros_like(value) for name, value in single.state_dict().items()}
        torch.distributed.checkpoint.load({"model": plain_state}, checkpoint_id=folder)  # reads whole tensors
        for name, value in single.state_dict().items():
            assert torch.equal(plain_state[name], value), name
        optimizer.zero_grad(), others.zero_grad()
        divided(x, y).backward(), other(x, y).backward()
        optimizer.step(), others.step()
        a, b = parallel.whole_state_dict(divided), parallel.whole_state_dict(other)
        for name, value in a["model"].items():
            assert torch.allclose(value.double(), b["model"][name].double(), rtol=1e-9, atol=1e-11), name


def unstepped():
    """Saving does not change training, even before the first step. Loading replaces an optimizer's state, whatever
    steps it has made."""
    folder = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent
    plan = pinned({None: {"n": WORLD}, "fc1": {"c": WORLD}})
    for kind in (lambda m: torch.optim.AdamW(m.parameters(), 0.01, eps=1e-3),
                 lambda m: torch.optim.SGD(m.parameters(), 0.1, 0.9, weight_decay=0.1)):
        divided, single, x, y = pair(31, plan=plan)
        optimizers = kind(divided), kind(single)
        schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) for optimizer in optimizers]

        def train(model, optimizer, scheduler, steps):
            for _ in range(steps):
                optimizer.zero_grad()
                (F.cross_entropy(single(x), y) if model is single else model(x, y)).backward()
                optimizer.step(), scheduler.step()
        name = type(optimizers[0]).__name__
        parallel.save(divided, folder / f"{name}0", optimizers[0])
        whole = [parallel.whole_state_dict(divided, optimizers[0])]
        train(divided, optimizers[0], schedulers[0], 3), train(single, optimizers[1], schedulers[1], 3)
        same(divided, single)
        parallel.save(divided, folder / f"{name}3", optimizers[0])
        whole.append(copy.deepcopy(parallel.whole_state_dict(divided, optimizers[0])))
        schedulers[0].optimizer.param_groups[0]["lr"] = 7.0
        other = apply(made(32)[0], plan)
        fresh = kind(other)
        other(x, y).backward()  # gives gradients to the parameters of an optimizer without a state
        parallel.load(other, folder / f"{name}3", fresh)
        assert fresh.param_groups[0]["lr"] == optimizers[1].param_groups[0]["lr"] == whole[1]["param_groups"][1][0]["lr"], name
        parallel.load_state_dict(divided, whole[1], optimizers[0])
        train(single, optimizers[1], schedulers[1], 2)
        for model, optimizer in ((divided, optimizers[0]), (other, fresh)):
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            optimizer.param_groups[0]["lr"] = whole[1]["param_groups"][1][0]["lr"]
            train(model, optimizer, scheduler, 2)
            same(model, single)
        model, _, _ = made(31)
        parallel.load(other, folder / f"{name}0", fresh)
        parallel.load_state_dict(divided, whole[0], optimizers[0])
        assert not fresh.state and not optimizers[0].state
        same(divided, model, 0.0), same(other, model, 0.0)
        single, optimizers = model, (kind(model), optimizers[0])
        schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) for optimizer in optimizers]
        train(single, optimizers[0], schedulers[0], 2), train(divided, optimizers[1], schedulers[1], 2)
        same(divided, single)


def unfit_states():
    """A state that does not fit is refused on all ranks before anything is copied."""
    folder = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent
    divided, single, x, y = pair(33, plan=pinned({None: {"n": WORLD}, "fc1": {"c": WORLD}}))
    optimizer, plain_state = sgd(divided), {name: value + 1 for name, value in single.state_dict().items()}
    divided(x, y)
    single(x)
    parallel.save(divided, folder / "alone")
    parallel.save(divided, folder / "sgd", optimizer)
    whole = parallel.whole_state_dict(divided, optimizer)
    without = {name: value for name, value in plain_state.items() if name != "fc1.bias"}
    with_part = plain_state | {"fc1.bias": plain_state["fc1.bias"][:4]}
    adam, few = torch.optim.Adam(divided.parameters()), torch.optim.SGD([divided.fc1.bias], lr=0.1, momentum=0.9)
    mine = {"model": plain_state if RANK else without}
    whose = "rank 0 refuses: " if RANK else ""
    for call, text in (
            (lambda: parallel.load_state_dict(divided, plain_state), "a state without 'model', which has conv1.weight, conv1.bias"),
            (lambda: parallel.load_state_dict(divided, mine), f"{whose}a state without values of the model fc1.bias"),
            (lambda: parallel.load_state_dict(divided, {"model": with_part}), "fc1.bias of shape (4,) in a state: (9,) is expected"),
            (lambda: parallel.load_state_dict(divided, {"model": plain_state | {"fc3": x}}), "a state with unexpected values of the"),
            (lambda: parallel.load_state_dict(divided, {"model": plain_state}, optimizer), "a state without an optimizer's"),
            (lambda: parallel.load_state_dict(divided, whole, adam), "a state of the optimizer SGD; this one is Adam"),
            (lambda: parallel.load_state_dict(divided, whole, few), "a state with unexpected parameters of the optimizer conv1.weight"),
            (lambda: parallel.load(divided, folder / "alone", optimizer), "a state without an optimizer's 'param_groups'"),
            (lambda: parallel.load(divided, folder / "sgd", adam), "a state of the optimizer SGD; this one is Adam"),
            (lambda: parallel.load(divided, folder / "none"), "no checkpoint that rank 0 can read (")):
        refused(call, parallel.NotSupported, text)
    optimizer.state_dict()  # allowed, because it has no state of parts yet
    divided(x, y).backward()
    optimizer.step()
    early = {"state": {0: {"momentum_buffer": torch.arange(float(len(divided.fc1.bias)))}}, "param_groups": few.state_dict()["param_groups"]}
    few.load_state_dict(early)
    for call, text in ((optimizer.state_dict, "state_dict or load_state_dict of SGD, which has the state of this rank's parts"),
                       (lambda: optimizer.load_state_dict(early), "state_dict or load_state_dict of SGD"),
                       (few.step, "an optimizer that has stepped before apply: its 'momentum_buffer' of fc1.bias"),
                       (divided.fc1.state_dict, "state_dict or load_state_dict of the Linear of a model that runs by a plan"),
                       (lambda: divided.bn1.load_state_dict({}), "state_dict or load_state_dict of the BatchNorm2d of"),
                       (lambda: torch.save(dict(divided.named_parameters()), io.BytesIO()), "pickling conv1.weight of a model that"),
                       (lambda: divided.fc1(x), "a call of the Linear alone")):
        refused(call, parallel.NotSupported, text)
    sequential = nn.Sequential(nn.Flatten(), nn.Linear(192, 6))
    divided = parallel.apply(sequential, pinned({}, describe(sequential, (3, 8, 8))), loss=F.cross_entropy)
    refused(lambda: divided[:1](x), parallel.NotSupported, "a slice of a model that runs by a plan")


def alone():
    """If one rank makes a call alone, all ranks refuse it immediately and name the calls of the ranks. The next call
    runs."""
    folder = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent
    divided, _, x, y = pair(33, plan=pinned({None: {"n": WORLD}, "fc1": {"c": WORLD}}))
    divided(x)
    for call, name in ((lambda: parallel.save(divided, folder / "mine"), "parallel.save"),
                       (lambda: parallel.load(divided, folder / "mine"), "parallel.load"),
                       (lambda: parallel.whole_state_dict(divided), "parallel.whole_state_dict"),
                       (lambda: parallel.load_state_dict(divided, parallel.state_dict(divided)), "parallel.load_state_dict"),
                       (lambda: divided.whole_labels(y), "model.whole_labels(labels)")):
        refused(lambda: call() if RANK == 0 else divided(x, y), parallel.NotSupported,
                f"ranks make different calls: {name} on rank 0, the batch of model(...) on rank 1; all ranks make each call")
        divided(x, y).backward()


def carried():
    """This case runs on 4, 2, 3 and 1 ranks, in this order, and each run saves a state. `before` says which earlier run's
    state a run loads: {ranks of the run: ranks of the earlier run}. Parameters and optimizer state keep every bit."""
    folder, before = pathlib.Path(os.environ["UCUDNN_TEST_FOLDER"]), {2: 4, 3: 2, 1: 3}
    for name, kind in (("sgd", sgd), ("adam", lambda model: torch.optim.AdamW(model.parameters(), lr=0.01))):
        divided, single, x, y = pair(30 + WORLD)
        optimizer = kind(divided)
        if WORLD == 4:
            for step in range(2):
                optimizer.zero_grad()
                divided(x, y).backward()
                optimizer.step()
        else:
            parallel.load(divided, str(folder / f"{name}{before[WORLD]}"), optimizer)
        whole = parallel.whole_state_dict(divided, optimizer)
        if WORLD == 4 and RANK == 0:
            torch.save(whole, folder / name)
        dist.barrier()
        expected = torch.load(folder / name)
        parallel.save(divided, str(folder / f"{name}{WORLD}"), optimizer)
        alone = {key: {one: torch.zeros_like(torch.as_tensor(value)) for one, value in expected[key].items()}
                 for key in ("model", "optimizer")}
        # This is how a program without a plan loads whole tensors.
        torch.distributed.checkpoint.load(alone, checkpoint_id=str(folder / f"{name}{WORLD}"))
        for key, values in ((key, expected[key]) for key in alone):
            assert set(whole[key]) == set(values) and len(values) >= 12, (name, key)
            for one, value in values.items():
                assert torch.equal(torch.as_tensor(whole[key][one]), torch.as_tensor(value)), f"{name}, {WORLD} ranks: {one}"
                assert torch.equal(torch.as_tensor(alone[key][one]), torch.as_tensor(value)), f"{name}, {WORLD} ranks: {one}"
        if WORLD == 1:  # a plain model with torch's optimizer can continue from the state
            single.load_state_dict(expected["model"])
            other = kind(single)
            for parameter, own in single.named_parameters():
                other.state[own] = {entry: expected["optimizer"][f"{parameter}.{entry}"] for entry in (
                    ["momentum_buffer"] if name == "sgd" else ["step", "exp_avg", "exp_avg_sq"])}
            optimizer.zero_grad()
            divided(x, y).backward(), F.cross_entropy(single(x), y).backward()
            optimizer.step(), other.step()
            same(divided, single)


if __name__ == "__main__":
    parallel_ranks.run(globals())
