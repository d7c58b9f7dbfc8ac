"""Compares gradients of training steps on stripes with one process's gradients. training_test.py runs this file; the
argument names a case."""
import copy
import functools
import gc
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import gloo
from comparison import check_close, own
from ucudnn import spatial
from ucudnn.spatial import sums


class Net(nn.Module):
    def __init__(self, checkpointed=None):
        super().__init__()
        self.checkpointed = checkpointed
        self.first, self.norm, self.second = nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, 2, 1)
        self.head = nn.Linear(4, 3)

    def body(self, x):
        return F.relu(self.second(F.relu(self.norm(self.first(x)))))

    def forward(self, x):
        if self.checkpointed is not None:
            x = checkpoint(self.body, x, use_reentrant=self.checkpointed)
        else:
            x = self.body(x)
        return self.head(F.adaptive_avg_pool2d(F.max_pool2d(x, 2), 1).flatten(1))


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 16, 16, generator=generator), torch.randint(0, 3, (2,), generator=generator)


def net(checkpointed=None):
    torch.manual_seed(5)
    return Net(checkpointed)


def gradients_alike(found, expected, name=""):
    wanted = dict(expected.named_parameters())
    for key, parameter in found.named_parameters():
        check_close(f"{name}gradient of {key}", parameter.grad, wanted[key].grad)


def group():
    return spatial.ranks().group


def ddp(model, **options):
    """Returns DistributedDataParallel over the ranks that have the same part of their group's images. So it averages
    over spatial groups."""
    grid = spatial.ranks().grid
    cells = [dist.new_group([group * grid.group_size + cell for group in range(grid.groups)])
             for cell in range(grid.group_size)]
    return DistributedDataParallel(model, process_group=cells[dist.get_rank() % grid.group_size], **options)


def averaged(whole, seeds):
    """Computes the gradients of `whole`, averaged over the batches of all `seeds`."""
    for seed in seeds:
        (F.cross_entropy(whole(batch(seed)[0]), batch(seed)[1]) / len(seeds)).backward()


def step_of(wrapped, whole, step):
    """Computes the gradients of a step. `wrapped` gets this group's batch. `whole` gets the batches of all groups, one
    at a time: a batch norm of `wrapped` counts only its group's images, as usual under DistributedDataParallel."""
    groups = spatial.ranks().grid.groups
    averaged(whole, [step * groups + g for g in range(groups)])
    images, labels = batch(step * groups + group())
    F.cross_entropy(wrapped(spatial.shard(images)), labels).backward()


def accumulated(steps):
    whole, model = net(), spatial.convert(net(), trust=["Net"])
    wrapped = ddp(model) if spatial.ranks().grid.groups > 1 else model
    for step in range(steps):
        step_of(wrapped, whole, step)
        gradients_alike(model, whole, f"step {step}: ")


def without_sync(steps):
    """Makes `steps` steps under no_sync, in which gradients come only from the group's own images. Then makes a step
    that averages the accumulated gradients."""
    whole, alone, model = net(), net(), spatial.convert(net(), trust=["Net"])
    wrapped, groups = ddp(model), spatial.ranks().grid.groups
    with wrapped.no_sync():
        for step in range(steps):
            step_of(wrapped, whole, step)
            averaged(alone, [step * groups + group()])
            gradients_alike(model, alone, f"step {step}: ")
    step_of(wrapped, whole, steps)
    gradients_alike(model, whole)


def frozen():
    whole, model = net(), net()
    for each in (whole, model):
        each.second.weight.requires_grad_(False)
    images, labels = batch(0)
    F.cross_entropy(whole(images), labels).backward()
    F.cross_entropy(spatial.convert(model, trust=["Net"])(spatial.shard(images)), labels).backward()
    assert model.second.weight.grad is None
    gradients_alike(model, whole)


def checkpointed(reentrant):
    whole, model = net(), spatial.convert(net(reentrant), trust=["Net"])
    images, labels = batch(0)
    whole_images = images.clone().requires_grad_()
    stripe = spatial.shard(images).detach().requires_grad_()
    F.cross_entropy(whole(whole_images), labels).backward()
    F.cross_entropy(model(stripe), labels).backward()
    gradients_alike(model, whole)
    check_close("gradient of the images", stripe.grad, own(whole_images.grad, stripe))


