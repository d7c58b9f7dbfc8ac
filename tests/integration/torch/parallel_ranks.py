"""Runs random networks by random plans, on each rank of parallel_test.py, and compares them with one device. Also has
functions for other scripts of ranks."""
import copy
import datetime
import itertools
import os
import pathlib
import random
import subprocess
import sys
import time

import random_nets
import schedules
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ucudnn import parallel
from ucudnn.parallel.building import Built
from ucudnn.parallel.reading import network_in
from ucudnn.parallel.transport import Transport

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LEVELS, UPDATES = {4: [2, 2]}.get(WORLD, [WORLD]), ["owner", "owner", "hierarchical"]
COMMAND = os.environ.get("UCUDNN_TEST_COMMAND")


def join(seconds=600):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=os.environ["UCUDNN_TEST_RENDEZVOUS"], rank=RANK, world_size=WORLD,
                            timeout=datetime.timedelta(seconds=seconds))


def run(functions):
    """Joins the ranks and runs the functions that the command line names, one after the other."""
    join()
    for name in sys.argv[1:]:
        functions[name]()
        dist.barrier()
        print(f"{name} done", flush=True)
    dist.destroy_process_group()


def plan_file(text, name):
    path = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent / f"{name}.json"
    if RANK == 0:
        path.write_text(text)
    dist.barrier()
    return path


def part(model, name, whole):
    """Returns this rank's part of `whole`, which has the shape of parameter `name` of the undivided model."""
    return model._ucudnn.shards[name].of(whole)


