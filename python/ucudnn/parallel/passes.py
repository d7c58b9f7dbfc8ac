"""Krizhevsky's schemes (b) and (c): the fully connected part runs in several passes, each forward and backward for some
of the images, before the backward pass of the other layers begins. Source: Krizhevsky 2014, section 4."""
from dataclasses import replace

import torch
from torch.autograd.function import once_differentiable

from . import boxes as b
from .errors import NotSupported
from .gradients import mark
from .losses import Sum


def numbers_of(images):
    """Returns the numbers of a pass's images, in the order of the pass."""
    return [image for begin, end in images for image in range(begin, end)]


def schedule_of(schedule, images):
    """Returns the schedule for the images of one pass, renumbered from 0: intervals of the batch become intervals of
    these images."""
    def before(image):
        return sum(max(min(end, image) - begin, 0) for begin, end in images)

    def cut(found):
        boxes = {device: ((before(box[b.N][0]), before(box[b.N][1])), *box[1:]) for device, box in found.items()}
        return {device: box for device, box in boxes.items() if b.elements(box)}
    nodes = {name: replace(node, boxes=cut(node.boxes), partial=cut(node.partial), needs=[cut(needs) for needs in node.needs])
             for name, node in schedule.nodes.items()}
    count = sum(end - begin for begin, end in images)
    statistics = {}
    for key, one in schedule.statistics.items():
        groups = tuple(
            replace(group, devices=tuple(d for d in group.devices if one.kind == "loss" or d in nodes[one.node].boxes))
            for group in one.groups)
        statistics[key] = replace(one, groups=groups)
    return replace(schedule, batch=count, nodes=nodes, statistics=statistics, passes=None)


class Deferred(torch.autograd.Function):
    """Represents all passes as one autograd function of the tensors and parameters that they read. The passes have
    already computed the gradients; backward only scales them."""

    @staticmethod
    def forward(ctx, token, number, gradients, scale, *inputs):
        ctx.gradients, ctx.scale = gradients, scale
        return token.clone(), number

    @staticmethod
    @once_differentiable
    def backward(ctx, token, gradient):
        found = [None if each is None else each * (gradient / ctx.scale).to(each.dtype) for each in ctx.gradients]
        return token, None, None, None, *found


class PassesRun:
    """The passes within `run`, which is one forward pass of the model. `labels`: this rank's labels by the node of each
    output, or None."""

    def __init__(self, run, labels):
        self.run, self.labels, self.executor = run, labels, run.executor
        self.schedule, self.nodes = run.schedule, run.schedule.passes.nodes
        names = {name for node in self.nodes for name in self.executor.network.by_name[node].parameters}
        run.token, values = run.parameters.use(run.token, sorted(names))
        self.outer = dict(zip(sorted(names), values))
        self.inner = {name: value.detach().requires_grad_(value.requires_grad) for name, value in self.outer.items()}
        self.feeders = sorted({source
                               for node in self.nodes
                               for source in self.executor.network.by_name[node].inputs} - self.nodes)
        self.sources = {name: run.values[name][0].detach().requires_grad_(run.values[name][0].requires_grad)
                        for name in self.feeders if name in run.values}
        self.gradients = {key: None for key in (*self.sources, *self.inner)}
        self.runs, self.number, self.outputs = {}, torch.zeros((), device=self.executor.device), {}

    def of(self, number):
        """Returns the Run of pass `number`; creates it at the first call."""
        if number not in self.runs:
            images = self.schedule.passes.images[number]
            plan = self.executor.pass_plan(self.run.plan, number)
            run = self.run.for_pass(plan, numbers_of(images), self.inner)
            for name, x in self.sources.items():
                box = self.schedule.nodes[name].boxes[self.executor.rank]
                own = [image - box[b.N][0] for image in numbers_of(images) if box[b.N][0] <= image < box[b.N][1]]
                if own:
                    run.values[name] = (x[own], plan.schedule.nodes[name].boxes[self.executor.rank])
            self.runs[number] = run
        return self.runs[number]

    def backward(self, number):
        """Computes the loss of pass `number` and runs its backward pass immediately."""
        run, executor = self.of(number), self.executor
        images = numbers_of(self.schedule.passes.images[number])
        for output in executor.network.outputs:
            if output.node in run.values:
                self.outputs.setdefault(output.node, []).append((images, run.values[output.node]))
        if self.labels is None:
            self.runs.pop(number).ledger.end()
            return
        total, share = torch.zeros((), device=executor.device), len(images) / self.schedule.batch
        for output, (loss, weight) in zip(executor.network.outputs, executor.losses):
            if output.node in run.values:
                wanted = self.run.plan.labels[output.node].wanted
                own = self.labels[output.node][[image - wanted[0] for image in images]]
                total = total + run.own_loss(output, loss, own) * (weight if isinstance(loss, Sum) else weight * share)
        self.number = self.number + total.detach()
        if run.is_recording:
            leaves = {key: value for key, value in (*self.sources.items(), *self.inner.items()) if value.requires_grad}
            leaves[None] = run.root  # ensures that a rank which trains nothing here still takes part in the messages
            scale = executor.pass_scale or 1.0
            found = torch.autograd.grad(total * scale + 0 * run.token.to(total.dtype), list(leaves.values()), allow_unused=True)
            found = dict(zip(leaves, found))
            del found[None]
            if executor.between_passes is not None:
                executor.between_passes(self, {key: found.pop(key) for key in list(found) if key in self.inner}, share * scale)
            for key, gradient in found.items():
                if gradient is not None:
                    old = self.gradients[key]
                    self.gradients[key] = gradient if old is None else old + gradient
        self.runs.pop(number).ledger.end()

    def end(self):
        """Returns this rank's loss, whose backward pass gives the gradients of all passes."""
        run = self.run
        if not run.is_recording:
            return self.number
        # A parameter of self.inner without a gradient was updated after each pass or is not trained, so it is not an
        # input of Deferred.
        keys = [*self.sources, *[key for key in self.inner if self.gradients[key] is not None]]
        inputs = [run.values[key][0] if key in self.sources else self.outer[key] for key in keys]
        run.token, number = Deferred.apply(run.token, self.number, [self.gradients[key] for key in keys],
                                           self.executor.pass_scale or 1.0, *inputs)
        return number


def between(executor, optimizer):
    """Returns a function that steps the optimizer only for the parameters of the passes, with the gradients of one
    pass. These gradients are means over the images of the pass."""
    def step(passes, gradients, share):
        parameters = executor.parameters
        kept = {name: parameter.grad for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter.grad = None
        for summed in executor.sums:
            names = [name for name in summed.names if name in gradients]
            if names:
                if len(names) < len([name for name in summed.names if parameters[name].requires_grad]):
                    raise NotSupported("an update after each pass of parameters that are summed with those of other layers")
                flat = torch.cat([gradients[name].reshape(-1) for name in names])
                executor.worker.begin(summed, flat).wait()
                at = 0
                for name in names:
                    count = gradients[name].numel()
                    gradients[name] = flat[at:at + count].view_as(gradients[name])
                    at += count
        for name, gradient in gradients.items():
            if gradient is not None and parameters[name].requires_grad:
                parameters[name].grad = mark(gradient / share, getattr(parameters[name], "ucudnn_parts", None))
        optimizer.step()
        for name, parameter in parameters.items():
            parameter.grad = kept[name]
        with torch.no_grad():
            for name, value in passes.inner.items():  # the next pass reads the updated values
                value.copy_(parameters[name])
    return step