def backward_twice():
    whole, model = net(), spatial.convert(net(), trust=["Net"])
    images, labels = batch(0)
    for each, x in ((whole, images), (model, spatial.shard(images))):
        loss = F.cross_entropy(each(x), labels)
        loss.backward(retain_graph=True)
        loss.backward()
    gradients_alike(model, whole)


def written_over():
    """A program may change the model's output in place."""
    whole, model = net(), spatial.convert(net(), trust=["Net"])
    images, labels = batch(0)
    for each, x in ((whole, images), (model, spatial.shard(images))):
        result = each(x)
        result /= 4
        F.cross_entropy(result, labels).backward()
    gradients_alike(model, whole)


def unused(is_wrapped):
    """A layer that no rank uses has no gradient, as in one process; other layers have gradients."""
    whole, model = net(), net()
    for each in (whole, model):
        each.idle = nn.Conv2d(3, 3, 3)
    spatial.convert(model, trust=["Net"])
    wrapped = ddp(model, find_unused_parameters=True) if is_wrapped else model
    for step in range(2):
        step_of(wrapped, whole, step)
        assert model.idle.weight.grad is None and model.first.weight.grad is not None
        gradients_alike(model, whole, f"step {step}: ")


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, x):
        x = self.first(x)
        return x if dist.get_rank() == 1 else self.second(x)


def unused_on_one_rank():
    model = spatial.convert(Skipping(), trust=["Skipping"])
    try:
        model(spatial.shard(batch(0)[0])).sum().backward()
    except spatial.NotSupported as refusal:
        assert "same parameters" in str(refusal)
        return
    raise AssertionError("not refused")


def twenty_steps():
    whole, model = net(), spatial.convert(net(), trust=["Net"])
    wrapped, groups = ddp(model), spatial.ranks().grid.groups
    optimisers = [torch.optim.SGD(each.parameters(), lr=0.05, momentum=0.9) for each in (whole, model)]
    for step in range(20):
        for optimiser in optimisers:
            optimiser.zero_grad()
        averaged(whole, [step * groups + g for g in range(groups)])
        images, labels = batch(step * groups + group())
        F.cross_entropy(wrapped(spatial.shard(images)), labels).backward()
        for optimiser in optimisers:
            optimiser.step()
    wanted = dict(whole.named_parameters())
    for key, parameter in model.named_parameters():
        check_close(key, parameter, wanted[key], 1e-7)


def plain_tensor_is_refused():
    model = spatial.convert(net(), trust=["Net"])
    try:
        model(batch(0)[0])
    except spatial.NotSupported:
        return
    raise AssertionError("not refused")


def losing_stripes_is_refused():
    """A convolution refuses a plain tensor that to_local has taken out of a stripe."""
    model = spatial.convert(nn.Sequential(nn.Conv2d(3, 3, 3, 1, 1)))
    try:
        model[0](spatial.to_local(spatial.shard(batch(0)[0])))
    except spatial.NotSupported:
        return
    raise AssertionError("not refused")


class Noted:
    """A context that records the names of the communication methods of cells.Ranks that are called. It records "end"
    when the program waits for a begun sum."""
    methods = "begin_sum", "all_reduce", "all_gather", "swap"

    def __enter__(self):
        self.calls = []
        for name in self.methods:
            setattr(spatial.ranks(), name, functools.partial(self._noted, name, getattr(spatial.ranks(), name)))
        return self

    def _noted(self, name, call, *args):
        self.calls.append(name)
        result = call(*args)
        return functools.partial(self._noted, "end", result) if name == "begin_sum" else result

    def __exit__(self, *_):
        for name in self.methods:
            delattr(spatial.ranks(), name)


def deep(count=30):
    """Returns a 1 x 1 convolution followed by `count` 3 x 3 convolutions. The last two are the same object, with a
    frozen bias. With count = 30, the filters of the 29 different 3 x 3 convolutions have 29 * 36 * 36 * 9 * 8 bytes =
    2.7 MB in fp64."""
    torch.manual_seed(7)
    layers = [nn.Conv2d(36, 36, 3, 1, 1) for _ in range(count)]
    layers[-2].bias.requires_grad_(False)
    layers[-1] = layers[-2]
    return nn.Sequential(nn.Conv2d(3, 36, 1), *layers)


