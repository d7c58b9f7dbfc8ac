"""Counts the elements that a training step would move. The step's own code runs on meta tensors, so it needs no values,
no messages and no other ranks."""
import copy

import torch
import torch.nn.functional as F

from . import schedule as schedules
from .executor import Executor
from .model import divide, fitting
from .reporting import report
from .transport import MetaTransport


def count(model, plan, rank, loss=F.cross_entropy):
    """Returns the Report of one step of `model` by the schedule in the file `plan`, as device number `rank` would run
    it. If `rank` is a sequence of ranks, returns a list of Reports. `loss` is as in `apply`. With a logistic loss, an
    image's label is a number for each class; with other losses it is one class."""
    schedule = plan if isinstance(plan, schedules.Schedule) else schedules.read(plan)
    network, losses = fitting(model, schedule, loss)
    if isinstance(rank, int):
        return _count(model, schedule, rank, network, losses)
    return [_count(model, schedule, one, network, losses) for one in rank]


def _count(model, schedule, rank, network, losses):
    transport, summing = (MetaTransport(rank, schedule.devices) for _ in range(2))
    executor = Executor(network, schedule, transport, summing, losses, torch.device("meta"), is_beside=False)
    # the memo keeps deepcopy from copying `network`, which a module made by building.module has as a member
    model = copy.deepcopy(model, {id(network): network}).to("meta").train()
    divide(model, executor, lambda tensor: tensor)
    data = network.nodes[0]
    rows = executor.rows(schedule.batch)
    images = rows[1] - rows[0] if rows else 1
    shape = data.shape[:1] if len(data.shape) > 1 and max(data.shape[1:]) == 1 else data.shape
    floating = next((parameter.dtype for parameter in model.parameters()), torch.float32)
    is_logistic = executor.losses is not None and executor.losses[0][0] == "logistic"
    classes = network.by_name[network.outputs[0].node].shape[:1] if network.outputs[0].dims > 1 else ()
    labels = (images, *classes) if is_logistic else (images,)
    loss = model(torch.empty(images, *shape, dtype=floating, device="meta"),
                 torch.empty(labels, dtype=floating if is_logistic else torch.int64, device="meta"))
    loss.backward()
    return report(model)
