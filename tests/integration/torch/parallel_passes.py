"""Compares training by Krizhevsky's schemes with passes ("one weird trick") and training on one device, on each rank
of parallel_passes_test.py."""
import copy
import json

import parallel_ranks
import schedules
import torch
import torch.distributed as dist
import torch.nn.functional as F
from parallel_habits import apply, made, network_of, same, sgd
from parallel_ranks import WORLD, part, plan_file
from torch import nn
from ucudnn import parallel
from ucudnn.parallel import boxes

COUNT = [0]


def scheme(model, batch, letter, count, update_every="batch", network=None):
    """Returns a plan. Before the fully connected part, images are divided over workers. In this part, channels are
    divided over workers. `letter` is Krizhevsky's scheme: in "b", a pass has the images of one worker; in "c", a pass
    has a share of every worker's images."""
    network = network or network_of()
    connected = schedules.Writer(network, batch, 1, lambda node: ({axis: 1 for axis in "nchwr"}, 0)).connected()

    def choose(node):
        axis = "c" if node.name in connected else "n"
        return {each: WORLD if each == axis else 1 for each in "nchwr"}, 0
    if letter == "b":
        images = [[boxes.part(batch, count, number)] for number in range(count)]
    else:
        images = []
        for number in range(count):
            images.append([])
            for worker in range(WORLD):
                begin, end = boxes.part(batch, WORLD, worker)
                low, high = boxes.part(end - begin, count, number)
                images[-1].append([begin + low, begin + high])
    COUNT[0] += 1
    passes = (letter, images, update_every) if letter != "a" else None
    text = schedules.Writer(network, batch, WORLD, choose, passes=passes).text()
    return plan_file(text, f"owt{COUNT[0]}")


def synchronous():
    """After three steps, all schemes equal plain SGD. In evaluation they give one device's outputs."""
    for letter, count in (("a", 1), ("b", WORLD), ("c", WORLD), ("b", 3), ("c", 2)):
        for loss in (F.cross_entropy, F.binary_cross_entropy_with_logits):
            model, x, y = made(1, 4 * WORLD)
            if loss is not F.cross_entropy:
                y = F.one_hot(y, 5).double()
            single = copy.deepcopy(model)
            divided = apply(model, scheme(model, 4 * WORLD, letter, count), loss=loss)
            optimizers = sgd(divided), sgd(single)
            for step in range(3):
                for optimizer in optimizers:
                    optimizer.zero_grad()
                found, wanted = divided(x, y), loss(single(x), y)
                assert abs(found.item() - wanted.item()) < 1e-11, (letter, count, found, wanted)
                (2 * found).backward()
                (2 * wanted).backward()
                for optimizer in optimizers:
                    optimizer.step()
            same(divided, single, 1e-11)
            divided.eval(), single.eval()
            with torch.no_grad():
                assert (divided(x) - single(x)).abs().max() < 1e-10
            divided._ucudnn.close()


def normalized():
    """Layer and group normalizations work in passes even if the features that they normalize are divided over ranks.
    The loss is a node here."""
    for letter, count in (("b", WORLD), ("c", 2)):
        torch.manual_seed(3)
        model, (_, x, y) = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Flatten(), nn.Linear(216, 9), nn.LayerNorm(9), nn.ReLU(),
                                         nn.Linear(9, 6), nn.GroupNorm(2, 6), nn.Linear(6, 5)), made(3, 4 * WORLD)
        single, network = copy.deepcopy(model), parallel.describe(model, (3, 8, 8), loss=F.cross_entropy)
        plan = scheme(model, 4 * WORLD, letter, count, network=network)
        assert {"3", "6", "loss"} <= {one["node"] for one in json.loads(plan.read_text())["statistics"]}
        divided = parallel.apply(model, plan, loss=F.cross_entropy)
        found, wanted = divided(x, y), F.cross_entropy(single(x), y)
        assert abs(found.item() - wanted.item()) < 1e-11, (letter, found, wanted)
        found.backward(), wanted.backward()
        same(divided, single, 1e-11, gradients=True)
        report = parallel.report(divided)
        assert report.difference() == 0, report
        divided._ucudnn.close()


def counted():
    """Expects that counted elements equal the schedule's, and that one exchange moves (K - 1) K B elements. K is the
    number of workers. B is how many numbers the images of one worker have."""
    batch = 4 * WORLD
    for letter in "bc":
        model, x, y = made(2, batch)
        plan = scheme(model, batch, letter, WORLD)
        text = json.loads(plan.read_text())
        divided = apply(model, plan, loss=F.cross_entropy)
        divided(x, y).backward()
        report = parallel.report(divided)
        assert report.difference() == 0, report
        feeds = 6 * 4 * 4 * batch // WORLD  # B: numbers of one worker's images before the fully connected part
        sent = sum(pair[0] for pair in report.counted["transfer"].values())
        total = torch.tensor(float(sent))
        dist.all_reduce(total)
        assert total.item() == text["elements"]["transfer"], (total, text["elements"])
        assert any(one["elements"] == (WORLD - 1) * WORLD * feeds for one in text["exchanges"])