def in_few_sums():
    whole, model = deep(), spatial.convert(deep())
    images = batch(0)[0]
    for step in range(2):  # the gradients of the second step are added to the first step's
        (whole(images) ** 2).sum().backward()
        gc.collect()
        gc.disable()
        with Noted() as noted:
            loss = (model(spatial.shard(images)) ** 2).sum()
            assert noted.calls.count("all_reduce") == 1, noted.calls  # the sum of the loss
            noted.calls.clear()
            loss.backward()
            del loss
        sums_begun = noted.calls.count("begin_sum")
        assert 1 < sums_begun <= 8 and "all_reduce" not in noted.calls, noted.calls
        # Sums begin while rows of other layers are still exchanged. The program waits for these sums only after the
        # last exchange.
        begun, ended = noted.calls.index("begin_sum"), noted.calls.index("end")
        assert "swap" in noted.calls[begun:ended] and "swap" not in noted.calls[ended:], noted.calls
        assert not [each for each in gc.get_objects() if type(each) is sums._Group], "a step leaves something behind"
        gc.enable()
        gradients_alike(model, whole, f"step {step}: ")
    assert not any(parameter.grad._is_view() for parameter in model.parameters() if parameter.grad is not None)


def one_exchange_a_norm():
    """Each norm gathers its statistics once in forward, and sums once in backward. The gradients of all parameters have
    one separate sum."""
    torch.manual_seed(7)
    model = spatial.convert(nn.Sequential(nn.BatchNorm2d(3), nn.Tanh(), nn.GroupNorm(3, 3), nn.Tanh(), nn.InstanceNorm2d(3)))
    model(spatial.shard(batch(0)[0]))  # ranks compare their copies of the model only in the first pass
    with Noted() as noted:
        y = model(spatial.shard(batch(0)[0]).requires_grad_())
        assert noted.calls == ["all_gather"] * 3, noted.calls
        noted.calls.clear()
        y.square().sum().backward()
    # Each of the 3 norms makes one all_reduce, and so does the loss.
    assert noted.calls.count("all_reduce") == 4 and noted.calls.count("begin_sum") == 1, noted.calls


def with_weight_decay_in_the_loss():
    whole, model = deep(3), spatial.convert(deep(3))
    images = batch(0)[0]
    for each, x in ((whole, images), (model, spatial.shard(images))):
        (each(x).mean() + 0.1 * sum((p ** 2).sum() for p in each.parameters())).backward()
    gradients_alike(model, whole)


def with_hooks_of_parameters():
    """Hooks of parameters are called once, with the gradient of the whole image. What a hook returns replaces the
    gradient."""
    whole, model, seen = deep(3), spatial.convert(deep(3)), {}
    images = batch(0)[0]
    for each, x in ((whole, images), (model, spatial.shard(images))):
        found = seen[each] = {"hook": [], "accumulated": []}
        each[1].weight.register_hook(lambda g, found=found["hook"]: found.append(g.clone()) or g * 2)
        each[2].weight.register_post_accumulate_grad_hook(lambda p, found=found["accumulated"]: found.append(p.grad.clone()))
        each(x).square().mean().backward()
    gradients_alike(model, whole)
    for name, found in seen[model].items():
        [mine], [its] = found, seen[whole][name]
        check_close(f"what a {name} sees", mine, its)


def by_autograd_grad():
    whole, model, found = deep(3), spatial.convert(deep(3)), []
    images = batch(0)[0]
    for each, x in ((whole, images), (model, spatial.shard(images))):
        some = [each[1].weight, each[0].bias]
        first = torch.autograd.grad(each(x).square().mean(), some, create_graph=True)
        found.append([*first, *torch.autograd.grad(sum((g ** 2).sum() for g in first), each[2].weight)])
        assert each[1].weight.grad is None
    for its, mine in zip(*found):
        check_close("a gradient by autograd.grad", mine, its)


def of_two_passes():
    """A model may run forward twice before the backward pass, as a discriminator does."""
    whole, model = deep(3), spatial.convert(deep(3))
    for each, cut in ((whole, lambda x: x), (model, spatial.shard)):
        (each(cut(batch(0)[0])).square().mean() - each(cut(batch(1)[0])).mean()).backward()
    gradients_alike(model, whole)


class MaxNorm(nn.Conv2d):
    """A convolution that limits the norm of its weights before each use, in place or by replacing weight.data."""
    in_place = False

    def forward(self, x):
        if self.in_place:
            with torch.no_grad():
                self.weight.renorm_(2, 0, 0.1)
        else:
            self.weight.data = torch.renorm(self.weight.data, 2, 0, 0.1)
        return super().forward(x)


