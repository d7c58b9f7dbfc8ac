"""Defines what a step of a random net is, how nets grow by steps, and how steps of ONNX nets choose tensors. A step takes a net
and a random.Random, appends nodes or layers that read what is there, and raises Unfit where it cannot."""

import dataclasses
import random


class Unfit(Exception):
    """Raised if a node does not fit here. The caller tries another step."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Determines a net. Leaving out steps of a recipe gives another recipe, so that a net that shows a fault can be shrunk."""

    seed: int  # for the inputs and the opset
    steps: tuple  # one seed for each step


def recipe_of(seed):
    rng = random.Random(seed)
    return Recipe(seed, tuple(rng.getrandbits(48) for _ in range(rng.choice([1, 2, 3, 4, 5, 6, 8]))))


def step(weight):
    """Makes a function a step. `weight` says how often it is drawn, relative to others."""
    def mark(function):
        function.weight = weight
        return function
    return mark


def steps_of(*modules):
    return [value for module in modules for value in vars(module).values() if hasattr(value, "weight")]


def grow(net, steps, seeds, tries=6):
    """For every seed draws up to `tries` steps, and appends the first one that fits."""
    for seed in seeds:
        net.rng = rng = random.Random(seed)
        for function in rng.choices(steps, [step.weight for step in steps], k=tries):
            mark = net.mark()
            try:
                function(net, rng)
                break
            except Unfit:
                net.rollback(mark)


def need(condition):
    if not condition:
        raise Unfit


def pick(net, rng, test=lambda t: True):
    """Returns a computed float tensor, mostly the one that was added last."""
    names = [n for n in net.order if net[n].is_float and net[n].batch and test(net[n])]
    need(names)
    return names[-1] if rng.random() < 0.75 else rng.choice(names[-6:])


def leads(tensor):
    """Returns whether the first axis is the batch and nothing else."""
    return tensor.batch[:3] == (0, 1, 1)


def image(tensor):
    return leads(tensor) and tensor.rank == 4


def volume(tensor):
    return leads(tensor) and tensor.rank in (4, 5)


def tokens(tensor):
    return tensor.rank == 3 and tensor.batch.axis == 0


def pick_axis(net, rng, x, test=lambda extent: True):
    """Returns an axis that is not the batch's."""
    tensor = net[x]
    axes = [a for a in range(tensor.rank) if a != tensor.batch.axis and test(tensor.extent(a))]
    need(axes)
    return rng.choice(axes)


def written(net, rng, axis, rank):
    """Returns an axis as a file may write it: negative ones are allowed from opset 11 on."""
    return axis - rank if net.opset >= 11 and rng.random() < 0.35 else axis


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]
