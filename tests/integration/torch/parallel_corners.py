"""Programs that do things in an unusual order or with unusual values, for each rank of parallel_habits_test.py.
Compares their results with one device, or expects a refusal on all ranks."""
import copy
import functools
import types
from unittest import mock

import parallel_ranks
import schedules
import torch
import torch.nn.functional as F
from parallel_habits import BATCH, Net, apply, made, network_of, pair, pinned, random_plan, refused, same, same_buffers, sgd
from parallel_ranks import RANK, WORLD, part, plan_file
from torch import nn
from ucudnn import parallel
from ucudnn.parallel import sums, transport
from ucudnn.parallel.tracing import describe


def frozen_before():
    """Layers may be frozen before `apply` and trained later, also in a copy of the divided model."""
    model, x, y = made(5)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(("conv", "bn")))
    single = copy.deepcopy(model)
    divided = apply(model, random_plan(5))
    for one in (divided, copy.deepcopy(divided)):
        for is_trained in (False, True):
            one.conv2.requires_grad_(is_trained), single.conv2.requires_grad_(is_trained)
            one.zero_grad(), single.zero_grad()
            one(x, y).backward()
            F.cross_entropy(single(x), y).backward()
            same(one, single, gradients=True)


def early_optimizer():
    """An optimizer made before `apply` trains this rank's parts of the parameters. If it has already made a step, its
    next step is refused."""
    model, x, y = made(6)
    single = copy.deepcopy(model)
    optimizers = sgd(model), sgd(single)
    model(x).square().sum().backward()
    divided = apply(model, random_plan(6))
    assert all(parameter.grad is None for parameter in divided.parameters())
    for _ in range(3):
        for one, optimizer in ((lambda: divided(x, y), optimizers[0]), (lambda: F.cross_entropy(single(x), y), optimizers[1])):
            optimizer.zero_grad()
            one().backward()
            optimizer.step()
    same(divided, single)
    model, x, y = made(6)
    optimizer = sgd(model)
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    divided = apply(model, rows_of_fc1())
    divided(x, y).backward()
    refused(optimizer.step, parallel.NotSupported, "an optimizer that has stepped before apply: its 'momentum_buffer'")


def rows_of_fc1():
    """Returns a plan that divides only the parameters of fc1 over the ranks."""
    random_plan.count += 1
    return plan_file(schedules.Writer(network_of(), BATCH, WORLD, lambda node: (
        dict.fromkeys("nchwr", 1) | {"c" if node.name == "fc1" else "n": WORLD}, 0)).text(), f"corners{random_plan.count}")


def mixing():
    """The update of an element may depend on other elements. An optimizer with such updates is refused for parameters
    that are divided between ranks. For other parameters it gives the right result."""
    divided, single, x, y = pair(7, plan=rows_of_fc1())
    for optimizer in (torch.optim.LBFGS(divided.parameters()), torch.optim.Muon([divided.fc1.weight])):
        refused(lambda: optimizer.step(lambda: divided(x, y)), parallel.NotSupported,
                f"the optimizer {type(optimizer).__name__}, which mixes")
    optimizers = [torch.optim.Muon([model.fc2.weight]) for model in (divided, single)]
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    for optimizer in optimizers:
        optimizer.step()
    same(divided, single)


class Trust(torch.optim.Optimizer):
    """Scales each update by the norms of its parameter and gradient."""

    def __init__(self, parameters, lr=0.01, power=1.0):
        super().__init__(parameters, {"lr": lr, "power": power})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                ratio = (one.norm() / one.grad.norm()) ** group["power"]
                one.sub_(one.grad * ratio, alpha=group["lr"])


class Signs(torch.optim.SGD):
    """An optimizer with a momentum of signs and an attribute of its own."""

    def __init__(self, parameters, lr, states=None):
        super().__init__(parameters, lr)
        self.power, self.states = 0.5, states

    @torch.no_grad()
    def step(self, closure=None):
        if self.states is not None:
            self.states.append(None)
        for one in self.param_groups[0]["params"]:
            one.sub_(one.grad.sign() * one.grad.abs() ** self.power, alpha=self.param_groups[0]["lr"])