def planned(rng, text, network, batch, last):
    """Returns a schedule of `ucudnn plan`, which rank 0 runs with random degrees of layers. If `ucudnn plan` refuses a
    layer's random degrees, rank 0 lets `ucudnn plan` choose that layer's degrees. `last` has the degrees of the last
    layer."""
    pins, update = {}, rng.choice(UPDATES)
    for node in network.nodes:
        if node.inputs and node.op not in schedules.FOLLOWERS:
            parts = rng.choice([parts for parts in range(1, WORLD + 1) if WORLD % parts == 0])
            first = rng.choice([first for first in range(1, parts + 1) if parts % first == 0])
            pins[node.name] = dict.fromkeys("nchwr", 1) | dict(zip(rng.sample("nchwr", 2), (first, parts // first)))
    pins[network.outputs[0].node] = last
    told = [None]
    if RANK == 0:
        folder = pathlib.Path(os.environ["UCUDNN_TEST_RENDEZVOUS"].removeprefix("file://")).parent
        (folder / "net.json").write_text(text)
        (folder / "machine.json").write_text(schedules.machine(*LEVELS))
        while told[0] is None:
            words = [f"--pin={name}={''.join(f'{axis}{count}' for axis, count in found.items())}"
                     for name, found in pins.items()]
            words += ["--machine", folder / "machine.json", "--batch", str(batch), "--update", update, "--schedule"]
            words += ["--uneven", "--placements", "--reduction"]
            made = subprocess.run([COMMAND, "plan", folder / "net.json", *words], capture_output=True, text=True)
            if made.returncode:
                refused = [name for name in pins if f"'{name}'" in made.stderr]
                assert refused, made.stderr
                del pins[refused[0]]
            else:
                told[0] = made.stdout
    dist.broadcast_object_list(told, 0)
    return told[0]


def case(seed, is_exact):
    rng = random.Random(seed)
    rank = 3 if rng.random() < 0.15 else 2
    text = random_nets.Maker(rng, is_exact, rank).network()
    network = network_in(text)
    torch.manual_seed(seed)
    model = Built(network)
    if is_exact:
        for parameter in model.parameters():
            parameter.data = torch.randint(-2, 3, parameter.shape).double()
    else:
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape)
    batch = rng.randint(2, 5)
    last = network.outputs[0].node
    allowed = {last: "n" if is_exact else "ncr"}  # the loss of whole_numbers() is linear and does not support divided classes
    choose = (lambda node: schedules.degrees_of(rng, network, node, WORLD, allowed.get(node.name, "nchwr")))
    if COMMAND and seed % 4:
        degrees = dict.fromkeys("nchwr", 1)
        degrees[rng.choice(allowed[last])] = WORLD
        schedule = planned(rng, text, network, batch, degrees if degrees["n"] <= batch else dict.fromkeys("nchwr", 1))
    else:
        schedule = schedules.Writer(network, batch, WORLD, choose, rng.choice(UPDATES), LEVELS).text()
    shape = network.nodes[0].shape
    x = torch.randint(-2, 3, (batch, *shape)).double() if is_exact else torch.randn(batch, *shape)
    return text, model, schedule, x, network.by_name[last].shape[0], rng


def whole_numbers(seeds):
    """One step on integers, with a linear loss, gives the same bits as one device."""
    for seed in seeds:
        most = [2**53]
        for attempt in range(9):  # try cases until fp64 represents all numbers exactly, also intermediate sums
            text, model, schedule, x, classes, rng = case(seed + 10**6 * attempt, True)
            labels = torch.randint(-2, 3, (len(x), classes)).double()
            single, sums = copy.deepcopy(model), copy.deepcopy(model)
            loss = (random_nets.plain(single, text, x) * labels).sum()
            loss.backward()
            for parameter in sums.parameters():
                parameter.data.abs_()
            most = []
            (random_nets.plain(sums, text, x.abs(), most) * labels.abs()).sum().backward()
            most += [parameter.grad.abs().max().item() for parameter in sums.parameters()]
            if max(most) < 2**53:
                break
        assert max(most) < 2**53, f"seed {seed}: {max(most)}"
        divided = parallel.apply(model, plan_file(schedule, f"exact{seed}"), loss=parallel.Sum(lambda y, t: (y * t).sum()),
                                 overlap=rng.random() < 0.7)
        optimizer, other = (torch.optim.SGD(m.parameters(), lr=1.0) for m in (divided, single))
        found = divided(x, labels)
        found.backward()
        assert found.item() == loss.item(), f"seed {seed}: loss {found.item()}, {loss.item()}"
        optimizer.step()
        other.step()
        for name, parameter in single.named_parameters():
            assert torch.equal(divided.get_parameter(name), part(divided, name, parameter)), f"seed {seed}, rank {RANK}: {name}"
        difference = parallel.report(divided).difference()
        assert difference == 0, f"seed {seed}: {difference} elements more or less than predicted"
        divided._ucudnn.close()


def real_numbers(seeds):
    """After three steps, differences from one device stay within rounding errors."""
    for seed in seeds:
        text, model, schedule, x, classes, rng = case(seed, False)
        labels = torch.randint(0, classes, (len(x),))
        single = copy.deepcopy(model)
        plan = plan_file(schedule, f"real{seed}")
        counted = parallel.count(model, plan, RANK)
        divided = parallel.apply(model, plan, loss=F.cross_entropy)
        optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (divided, single))
        for step in range(3):
            for o in (optimizer, other):
                o.zero_grad()
            found = divided(x, labels)
            found.backward()
            outputs = random_nets.plain(single, text, x)
            loss = F.cross_entropy(outputs, labels)
            loss.backward()
            optimizer.step()
            other.step()
            # A cross-entropy is a difference of logits, so its error may be several roundings of the largest logit.
            rounding = 4 * torch.finfo(torch.float64).eps * outputs.abs().max().item()
            within = 1e-9 * loss.item() + rounding
            assert abs(found.item() - loss.item()) <= within, f"seed {seed}: {found.item()}, {loss.item()}"
        for name, parameter in single.named_parameters():
            own, wanted = divided.get_parameter(name), part(divided, name, parameter)
            error = (own - wanted).abs().max().item() if own.numel() else 0
            assert error <= 1e-9 * parameter.abs().max().item(), f"seed {seed}, rank {RANK}: {name} differs by {error}"
        report = parallel.report(divided)
        assert report.difference() == 0, f"seed {seed}: {report}"
        assert counted.kept == report.kept, f"seed {seed}, rank {RANK}: counted alone\n{counted}\nwith others\n{report}"
        divided._ucudnn.close()


def delay(sometimes):
    """Delays a share `sometimes` of all messages by up to 3 ms, at random and differently on each rank. Returns a
    counter of the delayed messages."""
    rng, post, count = random.Random(RANK), Transport.post, itertools.count()

    def late(self, *arguments):
        if rng.random() < sometimes:
            next(count)
            time.sleep(rng.random() * 0.003)
        return post(self, *arguments)
    Transport.post = late
    return count


if __name__ == "__main__":
    join()
    delays = delay(0.3)
    {"whole_numbers": whole_numbers, "real_numbers": real_numbers}[sys.argv[1]](range(int(sys.argv[2]), int(sys.argv[3])))
    dist.barrier()
    dist.destroy_process_group()
    print(f"{next(delays)} delays")