def each_pass():
    """With update_every "pass", the fully connected part makes a step after each pass."""
    batch = 4 * WORLD
    for letter in "bc":
        model, x, y = made(3, batch)
        single = copy.deepcopy(model)
        plan = scheme(model, batch, letter, WORLD, "pass")
        images = json.loads(plan.read_text())["passes"]["images"]
        divided = apply(model, plan, loss=F.cross_entropy)
        try:
            divided(x, y)
        except parallel.NotSupported as error:
            assert "model.step(images, labels, optimizer) runs it" in str(error)
        else:
            raise AssertionError("no refusal")
        optimizer = sgd(divided)
        connected = [p for name, p in single.named_parameters() if name.startswith("fc")]
        rest = [p for name, p in single.named_parameters() if not name.startswith("fc")]
        inner, outer = (torch.optim.SGD(group, lr=0.1, momentum=0.9) for group in (connected, rest))
        for step in range(3):
            found = divided.step(x, y, optimizer)
            total = torch.zeros(())
            features = single.relu(single.bn1(single.conv1(x)))
            features = torch.flatten(single.pool(single.relu(single.bn2(single.conv2(features)) + features)), 1)
            held = features.detach().requires_grad_()
            for intervals in images:
                chosen = [image for begin, end in intervals for image in range(begin, end)]
                inner.zero_grad()
                loss = F.cross_entropy(single.fc2(single.drop(single.relu(single.fc1(held[chosen])))), y[chosen])
                share = len(chosen) / batch
                gradients = torch.autograd.grad(loss, [held, *connected])
                held.grad = gradients[0] * share if held.grad is None else held.grad + gradients[0] * share
                for parameter, gradient in zip(connected, gradients[1:]):
                    parameter.grad = gradient
                inner.step()
                total = total + loss.detach() * share
            outer.zero_grad()
            features.backward(held.grad)
            outer.step()
            assert abs(found.item() - total.item()) < 1e-11, (letter, step, found, total)
        same(divided, single, 1e-10)


def half_precision():
    """In fp16, divided(x, y) is refused, because with passes the backward pass begins before the loss is scaled. The
    message names model.step."""
    batch = 4 * WORLD
    model, x, y = made(4, batch)
    divided = apply(model.float(), scheme(model, batch, "b", WORLD), loss=F.cross_entropy)
    with torch.autocast("cpu", dtype=torch.float16):
        try:
            divided(x.float(), y)
        except parallel.NotSupported as error:
            assert "model.step(images, labels, optimizer, scaler)" in str(error)
        else:
            raise AssertionError("no refusal")


def scaled():
    """model.step(images, labels, optimizer, scaler) equals a training loop with a scaler on one device. It skips steps
    that overflow. In fp16 it keeps gradients that would be 0 without the scale."""
    batch = 4 * WORLD
    for letter, half in (("b", False), ("c", False), ("b", True), ("c", True)):
        torch.manual_seed(5)
        model, (_, x, y) = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 9), nn.ReLU(),
                                         nn.Linear(9, 5)), made(5, batch)
        if half:
            model, x = model.float(), x.float()
        single, network, weight = copy.deepcopy(model), parallel.describe(model, (3, 8, 8)), 2.0**-16 if half else 1.0
        plan = scheme(model, batch, letter, WORLD, network=network)
        divided = parallel.apply(model, plan, loss=[(F.cross_entropy, weight)], network=network)
        scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-24) for _ in range(2)]
        optimizers = sgd(divided), sgd(single)
        for step in range(3):
            with torch.autocast("cpu", dtype=torch.float16, enabled=half):
                found = divided.step(x, y, optimizers[0], scalers[0])
                optimizers[1].zero_grad()
                wanted = weight * F.cross_entropy(single(x), y)
            scalers[1].scale(wanted).backward()
            scalers[1].step(optimizers[1])
            scalers[1].update()
            # In fp16, a number is rounded at most 8 times forward and 8 times backward, by 2^-11 each.
            within = 16 * 2.0**-11 if half else 1e-11
            assert abs(found.item() - wanted.item()) <= within * wanted.item(), (letter, half, step, found, wanted)
            assert scalers[0].get_scale() == scalers[1].get_scale() == (2.0**16 if half else 2.0**40), (letter, half, step)
            for name, parameter in single.named_parameters() if step else ():
                own = divided.get_parameter(name)
                error = (own.grad - part(divided, name, parameter.grad)).as_subclass(torch.Tensor).abs()
                assert 0 < parameter.grad.abs().max() and (error <= within * parameter.grad.abs().max()).all(), (
                    letter, half, step, name, error.max(), parameter.grad.abs().max())
        same(divided, single, 1e-11 if not half else 2.0**-20)
        divided._ucudnn.close()


if __name__ == "__main__":
    parallel_ranks.run(globals())