def unnamed_mixing():
    """An optimizer of any name is tried on small parameters before its first step. If an element's update depends on
    other elements, or if this cannot be found out, the optimizer is refused unless `elementwise` names it."""
    divided, single, x, y = pair(12, plan=rows_of_fc1())
    divided(x, y).backward()
    refused(Trust(divided.parameters()).step, parallel.NotSupported, "the optimizer Trust, which mixes")
    refused(Signs(divided.parameters(), 0.1, []).step, parallel.NotSupported,
            "the optimizer Signs, of which nobody can see whether it treats each element by itself ('Signs' object has no attribute")
    model = copy.deepcopy(single)
    said = apply(model, rows_of_fc1(), elementwise=[Signs])
    scheduled = torch.optim.AdamW(divided.parameters(), lr=0.0, eps=1e-3)
    torch.optim.lr_scheduler.LambdaLR(scheduled, lambda step: 0.0)
    before, states = torch.get_rng_state(), []
    scheduled.step()
    same(divided, single, 0.0)
    makes = [lambda m: Trust(m.parameters(), power=0.0), lambda m: Signs(m.parameters(), 0.1)]
    makes += [lambda m, kind=kind: kind(m.parameters(), lr=0.01) for kind in (
        torch.optim.Adagrad, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Rprop, torch.optim.RMSprop,
        torch.optim.ASGD, torch.optim.Adadelta)]
    makes += [lambda m: torch.optim.SGD(m.parameters(), 0.1, 0.9, nesterov=True, weight_decay=0.1, foreach=True),
              lambda m: torch.optim.AdamW(m.parameters(), 0.01, eps=1e-3, amsgrad=True, foreach=True, maximize=True)]
    for make in makes:
        made_of = make(divided), make(single)
        for model, optimizer in zip((divided, single), made_of):
            optimizer.zero_grad()
            (divided(x, y) if model is divided else F.cross_entropy(single(x), y)).backward()
            # These optimizers use gradients' signs, so gradients that are only rounding errors are set to 0.
            if isinstance(optimizer, (Signs, torch.optim.Rprop)):
                for name, one in model.named_parameters():
                    one.grad[one.grad.abs() < 1e-9] = 0
            optimizer.step()
        same(divided, single, 1e-7)
    assert torch.equal(before, torch.get_rng_state())
    optimizer = Signs(said.parameters(), 0.1, states)
    said(x, y).backward()
    optimizer.step()
    assert states == [None]


def changed_models():
    """If a model is changed after `apply`, even on a single rank, all ranks refuse its next call."""
    divided, single, x, y = pair(13, plan=rows_of_fc1())
    divided(x, y)
    single(x)
    mine, whose = RANK == 1, "" if RANK == 1 else "rank 1 refuses: "

    def swap(module, name, value):
        before = getattr(module, name)
        setattr(module, name, value)
        return lambda: setattr(module, name, before)
    bias = nn.Parameter(divided.fc1.bias.detach().clone())
    for module, name, value, text in (
            (divided.drop, "p", 0.25, "drop.p is 0.25, and was 0.0 at parallel.apply"),
            (divided.pool, "stride", (1, 1), "pool.stride is (1, 1), and was 2 at"),
            (divided, "relu", nn.GELU(), "the module relu is GELU, and was ReLU"),
            (divided.fc1, "bias", bias, "the parameter fc1.bias was replaced or added after"),
            (divided, "fc3", nn.Linear(9, 5), "the parameter fc3.weight was replaced or added"),
            (divided.bn1.weight, "data", torch.ones(1), "bn1.weight is of shape (1,); this rank's part is (6,)")):
        divided.fc3 = None
        undo = swap(module, name, value) if mine else lambda: None
        refused(lambda: divided(x, y), parallel.NotSupported, whose + text)
        undo()
    divided.fc3, divided.epoch, divided.bn1.momentum = None, 3, 0.5
    single.bn1.momentum = 0.5
    average = copy.deepcopy(divided)
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)
    average(x, y).backward()
    same(average, single, gradients=True)
    average.drop.p = 0.25
    for one in (average, copy.deepcopy(average)):
        refused(lambda: one(x, y), parallel.NotSupported, "drop.p is 0.25, and was 0.0")
    values = {name: one * 1.0 for name, one in divided.named_parameters()}
    refused(lambda: torch.func.functional_call(divided, values, (x, y)), parallel.NotSupported,
            "the parameter conv1.weight is another tensor at this call, as in torch.func.functional_call, whose parameters have no rule")
    divided, single, x, y = pair(13, plan=rows_of_fc1())
    torch.manual_seed(RANK)
    divided.conv2.reset_parameters()
    refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in the values of conv2.weight: ")