def weights_that_change(in_place):
    def made():
        torch.manual_seed(7)
        return nn.Sequential(nn.Conv2d(3, 3, 1), MaxNorm(3, 4, 3, 1, 1))
    whole, model = made(), spatial.convert(made(), trust=[MaxNorm])
    for each, x in ((whole, batch(0)[0]), (model, spatial.shard(batch(0)[0]))):
        each[1].in_place = in_place
        for _ in range(2):
            each(x).square().mean().backward()
    gradients_alike(model, whole)


class EndsWithNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.GroupNorm(2, 4))

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False)


def checkpointed_norm():
    torch.manual_seed(7)
    whole = EndsWithNorm()
    model = spatial.convert(copy.deepcopy(whole), trust=[EndsWithNorm])
    for each, x in ((whole, batch(0)[0]), (model, spatial.shard(batch(0)[0]))):
        each(x).pow(3).mean().backward()
    gradients_alike(model, whole)


class Nested(nn.Module):
    """Has checkpoints inside a checkpoint, with other operations between them."""

    def __init__(self, outer, inner):
        super().__init__()
        self.outer, self.inner = outer, inner
        self.layer, self.norm = nn.Conv2d(3, 3, 3, 1, 1), nn.GroupNorm(1, 3)

    def twice(self, x):
        once = lambda x: checkpoint(lambda x: self.norm(self.layer(x).tanh()), x, use_reentrant=self.inner)
        return once(once(x.sin()).sigmoid()) + once(x).cos()

    def forward(self, x):
        return checkpoint(self.twice, x, use_reentrant=self.outer)


def penalty(loss, model):
    return sum(each.square().mean() for each in torch.autograd.grad(loss, list(model.parameters()), create_graph=True))


def nested_checkpoints():
    """Compares nested checkpoints, with the gradient of a leaf from which shard makes stripes. torch has no second
    derivatives of reentrant checkpoints, so second order is compared only if no checkpoint is reentrant."""
    for outer, inner, order in ((True, True, 1), (True, False, 1), (False, True, 1), (False, False, 1), (False, False, 2)):
        torch.manual_seed(7)
        whole, found = Nested(outer, inner), []
        model = spatial.convert(copy.deepcopy(whole), trust=[Nested])
        for each, cut in ((whole, lambda x: x), (model, spatial.shard)):
            x = batch(0)[0].requires_grad_()
            loss = each(cut(x)).pow(3).mean()
            (loss if order == 1 else penalty(loss, each)).backward()
            found.append(x.grad)
        gradients_alike(model, whole, f"{outer}, {inner}, {order}: ")
        check_close("gradient of the images", found[1], found[0])


OF_GROUPS = {f"{count} steps": lambda count=count: accumulated(count) for count in (1, 2, 4)}
OF_GROUPS |= {f"{count} steps without sync": lambda count=count: without_sync(count) for count in (1, 2, 4)}
ON_MANY = {"frozen": frozen, "reentrant": lambda: checkpointed(True), "not_reentrant": lambda: checkpointed(False),
           "backward_twice": backward_twice, "few sums": in_few_sums, "norms": one_exchange_a_norm, "weight decay": with_weight_decay_in_the_loss,
           "hooks of parameters": with_hooks_of_parameters, "autograd.grad": by_autograd_grad, "two passes": of_two_passes, "weights replaced": lambda: weights_that_change(False),
           "weights in place": lambda: weights_that_change(True), "a checkpoint that ends with a norm": checkpointed_norm,
           "nested checkpoints": nested_checkpoints}
OF_GROUPS |= {"unused, wrapped": lambda: unused(True), "twenty_steps": twenty_steps}
CASES = {
    **OF_GROUPS, **ON_MANY, "unused": lambda: unused(False), "written_over": written_over,
    "unused_on_one_rank": unused_on_one_rank, "plain_tensor": plain_tensor_is_refused,
    "losing_stripes": losing_stripes_is_refused,
}

if __name__ == "__main__":
    gloo.join()
    grid = spatial.ranks().grid
    for name, case in (OF_GROUPS if grid.groups > 1 else CASES if grid.ranks == 2 else ON_MANY).items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            print(name, flush=True)
            case()