def parting():
    """At passes 1, 2, 4, 8, ..., ranks compare what they share: values, running statistics and options of
    optimizers."""
    def train(model, optimizer):
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
    for degrees, name in (({None: {"n": WORLD}}, "fc1.weight"), ({None: {"n": WORLD}, "fc1": {"n": WORLD // 2, "c": 2}}, "fc1.weight [")):
        divided, _, x, y = pair(13, plan=pinned(degrees))
        train(divided, torch.optim.SGD(divided.parameters(), 0.1 + 0.1 * (RANK == 1)))
        for _ in range(2):
            refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in lr of group 0 of SGD: 0.1 on rank 0, 0.2 on rank 1")
        divided, _, x, y = pair(13, plan=pinned(degrees))
        optimizer = sgd(divided)
        for _ in range(2):
            train(divided, optimizer)
        with torch.no_grad():
            divided.fc1.weight.add_(RANK)
        divided(x, y)
        refused(lambda: divided(x, y), parallel.NotSupported, f"ranks differ in the values of {name}")
    divided, _, x, y = pair(13, plan=pinned({None: {"n": WORLD}}))
    divided.bn1.momentum += RANK
    refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in bn1.momentum: 0.1 on rank 0, 1.1 on rank 1")
    divided.bn1.momentum = 0.1
    divided(x, y)
    divided.bn1.running_var.add_(RANK == 1)
    refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in the values of bn1.running_var: ")


class Inverse(nn.BatchNorm2d):
    """A batch norm whose momentum follows TensorFlow's convention, so it passes 1 - momentum to torch."""

    def forward(self, x):
        if self.training:
            self.num_batches_tracked.add_(1)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, 1 - self.momentum, self.eps)


def momenta():
    """Running statistics follow the momentum that a layer passes to torch, even if its module has another momentum."""
    torch.manual_seed(15)
    model, (_, x, y) = nn.Sequential(nn.Conv2d(3, 6, 3), Inverse(6), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(216, 5)), made(15)
    network, single = describe(model, (3, 8, 8)), copy.deepcopy(model)
    for degrees in ({}, {"0": {"n": WORLD}, "1": {"n": WORLD}, "2": {"n": WORLD}}, {"0": {"c": 2}}):
        divided = parallel.apply(copy.deepcopy(single), pinned(degrees, network), loss=F.cross_entropy, network=network)
        plain = copy.deepcopy(single)
        for momentum in (0.1, 0.3):
            divided[2].momentum = plain[2].momentum = momentum
            divided(x, y), plain(x)
        same_buffers(divided, plain)
        divided[1].momentum = 0.3
        refused(lambda: divided(x, y), parallel.NotSupported, "1.momentum is 0.3, and was 0.1 at parallel.apply")
        divided._ucudnn.close()


def attributes():
    """Ranks also compare tensors, containers, functions and methods of modules, in a divided model and in a copy of
    it."""
    model, x, y = made(13)
    model.alpha, model.table, model.cfg, model.ls = torch.tensor(0.5), torch.zeros(4000), {"k": [1.0]}, [None, 1.0]
    model.pool.act, model.scale, model._gain = F.relu, None, (1, [2.0])
    divided = apply(model, rows_of_fc1())
    mine, whose = RANK == 1, "" if RANK == 1 else "rank 1 refuses: "
    divided(x, y)
    copied = copy.deepcopy(divided)
    for one in (divided, copied):
        for change, undo, text in (
                (lambda: one.alpha.fill_(0.25), lambda: one.alpha.fill_(0.5), "alpha is tensor(0.2500), and was tensor(0.5000) at"),
                (lambda: setattr(one, "alpha", torch.tensor(2.0)), lambda: setattr(one, "alpha", torch.tensor(0.5)), "alpha is tensor(2.)"),
                (lambda: one.cfg["k"].append(2), lambda: one.cfg["k"].pop(), "cfg is {'k': [1.0, 2]}, and was {'k': [1.0]} at"),
                (lambda: one.ls.__setitem__(0, 2.0), lambda: one.ls.__setitem__(0, None), "ls is [2.0, 1.0], and was [None, 1.0] at"),
                (lambda: one._gain[1].clear(), lambda: one._gain[1].append(2.0), "_gain is (1, []), and was (1, [2.0]) at"),
                (lambda: setattr(one.pool, "act", F.gelu), lambda: setattr(one.pool, "act", F.relu), "pool.act is <built-in function gelu>"),
                (lambda: setattr(one, "scale", 2), lambda: setattr(one, "scale", object()), "scale is 2, and was None at"),
                (lambda: setattr(one.relu, "forward", torch.tanh), lambda: delattr(one.relu, "forward"), "relu.forward is <built-in method"),
                (lambda: one.table.add_(1), lambda: None, "table is tensor([1., 1.")):
            change() if mine else None
            refused(lambda: one(x, y), parallel.NotSupported, whose + text)
            undo() if mine else None
            if "table" not in text:
                one.step = RANK  # accepted: this attribute hides only a function of this package
                one(x, y)


def gradients_of_images():
    divided, _, x, y = pair(14, plan=rows_of_fc1())
    refused(lambda: divided(x.requires_grad_(True), y), parallel.NotSupported, "images that require gradients, of which each rank")
    divided, _, x, y = pair(14, loss=nn.MSELoss(), plan=rows_of_fc1())
    wanted = torch.zeros(BATCH, 5, requires_grad=True)
    refused(lambda: divided(x, wanted), parallel.NotSupported, "labels that require gradients, of which each rank")
    with torch.no_grad():
        divided(x.requires_grad_(True), wanted)
    refused(lambda: apply(made(14)[0], {"format": "ucudnn-schedule"}), ValueError, "a plan that is a dict: the path of a file")


def outputs_alone():
    """Outputs of a divided model require gradients in the same cases as on one device. But a backward pass through
    these outputs is refused, because they have no gradient."""
    divided, single, x, y = pair(14, plan=rows_of_fc1())
    refused(lambda: F.cross_entropy(divided(x).clamp_(-9, 9), y).backward(), parallel.NotSupported,
            "a backward pass through model(images), whose outputs have no gradient: model(images, labels) is the loss")
    with torch.no_grad():
        assert not divided(x).requires_grad
    divided.requires_grad_(False)
    assert not divided(x).requires_grad
    divided.requires_grad_(True)
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)


def one_image():
    """Returns a plan with one image for each rank."""
    random_plan.count += 1
    return plan_file(schedules.Writer(network_of(), WORLD, WORLD, lambda node: (
        dict.fromkeys("nchwr", 1) | {"n": WORLD}, 0)).text(), f"corners{random_plan.count}")


def unusual_losses():
    """A loss is refused if its mean leaves out or weights images. If every rank has only one image, a loss that is a
    Python function is refused as well."""
    divided, _, x, y = pair(8)
    ignored = y.clone()
    ignored[3] = -100
    refused(lambda: divided(x, ignored), parallel.NotSupported, "which the loss leaves out of its mean")
    divided = pair(8, loss=lambda outputs, labels: F.cross_entropy(outputs, labels), plan=rows_of_fc1())[0]
    divided(x, y)
    refused(lambda: divided(x, ignored), parallel.NotSupported, "which the loss leaves out of its mean")
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    refused(lambda: apply(made(8)[0], random_plan(8), nn.CrossEntropyLoss(weights)), parallel.NotSupported,
            "CrossEntropyLoss with weights of classes")
    divided = apply(made(8)[0], one_image(), lambda outputs, labels: F.cross_entropy(outputs, labels))
    x, y = x[:WORLD], y[:WORLD]
    refused(lambda: divided(x, y), parallel.NotSupported, "the loss of fc2: every rank has one image")
    model = made(8)[0]
    single = copy.deepcopy(model)
    divided, wanted = apply(model, one_image(), nn.MSELoss()), torch.randn(WORLD, 5, generator=torch.Generator().manual_seed(0))
    loss = F.mse_loss(single(x), wanted)
    divided(x, wanted).backward(), loss.backward()
    same(divided, single, gradients=True)


def unlike_types():
    divided, single, x, y = pair(9, plan=rows_of_fc1())
    mine = RANK == WORLD - 1
    if mine:
        divided.float()
    refused(lambda: divided(x, y), parallel.NotSupported, f"images of torch.float64 on rank {WORLD - 1}: torch.float32 is expected")
    divided.double()
    refused(lambda: divided(x.float(), y), parallel.NotSupported, ": torch.float64 is expected")
    divided.fc2.to(torch.float64 if mine else torch.bfloat16)
    refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in types of parameters")
    divided = pair(9)[0]
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)


def wrong_data():
    """Images and labels that torch refuses only on some ranks, or on none, are refused on all ranks."""
    last, one_more, negative = WORLD - 1, torch.full((BATCH,), 5), torch.full((BATCH,), -1)
    for degrees in ({None: {"n": WORLD}}, {None: {"n": WORLD}, "fc2": {"c": WORLD}}):
        divided, single, x, y = pair(13, plan=pinned(degrees))
        for images, labels, text in (
                (x, torch.cat([y[:-1], one_more[:1]]), f"labels of 5 on rank {last}, for the output fc2: 0 to 4 are expected"),
                (x, torch.cat([y[:-1], negative[:1]]), f"labels of -1 on rank {last}, for the output fc2: 0 to 4 are expected"),
                (x, y[:, None], f"labels of torch.int64 with shape (1,) for each image on rank {last}, for the output fc2: "),
                (x, y.int(), f"labels of torch.int32 with shape () for each image on rank {last}, for the output fc2: "),
                (x, (y, y), f"labels of type tuple on rank {last}: one tensor is expected, for all outputs"),
                (list(x), y, f"images of type list on rank {last}: one tensor is expected"),
                (x.byte(), y, f"images of torch.uint8 on rank {last}: torch.float64 is expected (")):
            refused(lambda: divided(images, labels) if RANK == last else divided(x, y), parallel.NotSupported, text)
        divided(x, y).backward()
        F.cross_entropy(single(x), y).backward()
        same(divided, single, gradients=True)


def failing(outputs, labels):
    if RANK == 1:
        raise ValueError("no loss today")
    return F.cross_entropy(outputs, labels)


def means():
    """A loss function that weights or leaves out classes is refused even before labels of these classes come. A loss
    function that fails on one rank is refused on all ranks."""
    plan, weights, left = pinned({None: {"n": WORLD}}), torch.tensor([1.0, 2.0, 2.0, 2.0, 2.0]), nn.CrossEntropyLoss(ignore_index=4)
    for loss, text in ((lambda outputs, labels: F.cross_entropy(outputs, labels, weights), "as with labels 0 and 1"),
                       (functools.partial(F.cross_entropy, ignore_index=4), "as with labels 3 and 4"),
                       (lambda outputs, labels: left(outputs, labels), "as with labels 3 and 4")):
        divided, _, x, y = pair(14, loss=loss, plan=plan)
        for _ in range(2):
            refused(lambda: divided(x, torch.zeros_like(y)), parallel.NotSupported, f"a loss that is no mean over images, {text}: ")
    left = nn.CrossEntropyLoss(ignore_index=255)
    divided = pair(14, loss=lambda outputs, labels: left(outputs, labels), plan=plan)[0]
    divided(x, y)
    refused(lambda: divided(x, torch.cat([y[:-1], y[:1] * 0 + 255])), parallel.NotSupported, "as with labels 0 and 255")
    for loss in (failing, parallel.Sum(failing)):
        divided = pair(14, loss=loss, plan=plan)[0]
        refused(lambda: divided(x, y), (ValueError, parallel.NotSupported), "no loss today")
    for loss in (lambda outputs, labels: F.cross_entropy(outputs, labels, label_smoothing=0.1),
                 lambda outputs, labels: F.nll_loss(outputs.log_softmax(1), labels),
                 lambda outputs, labels: (outputs[:, 0] - labels).square().mean()):
        divided, single, x, y = pair(14, loss=loss, plan=plan)
        divided(x, y).backward()
        loss(single(x), y).backward()
        same(divided, single, gradients=True)


def of_present(outputs, labels):
    """The mean over labels that are present; missing labels are below 0."""
    present = (labels >= 0).to(outputs.dtype)
    return (F.binary_cross_entropy_with_logits(outputs, labels.clamp(min=0), reduction="none") * present).sum() / present.sum()


def missing_labels():
    """Tests a loss function that is a mean over images only if no label is missing. Missing labels are refused on all
    ranks. This holds even if a rank has one image, or if each of a rank's images has equally many labels."""
    for plan in (pinned({None: {"n": WORLD}}), pinned({None: {"n": 2}})):
        divided, single, x, _ = pair(14, loss=of_present, plan=plan)
        parallel.batch_sampler(range(BATCH + WORLD), divided)
        labels = torch.randint(0, 2, (BATCH, 5), generator=torch.Generator().manual_seed(0)).double()
        for size in (BATCH, WORLD, BATCH):
            for _ in range(2):
                divided.zero_grad(), single.zero_grad()
                found, wanted = divided(x[:size], labels[:size]), of_present(single(x[:size]), labels[:size])
                found.backward(), wanted.backward()
                same(divided, single, gradients=True)
            missing = labels.clone()
            missing[:size // 2, :2] = -1
            refused(lambda: divided(x[:size], missing[:size]), parallel.NotSupported, "a loss that is no mean over images, as beside")


def unlike_losses():
    """Loss functions are refused if they differ between ranks in a constant, in a value of their closure, or in an
    attribute of a module."""
    plan, smoothing = pinned({None: {"n": WORLD}}), 0.1 * RANK
    for loss in (lambda y, t: (1 + RANK) * F.cross_entropy(y, t), lambda y, t: F.cross_entropy(y, t, label_smoothing=smoothing),
                 nn.CrossEntropyLoss(label_smoothing=0.1 + smoothing), parallel.Sum(lambda y, t: y[:, RANK].sum()),
                 [(nn.HuberLoss(delta=1.0 + RANK), 1.0)]):
        divided, _, x, y = pair(14, loss=loss, plan=plan)
        y = y if not isinstance(loss, list) else torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(0))
        for _ in range(2):
            refused(lambda: divided(x, y), parallel.NotSupported, "ranks differ in the loss of fc2: ")


class Warm(nn.Module):
    """A cross-entropy with a trained temperature."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(5))

    def forward(self, outputs, labels):
        return F.cross_entropy(outputs.mul_(self.temperature), labels)


def trained_losses():
    """A loss with trained parameters is refused on all ranks, with the parameters' names if they have any. Constant
    parameters are accepted."""
    plan, kept = pinned({None: {"n": WORLD}, "fc2": {"n": 2}}), Warm()
    for loss, name in ((kept, "temperature"), (parallel.Sum(Warm()), "temperature"), (lambda y, t: kept(y + 0, t), "a tensor")):
        divided, single, x, y = pair(14, loss=loss, plan=plan)
        divided.requires_grad_(name == "temperature")
        refused(lambda: divided(x, y), parallel.NotSupported, f"a loss in which {name} of shape (5,) requires a gradient")
    kept.requires_grad_(False)
    divided, single, x, y = pair(14, loss=kept, plan=plan)
    divided(x, y).backward()
    kept(single(x), y).backward()
    same(divided, single, gradients=True)


def half():
    """A bf16 model trains by a plan as on one device; its statistics are in fp32, its weights in bf16."""
    for is_before in (True, False):
        model, x, y = made(15)
        single = copy.deepcopy(model).bfloat16()
        divided = apply(model.bfloat16() if is_before else model, pinned({None: {"n": WORLD}})).bfloat16()
        found, wanted = divided(x.bfloat16(), y), F.cross_entropy(single(x.bfloat16()), y)
        assert abs(found.item() - wanted.item()) < 2.0**-6 * wanted.item(), (found, wanted)
        found.backward()
        assert {parameter.grad.dtype for parameter in divided.parameters()} == {torch.bfloat16}


class OnlyInTraining(Net):
    def forward(self, x):
        return super().forward(torch.relu(x) if self.training else x)


def unlike_graphs():
    refused(lambda: describe(OnlyInTraining(), (3, 8, 8)), parallel.NotSupported, "is computed so in evaluation alone")
    divided, single, x, y = pair(10)
    compiled = torch.compile(divided)
    refused(lambda: compiled(x, y), parallel.NotSupported, "torch.compile of a model that runs by a plan")
    refused(lambda: torch.jit.trace(divided, x), parallel.NotSupported, "torch.jit.trace of a model that runs by a plan")
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)
    refused(lambda: apply(made(10)[0], random_plan(10), checkpoint=("bn1",)), parallel.NotSupported,
            "checkpoint=['bn1']: batch normalizations")


def in_padding():
    """A rank's part of a padded image may consist of padding only."""
    model = nn.Sequential(nn.ZeroPad2d((0, 0, 2, 0)), nn.Flatten(), nn.Linear(16, 3))
    network, single = describe(model, (1, 2, 4)), copy.deepcopy(model)
    random_plan.count += 1
    plan = plan_file(schedules.Writer(network, 2, WORLD, lambda node: (
        dict.fromkeys("nchwr", 1) | ({"h": WORLD} if node.op == "padding" else {}), 0)).text(), f"corners{random_plan.count}")
    divided = parallel.apply(model, plan, loss=F.cross_entropy, network=network)
    for parameter, whole in zip(divided.parameters(), single.parameters()):
        parameter.data.copy_(whole.data[:len(parameter)])
    x, y = torch.randn(2, 1, 2, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1])
    divided(x, y).backward()
    F.cross_entropy(single(x), y).backward()
    same(divided, single, gradients=True)


def nothing_read():
    """A rank's part may read only padding or gaps of an input. The rank may have a part of the input or none. Groups
    of a transposed convolution are divided as well."""
    torch.manual_seed(34)
    for layer, before, axes in ((nn.ZeroPad2d((0, 0, 0, 6)), {"h": 2}, {"h": 2}), (nn.Conv2d(4, 4, 1, padding=2, groups=2), {"c": 2}, {"h": 3}),
                                (nn.ConvTranspose2d(4, 4, 1, 4, output_padding=3), {"n": 2}, {"h": 3}),
                                (nn.ConvTranspose2d(4, 4, 3, 2, 1, output_padding=1, groups=2, dilation=2), {"c": 2}, {"h": 3}),
                                (nn.ConvTranspose2d(4, 4, 3, 2, groups=2, dilation=3), {"h": 2}, {"c": 2}),
                                (nn.ConvTranspose2d(4, 8, 2, 3, groups=4, dilation=2), {"c": 2}, {"c": 2})):
        model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer, nn.LazyConv2d(4, 3, padding=1), nn.AdaptiveAvgPool2d(1),
                              nn.Flatten(), nn.Linear(4, 5))
        x, y = torch.randn(BATCH, 3, 2, 2), torch.randint(0, 5, (BATCH,))
        model(x)
        network, single = describe(model, (3, 2, 2)), copy.deepcopy(model)
        divided = parallel.apply(model, pinned({"0": before, "1": axes}, network), loss=F.cross_entropy, network=network)
        found, wanted = divided(x, y), F.cross_entropy(single(x), y)
        assert abs(found.item() - wanted.item()) < 1e-12, (layer, found, wanted)
        found.backward(), wanted.backward()
        same(divided, single, gradients=True)
        assert parallel.report(divided).difference() == 0, layer


def masked_classes():
    """All classes of a rank may be masked by -inf."""
    model, x, y = made(13)
    y = y % 2 + 3
    model.fc2.bias.data[:3] = -torch.inf
    single = copy.deepcopy(model)
    divided = apply(model, pinned({"fc2": {"c": 2}}))
    found, wanted = divided(x, y), F.cross_entropy(single(x), y)
    assert abs(found.item() - wanted.item()) < 1e-12, (found, wanted)
    found.backward(), wanted.backward()
    for name, parameter in single.named_parameters():
        own, whole = divided.get_parameter(name).grad.as_subclass(torch.Tensor), part(divided, name, parameter.grad)
        assert torch.allclose(own, whole, rtol=0, atol=1e-12), name


def time_of_sums():
    """If a sum ends while its rank computes, no time counts as waiting for the sum. Without overlap, no part of a sum's
    time is hidden."""
    now = [0.0]
    for is_beside, waited, hidden in ((True, 0, 5000), (False, 5000, 0)):
        counts, clock = transport.Counts(), types.SimpleNamespace(monotonic=lambda: now[0])
        summed = types.SimpleNamespace(transport=types.SimpleNamespace(counts=counts), run=lambda flat: now.append(now.pop() + 5))
        with mock.patch.object(sums, "time", clock):
            worker = sums.Worker(is_beside)
            job = worker.begin(summed, torch.zeros(1))
            job.done.wait()
            job.wait()
            worker.close()
        assert (counts.waited_ms["update"], counts.hidden_ms["update"]) == (waited, hidden), (is_beside, counts.waited_ms, counts.hidden_ms)


def chunks():
    """Sums in messages of at most 64 bytes give the same bits and move the same number of elements as sums in longer
    messages."""
    found, messages, usual = [], [], sums.CHUNK_BYTES
    for size in (usual, 64):
        sums.CHUNK_BYTES = size
        divided, single, x, y = pair(11, plan=rows_of_fc1())
        divided(x, y).backward()
        F.cross_entropy(single(x), y).backward()
        same(divided, single, gradients=True)
        messages.append(divided._ucudnn.summing.counts.messages)
        report = parallel.report(divided)
        assert report.difference() == 0, report
        found.append([parameter.grad.as_subclass(torch.Tensor) for parameter in divided.parameters()])
    sums.CHUNK_BYTES = usual
    assert 0 < 3 * messages[0] < messages[1], messages
    assert all(torch.equal(a, b) for a, b in zip(*found))


if __name__ == "__main__":
    parallel_ranks.run(globals())
