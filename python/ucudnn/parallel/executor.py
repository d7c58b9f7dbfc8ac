"""One rank's part of a schedule, step by step: the network runs forward on boxes, and torch's own engine runs it
backward."""
import collections
import contextlib
import copy
import functools
import itertools
import math

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from . import boxes as b
from .agreement import digest
from .dropout import seed_of
from .errors import NotSupported
from .ledger import Ledger, PassKind, PassLedger
from .losses import FUNCTIONS, Mean, SplitCrossEntropy, Sum, Total, kind_of, misfit, named, reference_numbers, refuse_parameters
from .moves import Meeting, Move, Post, Wait, cut, shape_of
from .norm import GroupNormalized, Normalized, Shares, counts_of
from .operators import OVERWRITING, OVERWRITTEN, Call, compute
from .passes import PassesRun, schedule_of
from .sums import Pass, Summed, Worker


class Labels:
    """The exchange of labels. `rows` are the images that each device loads, `wanted` the images whose labels it needs.
    A label that a device needs and has not loaded comes from the first device that has loaded it."""

    def __init__(self, rank, rows, wanted):
        self.rows, self.wanted = rows.get(rank), wanted.get(rank)
        self.receives = self._sources(rank, rows, wanted)
        self.sends = {}
        for device in wanted:
            for source, intervals in self._sources(device, rows, wanted).items():
                if source == rank and device != rank:
                    self.sends[device] = intervals

    def _sources(self, device, rows, wanted):
        """Intervals of the images, by the device that they come from."""
        if device not in wanted:
            return {}
        left, found = [wanted[device]], {}
        for source in [device, *sorted(set(rows) - {device})]:
            if source not in rows:
                continue
            low, high = rows[source]
            rest = []
            for begin, end in left:
                inner = (max(begin, low), min(end, high))
                if inner[0] >= inner[1]:
                    rest.append((begin, end))
                    continue
                found.setdefault(source, []).append(inner)
                rest += [piece for piece in ((begin, inner[0]), (inner[1], end)) if piece[0] < piece[1]]
            left = rest
        return found

    def elements(self, each):
        """Returns [sent, received] elements, with `each` numbers for an image."""
        def count(found, own):
            return each * sum(end - begin for device, pieces in found.items() if device != own for begin, end in pieces)
        return [count(self.sends, None), count(self.receives, None)]

    def bring(self, transport, labels, rank, kind="labels"):
        """Exchanges labels. `labels` belong to `rows`; if `rows` is None, they only give the type. Returns the labels
        of `wanted`, or None."""
        rest, device = labels.shape[1:], labels.device

        def packed(pieces):
            return torch.cat([labels[begin - self.rows[0]:end - self.rows[0]] for begin, end in pieces])
        receives = {source: ((sum(end - begin for begin, end in pieces), *rest), labels.dtype)
                    for source, pieces in self.receives.items() if source != rank}
        sends = {peer: packed(pieces) for peer, pieces in self.sends.items()}
        arrived = transport.post("labels", kind, sends, receives, device).wait() if sends or receives else {}
        if self.wanted is None:
            return None
        result = labels.new_empty((self.wanted[1] - self.wanted[0], *rest))
        for source, pieces in self.receives.items():
            values, at = packed(pieces) if source == rank else arrived[source], 0
            for begin, end in pieces:
                result[begin - self.wanted[0]:end - self.wanted[0]] = values[at:at + end - begin]
                at += end - begin
        return result


class Plan:
    """The data that each step of a schedule needs, for one batch size on one rank."""

    def __init__(self, executor, schedule):
        self.schedule, rank, transport = schedule, executor.rank, executor.transport
        self.moves, self.trained, self.returning, self.passes = {}, executor.trained, executor.returning(), {}
        for exchange in schedule.exchanges.values():
            held, needed = schedule.boxes_of(exchange)
            axes = b.axes_of(len(schedule.nodes[exchange.node].shape) - 1)
            move = Move(f"exchange {exchange.id} ({exchange.node} for {exchange.consumer})", transport, held, needed, axes,
                        exchange.input is None, exchange.node in self.returning)
            if move.is_part:
                self.moves[exchange.id] = move
        self.meetings, self.classifiers, self.loss, self.shares = {}, {}, {}, {}
        for one in schedule.statistics.values():
            group = next((group for group in executor.groups_of(one) if rank in group.devices), None)
            if group:
                meeting = Meeting(f"statistics {one.id} ({one.kind} of {one.node})", transport, group.devices)
                {"classifier": self.classifiers, "loss": self.loss}.get(one.kind, self.meetings)[one.node] = meeting
            if one.kind == "group_normalization" and group and len(group.devices) > 1:
                self.shares[one.node] = Shares(executor.network.by_name[one.node], group.devices, schedule.nodes[one.node].boxes,
                                               rank)
        everybody = tuple(range(schedule.devices))
        data = next(node for node in schedule.nodes.values() if not node.inputs)
        self.input = data
        rows = {device: box[b.N] for device, box in data.boxes.items()}
        self.rows, self.labels = rows.get(rank), {}
        ends = sorted({end for interval in rows.values() for end in interval})
        loaded = {(begin, end): [device for device, (low, high) in rows.items() if low <= begin and end <= high]
                  for begin, end in zip(ends, ends[1:])}
        self.shared = {images: devices for images, devices in loaded.items() if len(devices) > 1}  # which several ranks load
        self.whole_labels = Labels(rank, rows, dict.fromkeys(everybody, (0, schedule.batch)))
        for output in executor.network.outputs:
            name = output.node
            self.loss.setdefault(name, Meeting(f"the loss of {name}", transport, everybody))
            wanted = {device: box[b.N] for device, box in schedule.nodes[name].boxes.items()}
            self.labels[name] = Labels(rank, rows, wanted)
        inner = schedule.passes.nodes if schedule.passes else ()
        kept = {output.node for output in executor.network.outputs}
        kept.update(source for name in inner for source in executor.network.by_name[name].inputs)
        reads = self._reads(executor.network)
        self.finished = {}  # nodes whose output no step reads after a place in the order, by this place
        for name, places in reads.items():
            if name not in kept:
                self.finished.setdefault(places[-1], []).append(name)
        read_once = {name for name, places in reads.items() if len(places) == 1} - kept
        self.overwriting = self._overwriting(executor, read_once, executor.checkpointed.union(inner))

    def _reads(self, network):
        """Returns the places in the order of the steps that read a node's output, by node."""
        schedule, reads = self.schedule, {}
        for place, (kind, what, *_) in enumerate(schedule.order):
            if kind == "forward":
                for source in network.by_name[what].inputs:
                    reads.setdefault(source, []).append(place)
            elif kind in ("exchange", "wait") and (what in self.moves or schedule.exchanges[what].input is None):
                reads.setdefault(schedule.exchanges[what].node, []).append(place)
        return reads

    def _overwriting(self, executor, read_once, computed_again):
        """Returns the nodes that may write their output over their first input, which nothing else reads."""
        nodes, overwriting = self.schedule.nodes, set()
        for node in executor.network.nodes:
            if node.op not in OVERWRITING or node.name in computed_again:
                continue
            source = executor.network.by_name[node.inputs[0]]
            if source.op in OVERWRITTEN and source.name in read_once and not nodes[source.name].partial and \
                    source.name not in executor.checkpointed and not (nodes[node.name].is_layer and nodes[source.name].is_layer):
                overwriting.add(node.name)
        return overwriting


class Executor:
    """The executor of one rank. It keeps of a model only what the ranks have agreed on, and reads parameters, buffers
    and `training` from the model at each call. `losses`: (function, weight) for each output, or None."""

    def __init__(self, network, schedule, transport, summing, losses, device, seed=0, is_beside=True, checkpointed=(),
                 agreement=None, is_local=False):
        self.network, self.schedule, self.transport, self.summing = network, schedule, transport, summing
        self.rank, self.device, self.seed, self.step = transport.rank, device, seed, 0
        self.worker, self.is_synchronous, self.checkpointed = Worker(is_beside), True, frozenset(checkpointed)
        self.losses = losses and [(named(loss) or (loss if isinstance(loss, Sum) else Mean(loss)), weight)
                                  for loss, weight in losses]
        self.places = {node.name: place for place, node in enumerate(network.nodes)}
        self.parameters, self.accumulated, self.left = {}, {}, {}
        self.plans, self.types_by_state, self.trained, self.last_plan = {}, {}, None, None
        self.sizes, self.sampled = {schedule.batch}, None  # batch sizes that a sampler gives, and the batch that it gave last
        self.has_sampled = False  # a sampler has given a batch since the last pass
        self.passes_run = collections.Counter()  # (PassKind, is_backward), also of copies of the model
        self.between_passes, self.pass_scale = None, 1.0
        self.agreement, self.compared = agreement, set()  # compared: outputs whose losses were found to be means
        self.copies, self.is_new_copy = itertools.count(-1, -1), False  # numbers of copies of the model that parallel.apply divided
        self.referenced = set()  # types and shapes of labels with which ranks have compared their losses
        self.is_local = is_local  # batch normalization uses the statistics of each rank's own box
        self.applied = None  # what parallel.apply found, see model.Applied
        self.agreed, self.options = 0, {}  # passes on which the ranks agreed; options of optimizers that stepped since the last one
        self.schedules, self.sums, self.ledger = {schedule.batch: schedule}, [], Ledger()
        for one in schedule.sums:
            if self.rank in one.devices:
                summed = Summed(schedule, one, summing)
                summed.names = tuple(self._model_name(node, name) for node, name in one.parameters)
                self.sums.append(summed)

    def __deepcopy__(self, memo):
        other = copy.copy(self)
        other.parameters, other.accumulated, other.left, other.worker = {}, {}, {}, Worker(self.worker.is_beside)
        other.ledger, other.options, other.is_new_copy = Ledger(), {}, True
        return other

    def _model_name(self, node, name):
        place = [parameter.name for parameter in self.schedule.nodes[node].parameters].index(name)
        return self.network.by_name[node].parameters[place]

    # Gradients that wait for a synchronous pass

    def keep(self, gradients):
        self.accumulated.update(gradients)

    def kept(self, name):
        """Returns the gradient of earlier passes that was not summed, unless the parameter's gradient was set to None
        since."""
        gradient = self.accumulated.pop(name, None)
        return gradient if self.parameters[name].grad is not None else None

    def note_gradient(self, name, gradient):
        """Notes the gradient that autograd left on a parameter, if an earlier gradient of this parameter still waits to be
        summed."""
        if name in self.accumulated and gradient is not None:
            self.left[name] = gradient, gradient._version

    def discard(self, name, gradient):
        """Forgets the waiting gradient of a parameter when the program writes zeros into the parameter's gradient."""
        own = self.parameters[name].grad if name in self.accumulated else None
        if own is not None and (own is gradient or own.data_ptr() == gradient.data_ptr()):
            del self.accumulated[name]

    def _refuse_written(self):
        for name in self.accumulated:
            gradient, version = self.left.get(name, (None, None))
            now = self.parameters[name].grad
            if now is not None and gradient is not None and (now is not gradient or now._version != version):
                raise NotSupported(f"the gradient of {name} was written to after a pass in no_sync, which the next pass outside of it "
                                   "sums: gradients are changed after that pass, or discarded by zero_grad()")

    # Properties of a pass

    def groups_of(self, statistics):
        return () if self.is_local and statistics.kind == "batch_normalization" else statistics.groups

    def returning(self):
        """Returns the nodes whose output needs a gradient, because a parameter before it is trained."""
        found = set()
        for node in self.network.nodes:
            if any(source in found for source in node.inputs) or any(self.is_trained[name] for name in node.parameters):
                found.add(node.name)
        return found

    def plan(self, batch):
        trained = {name: parameter.requires_grad for name, parameter in self.parameters.items()}
        if trained != self.trained:
            self.trained, self.is_trained, self.plans = trained, trained, {}
        if batch not in self.plans:
            self.plans[batch] = Plan(self, self.schedule_for(batch))
        return self.plans[batch]

    def read_model(self, model):
        self.modules = dict(model.named_modules(remove_duplicate=False))
        hooked = [name or type(model).__name__ for name, module in self.modules.items() if module is not model and (
            module._forward_hooks or set(module._forward_pre_hooks.values()) - {refuse_call} or module._backward_hooks or
            module._backward_pre_hooks)]
        if hooked:
            raise NotSupported(f"hooks of {', '.join(hooked)}: modules are not called by themselves here")
        if self.applied is not None and (change := self.applied.change(model, self.modules)):
            raise NotSupported(change)
        self.parameters = {name: self.tensor_of(name) for name in self.network.parameters}
        self._refuse_written()
        self.model = model
        self.device = next(iter(self.parameters.values())).device

    def tensor_of(self, name):
        """Returns the model's parameter or buffer of this name; None if there is no name."""
        path, _, last = (name or "").rpartition(".")
        return name and getattr(self.modules[path], last)

    def types(self, like):
        """Returns the type of each node's output under the present autocast."""
        state = (like, autocast_of(self.device))
        if state not in self.types_by_state:
            if state[1] is None and {p.dtype for p in self.parameters.values()} <= {like}:
                self.types_by_state[state] = dict.fromkeys(self.places, like)
            else:
                self.types_by_state[state] = self._computed_types(like)
        return self.types_by_state[state]

    def _computed_types(self, like):
        types, values = {}, {}
        with FakeTensorMode(), torch.no_grad():
            device = self.device if self.device.type != "meta" else torch.device("cpu")
            for node in self.network.nodes:
                box = b.whole(node.shape, 2)
                if not node.inputs:
                    values[node.name] = torch.empty(shape_of(box, b.axes_of(len(node.shape) - 1)), dtype=like, device=device)
                else:
                    parameters = [
                        torch.empty(self.network.parameters[name].shape, dtype=self.parameters[name].dtype, device=device)
                        for name in node.parameters
                    ]
                    if node.op == "batch_normalization":
                        values[node.name] = torch.empty_like(values[node.inputs[0]])
                    else:
                        shapes = [self.network.by_name[source].shape for source in node.inputs]
                        call = Call(node, box, [values[source] for source in node.inputs],
                                    [b.whole(shape, 2) for shape in shapes], shapes, parameters, 2, True)
                        values[node.name] = compute(call)
                types[node.name] = values[node.name].dtype
        return types

    @contextlib.contextmanager
    def no_sync(self):
        before, self.is_synchronous = self.is_synchronous, False
        try:
            yield
        finally:
            self.is_synchronous = before

    # A pass

    def forward(self, model, images, labels):
        plan = self.plan(self._agreed_batch(model, images, labels))
        if self.is_new_copy:  # numbered at its first pass, which all ranks run, since one rank may have made more copies
            self.seed, self.is_new_copy = seed_of(self.seed, next(self.copies)), False
        self._agree_on_data(plan, images, labels)
        if labels is not None and not labels.is_meta and (self.agreement is not None or self.schedule.passes):
            self._agree_on_losses(plan, images, labels)
        self.ledger.begin()
        self.last_plan = plan
        run = Run(self, plan, images)
        run.forward(None if labels is None else self._own_rows(plan, labels).to(self.device))
        return run.outputs() if labels is None else run.total()

    def whole_labels(self, labels):
        """Returns the labels of the batch of the last pass, whole, on every rank."""
        refusal = facts = None
        try:
            if self.last_plan is None:
                raise NotSupported("whole_labels(labels) before a pass: model(images) comes first, and these are its labels")
            if not isinstance(labels, torch.Tensor) or labels.ndim == 0:
                raise NotSupported(f"labels of type {type(labels).__name__} on rank {self.rank}: one tensor with a label for each image is "
                                   "expected")
            rows, batch = self.last_plan.rows, self.last_plan.schedule.batch
            if rows is not None and len(labels) not in (rows[1] - rows[0], batch):
                raise NotSupported(f"{len(labels)} labels on rank {self.rank}: {rows[1] - rows[0]} are expected, which are {rows[0]} to "
                                   f"{rows[1]} of the last pass's batch of {batch}, or all of these")
            facts = {"labels": f"{labels.dtype} of shape {tuple(labels.shape[1:])} for each image",
                     "the batch that the sampler gave last": self.sampled, "images of the last pass": batch}
        except Exception as error:  # the other ranks must hear of any error
            refusal = error
        if self.agreement is not None:
            self.agreement.bring("model.whole_labels(labels)", 1, facts=facts, refusal=refusal)
        elif refusal is not None:
            raise refusal
        own = self._own_rows(self.last_plan, labels).detach().to(self.device)
        return self.last_plan.whole_labels.bring(self.transport, own, self.rank, "outputs")

    def pass_plan(self, plan, number):
        """Returns the Plan of one pass."""
        if number not in plan.passes:
            plan.passes[number] = Plan(self, schedule_of(plan.schedule, plan.schedule.passes.images[number]))
        return plan.passes[number]

    def _agreed_batch(self, model, images, labels):
        """Returns the number of images of the batch: if a sampler gives batches of two sizes, the size that the rows of
        all ranks allow; if they allow both, the smaller one where no sampler has given this batch and all ranks have the same
        images and labels. If tensors do not fit on one rank, all ranks refuse them."""
        sizes, fits, facts, told, refusal = sorted(self.sizes), 0, {}, "", None
        has_sampled, self.has_sampled = self.has_sampled, False
        try:
            self.read_model(model)
            if labels is not None and self.transport.world > 1 and torch.is_grad_enabled():
                for what, tensor in (("images", images), ("labels", labels)):
                    if getattr(tensor, "requires_grad", False):
                        raise NotSupported(f"{what} that require gradients, of which each rank would have its own part: "
                                           f"{what}.detach() is expected, and layers before the model belong into it")
            if labels is not None and self.losses is None:
                raise NotSupported("labels, and no loss: parallel.apply(model, plan, loss=...) is told one")
            self._check_types(images, labels)
            misfits = [self._misfit(size, images, labels) for size in sizes]
            if None not in misfits:
                raise NotSupported("; or ".join(misfits))
            fits = sum(1 << place for place, misfit in enumerate(misfits) if misfit is None)
            facts, told = {} if self.agreement is None else self._facts(labels), f"{len(images)} images"
        except Exception as error:  # the other ranks must hear of any error
            refusal = error
        if self.agreement is not None:
            fits = self.agreement.bring("the batch of model(...)", fits, told, facts, refusal)
            if self.is_comparing():
                self.agreement.compare("values that ranks share", self._values())
            self.agreed, self.options = self.agreed + 1, {}
            if fits & (fits - 1):  # a whole batch, which all ranks have, or each rank's rows of a larger batch
                has_rows = self.rows(sizes[-1]) is not None and not has_sampled
                digests = [digest(tensor) if has_rows else None for tensor in (images, labels) if tensor is not None]
                is_whole = all(self.agreement.are_equal("whole batches", [*digests, self.rank + 1 if has_sampled else 0]))
                fits = fits & -fits if is_whole else fits
        elif refusal is not None:
            raise refusal
        return sizes[fits.bit_length() - 1]

    def _agree_on_data(self, plan, images, labels):
        """Refuses images that several ranks load, and their labels, unless they are the same on each."""
        told = [(what, tensor, shared) for what, tensor in (("images", images), ("labels of images", labels)) if tensor is not None
                for shared in plan.shared] if self.agreement is not None else []
        digests = [digest(self._own_rows(plan, tensor)[begin - plan.rows[0]:end - plan.rows[0]])
                   if self.rank in plan.shared[begin, end] else None for _, tensor, (begin, end) in told]
        for (what, _, (begin, end)), is_equal in zip(told, self.agreement.are_equal("shared images", digests) if told else ()):
            if not is_equal:
                raise NotSupported(
                    f"{what} {begin} to {end} of the batch differ between the ranks {plan.shared[begin, end]}, which all load them: "
                    "the same are expected (random augmentation is seeded by the image's number and the epoch on each rank)")

    def _agree_on_losses(self, plan, images, labels):
        """Has functions of the program compute the loss of a reference, whose labels are some of this batch's, the first time that
        labels are of this type and shape. Refuses functions that differ between ranks, and gives Mean the reference."""
        functions = [(output, loss) for output, (loss, _) in zip(self.network.outputs, self.losses) if isinstance(loss, (Mean, Sum))]
        if not functions or kind_of(labels) in self.referenced or not math.prod(labels.shape[1:]):
            return
        given, source = torch.empty((8 if labels.ndim == 1 else 2, *labels.shape[1:]), dtype=labels.dtype), min(plan.input.boxes)
        if self.rank == source:
            own = self._own_rows(plan, labels).detach()
            given.copy_(own[torch.arange(len(given), device=own.device) % len(own)])
        if self.agreement is not None:
            self.agreement.give("labels of a reference", given, source)
        given, numbers, references = given.to(self.device), [], []
        for output, loss in functions:
            node, like = self.network.by_name[output.node], torch.promote_types(self.floating(images), torch.float32)
            x = torch.rand((len(given), *(node.shape[:output.dims - 1] if output.dims < 3 else node.shape)),
                           generator=torch.Generator().manual_seed(0), dtype=like).to(self.device)
            numbers.append(reference_numbers(loss, x, given))
            references.append((x, given))
        told = [torch.tensor(numbers, dtype=torch.float64)]
        if self.agreement is not None:
            told = self.agreement.gather("losses", told[0])
        for rank, other in enumerate(told):
            for place, at in ((told[0] - other).abs() > 1e-4 * told[0].abs() + 1e-6).nonzero().tolist():  # false for NaN
                raise NotSupported(
                    f"ranks differ in the loss of {functions[place][0].node}: {told[0][place, at]:.6g} on rank 0, "
                    f"{other[place, at]:.6g} on rank {rank}, for the same outputs and labels; the same function is expected")
        for (_, loss), reference, (number, _) in zip(functions, references, numbers):
            if isinstance(loss, Mean) and math.isfinite(number):
                loss.references[kind_of(labels)] = reference
        self.referenced.add(kind_of(labels))

    def _facts(self, labels):
        """Returns the facts that decide which messages a pass has, and their types."""
        return {"sizes of batches": sorted(self.sizes), "the batch that the sampler gave last": self.sampled,
                "labels": None if labels is None else f"{labels.dtype} of shape {tuple(labels.shape[1:])} for each image",
                "no_sync": not self.is_synchronous, "recorded gradients": torch.is_grad_enabled(),
                "autocast": str(autocast_of(self.device)),
                "types of parameters": sorted({str(one.dtype) for one in self.parameters.values()}),
                "parameters that are not trained": [name for name, one in self.parameters.items() if not one.requires_grad],
                "modules in evaluation": [name for name, module in self.modules.items() if not module.training],
                **(self._settings() if self.is_comparing() else {})}

    def is_comparing(self):
        """Returns whether ranks compare the values that they share at the next pass: at the passes 1, 2, 4, 8, ... and each 256th."""
        number = self.agreed + 1
        return self.agreement is not None and (number & (number - 1) == 0 or number % 256 == 0)

    def note_options(self, optimizer):
        """Notes the options with which an optimizer steps, for the next pass."""
        for place, group in enumerate(optimizer.param_groups) if self.is_comparing() else ():
            for key, value in group.items():
                value = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
                if key not in ("params", "param_names") and isinstance(value, (bool, int, float, str, tuple, type(None))):
                    self.options.setdefault(f"{key} of group {place} of {type(optimizer).__name__}", []).append(repr(value))

    def _settings(self):
        momenta = {f"{name}.momentum": module.momentum for name, module in self.modules.items() if isinstance(module, _BatchNorm)}
        return momenta | {what: ", ".join(values) for what, values in self.options.items()}

    def _values(self):
        """Returns a digest of each part of a parameter or of running statistics that several ranks have: the sum of its bits as whole
        numbers, or None on other ranks."""
        kinds, own = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}, {}
        for what, (name, is_own) in self.shared.items():
            one = self.tensor_of(name).detach() if is_own else None
            is_summed = is_own and one.itemsize in kinds
            own[what] = one.contiguous().view(kinds[one.itemsize]).sum() if is_summed else None
        sums = [one for one in own.values() if one is not None]
        numbers = iter(torch.stack(sums).tolist() if sums else ())
        return {what: None if one is None else next(numbers) for what, one in own.items()}

    @functools.cached_property
    def shared(self):
        """The parts that several ranks have: {what: (name, whether this rank has it)}."""
        parts = {}
        for node in self.network.nodes:
            scheduled = self.schedule.nodes[node.name]
            held = {name: one.parts for name, one in zip(node.parameters, scheduled.parameters)}
            if not self.is_local:
                held |= {name: {rank: (box[b.C],) for rank, box in scheduled.boxes.items()}
                         for name in node.call.get("statistics", ()) if name}
            for name, ranges in held.items():
                for rank, one in ranges.items():
                    parts.setdefault(name, {}).setdefault(one, set()).add(rank)
        return {f"the values of {name}{f' {list(one)}' if len(found) > 1 else ''}": (name, self.rank in ranks)
                for name, found in parts.items() for one, ranks in found.items() if len(ranks) > 1}

    def schedule_for(self, batch):
        if batch not in self.schedules:
            self.schedules[batch] = self.schedule.with_batch(batch)
        return self.schedules[batch]

    def rows(self, batch):
        """Returns the images of a batch of this size that this rank reads: (begin, end), or None. For samplers, which
        may run in another thread."""
        box = self.schedule_for(batch).nodes[self.network.nodes[0].name].boxes.get(self.rank)
        return box and box[b.N]

    def _misfit(self, batch, images, labels):
        """Returns why this rank's images and labels cannot belong to a batch of `batch` images, or None."""
        rows, shape = self.rows(batch), self.network.nodes[0].shape
        if rows is None:
            return None
        begin, end = rows
        for what, tensor in (("images", images), ("labels", labels)):
            if tensor is not None and len(tensor) not in (end - begin, batch):
                return (f"{len(tensor)} {what} on rank {self.rank}: {end - begin} are expected, which are {begin} to {end} of "
                        f"a batch of {batch}, or all of these")
        expected = shape if images.ndim > 2 else shape[:1]
        if tuple(images.shape[1:]) != tuple(expected):
            return f"images of shape {tuple(images.shape[1:])} on rank {self.rank}: {tuple(expected)} is expected"
        if labels is not None and not labels.is_meta and (self.transport.world > 1 or self.schedule.passes):
            for output, (loss, _) in zip(self.network.outputs, self.losses):
                node = self.schedule.nodes[output.node]
                is_divided = any(box[b.C] != (0, node.shape[0]) for box in node.boxes.values())
                if why := misfit(loss, node.shape[:output.dims - 1] if output.dims < 3 else node.shape, labels, is_divided):
                    return f"{why[0]} on rank {self.rank}, for the output {output.node}: {why[1]}"
        return None

    def _check_types(self, images, labels):
        """Refuses what is no tensor, and images that give messages of other types than the parameters' type does."""
        for what, one in (("images", images), ("labels", labels)):
            if not isinstance(one, torch.Tensor) and (what == "images" or one is not None):
                raise NotSupported(f"{what} of type {type(one).__name__} on rank {self.rank}: one tensor is expected"
                                   f"{', for all outputs' if what == 'labels' else ''}")
        types, own, like = {one.dtype for one in self.parameters.values()}, images.dtype, self.floating(images)
        if own == like or all(self.rows(size) is None for size in self.sizes):
            return
        right = ' or '.join(sorted(map(str, types)))
        if images.is_floating_point() and own not in types and autocast_of(self.device) is None:
            raise NotSupported(f"images of {own} on rank {self.rank}: {right} is expected")
        data = self.network.nodes[0].name
        try:
            if self.types(own) | {data: like} == self.types(like) | {data: like}:
                return
            why = f"layers then compute in other types than from {like}"
        except Exception as error:
            why = str(error).splitlines()[0]
        raise NotSupported(f"images of {own} on rank {self.rank}: {right} is expected ({why})")

    def floating(self, images):
        return next((p.dtype for p in self.parameters.values() if p.dtype.is_floating_point), images.dtype)

    def _own_rows(self, plan, tensor):
        """Returns this rank's rows of images or labels, which are given alone or in the whole batch."""
        if plan.rows is None or len(tensor) == plan.rows[1] - plan.rows[0]:
            return tensor
        return tensor[slice(*plan.rows)]

    def close(self):
        self.worker.close()
        self.transport.close()
        self.summing.close()
        if self.agreement is not None:
            self.agreement.close()


def refuse_call(module, arguments):
    """A hook of the modules within a model that runs by a plan."""
    raise NotSupported(f"a call of the {type(module).__name__} alone of a model that runs by a plan: modules have parts of parameters, so "
                       "the whole model is called")


def autocast_of(device):
    """Returns the type of the present autocast, or None."""
    kind = "cpu" if device.type == "meta" else device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


class Run:
    """One forward pass."""

    def __init__(self, executor, plan, images):
        self.executor, self.plan, self.schedule = executor, plan, plan.schedule
        self.rank, self.model, self.ledger = executor.rank, executor.model, executor.ledger
        self.is_recording = torch.is_grad_enabled()
        self.training = self.model.training
        self.types = executor.types(executor.floating(images))
        self.token = torch.zeros((), device=executor.device, requires_grad=self.is_recording)
        values = dict(executor.parameters)
        is_apart = self.is_recording and executor.transport.world > 1
        if trained := [name for name, one in values.items() if is_apart and one.requires_grad]:
            self.token, *leaves = Leaves.apply(self.token, *[values[name] for name in trained])
            values.update(zip(trained, leaves))
        self.parameters = Pass(executor, self.is_recording, values)
        self.values, self.arrived, self.flights = {}, {}, {}
        self.images = self.numbers = self.in_passes = None
        self.load(images)
        if self.training or any(node.op == "dropout" and self.module_of(node).training for node in executor.network.nodes):
            executor.step += 1

    def for_pass(self, plan, images, parameters):
        """Returns a Run of a part of the network over these images."""
        other = copy.copy(self)
        other.plan, other.schedule, other.images = plan, plan.schedule, images
        other.values, other.arrived, other.flights = {}, {}, {}
        other.ledger = PassLedger(self.executor.ledger)
        other.token = other.root = torch.zeros((), device=self.executor.device, requires_grad=self.is_recording)
        other.parameters = Pass(self.executor, False, self.executor.parameters | parameters)
        return other

    def load(self, images):
        data, plan = self.plan.input, self.plan
        if plan.rows is None:
            return
        images, shape = self.executor._own_rows(plan, images).to(self.executor.device), data.shape
        if images.ndim == 2:
            images = images.reshape(*images.shape, *[1] * (len(shape) - 1))
        box = data.boxes[self.rank]
        base = (plan.rows, *b.whole(shape, 1)[1:])
        self.values[data.name] = (cut(images, box, base, b.axes_of(len(shape) - 1)), box)

    def forward(self, labels):
        """`labels` belong to the images that this rank has loaded. None: forward returns the outputs."""
        executor, has_passes = self.executor, any(step[0] == "backward" for step in self.schedule.order)
        running = frozenset(node.name for node in executor.network.nodes if node.op == "batch_normalization" and
                            not self.module_of(node).training and node.call.get("statistics", (None,))[0])
        self.kind = PassKind(self.plan, self.is_recording, executor.is_synchronous, None if labels is None else labels[:1].numel(),
                             running)
        executor.passes_run[self.kind, False] += 1
        if labels is not None:
            self.labels = {output.node: self.plan.labels[output.node].bring(executor.transport, labels, self.rank)
                           for output in executor.network.outputs}
        if has_passes and torch.float16 in self.types.values() and self.is_recording and executor.pass_scale == 1.0:
            raise NotSupported(
                "fp16 in passes, whose backward pass begins before the loss is scaled: model.step(images, labels, "
                "optimizer, scaler)")
        for place, (kind, what, *number) in enumerate(self.schedule.order):
            run = self
            if number or kind == "backward":
                self.in_passes = self.in_passes or PassesRun(self, None if labels is None else self.labels)
                run = self.in_passes.of(number[0] if number else what)
            if kind == "forward":
                run.compute(what)
            elif kind == "exchange":
                run.post(what)
            elif kind == "wait":
                run.wait(what)
            elif kind == "backward":
                self.in_passes.backward(what)
            for name in self.plan.finished.get(place, ()):
                self.values.pop(name, None)

    def post(self, what):
        move = self.plan.moves.get(what)
        if move is None:
            return
        node = self.schedule.exchanges[what].node
        x = self.values[node][0] if move.held else None
        state = {}
        self.token = Post.apply(self.token, x if move.returns or x is None else x.detach(), move, state, self.types[node],
                                self.executor.device)
        self.flights[what] = state
        if self.schedule.exchanges[what].input is not None and move.needed is not None:
            self.ledger.count("copies", state["flight"].received, self.types[node].itemsize)

    def wait(self, what):
        exchange, move = self.schedule.exchanges[what], self.plan.moves.get(what)
        if move is None:
            if exchange.input is None:
                self.keep_sum(exchange.node)
            return
        state, ledger, like = self.flights.pop(what), self.ledger, self.types[exchange.node]
        received = state["flight"].received
        self.token, y = Wait.apply(self.token, move, state, like, self.executor.device)
        if exchange.input is None:
            if move.needed is not None:
                ledger.add("outputs", y)
                self.values[exchange.node] = (y, move.needed)
            self.keep_sum(exchange.node)
        elif move.needed is not None:
            ledger.count("assembled", y.numel() if received else 0, like.itemsize)
            self.arrived[exchange.consumer, exchange.input] = (y, move.needed)

    def keep_sum(self, name):
        """Adds the bias of a reduction once, to the part of the sum that this rank keeps; a rank that keeps none forgets its
        partial sum."""
        node, scheduled = self.executor.network.by_name[name], self.schedule.nodes[name]
        box = scheduled.boxes.get(self.rank)
        if box is None:
            self.values.pop(name, None)
            return
        x = self.values[name][0]
        if len(node.parameters) > 1:
            self.token, (bias,) = self.parameters.use(self.token, node.parameters[1:])
            x = x + bias.to(x.dtype).reshape(1, -1, *[1] * (x.ndim - 2))
        self.values[name] = (x, box)

    def module_of(self, node):
        return self.executor.modules[node.module] if not self.executor.network.is_built else self.model

    def compute(self, name):
        executor, scheduled = self.executor, self.schedule.nodes[name]
        box = scheduled.partial.get(self.rank) if scheduled.partial else scheduled.boxes.get(self.rank)
        node = executor.network.by_name[name]
        module = self.module_of(node)
        if node.op == "batch_normalization" and module.training and getattr(module, "num_batches_tracked", None) is not None:
            module.num_batches_tracked.add_(1)  # also if other ranks compute it
        # A rank that has no image of a smaller batch also takes part in sums and statistics, because all ranks must make these
        # in the same order.
        self.token, parameters = self.parameters.use(self.token, node.parameters)
        if box is None:
            if node.op == "batch_normalization" and name in self.plan.meetings:
                box = ((0, 0), *executor.schedule.nodes[name].boxes[self.rank][1:])
                x = torch.empty(shape_of(box, b.axes_of(len(node.shape) - 1)), dtype=self.types[name], device=executor.device)
                self.normalize(node, scheduled, module, x, box, box, parameters)
            return
        inputs, bases = [], []
        for place, source in enumerate(node.inputs):
            x, base = self.arrived.pop((name, place), None) or self.values.get(source, (None, None))
            inputs.append(x)
            bases.append(base)
        if node.op == "batch_normalization":
            y = self.normalize(node, scheduled, module, inputs[0], bases[0], box, parameters)
        elif name in self.plan.shares:
            y = self.normalize_groups(node, inputs[0], bases[0], box, parameters)
        else:
            shapes = [executor.network.by_name[source].shape for source in node.inputs]
            summed = None
            if scheduled.partial:
                summed = scheduled.needs[0][self.rank][b.C]
            call = Call(node, box, inputs, bases, shapes, parameters, self.schedule.batch, module.training, module=module,
                        seed=executor.seed, step=executor.step, place=executor.places[name], summed=summed,
                        with_bias=not scheduled.partial, images=self.images, may_overwrite=name in self.plan.overwriting,
                        like=(self.types[name], executor.device))
            if name in executor.checkpointed and self.is_recording:
                y = checkpoint(_checkpointed, call, *inputs, use_reentrant=False)
            else:
                y = compute(call)
        if tuple(y.shape) != tuple(shape_of(box, b.axes_of(len(node.shape) - 1))):
            raise NotSupported(f"{name}: {node.op} gave {tuple(y.shape)} for the box {list(box)}")
        is_over = name in self.plan.overwriting and y is inputs[0]
        if scheduled.is_layer:
            self.ledger.add("outputs", y)
            if is_over:  # it was counted for a follower, and now counts for this layer
                self.ledger.count("followers", -y.numel(), y.element_size())
        elif not is_over:
            self.ledger.add("followers", y)
        self.values[name] = (y, box)

    def normalize(self, node, scheduled, module, x, base, box, parameters):
        weight, bias = parameters if parameters else (None, None)
        mean_name, variance_name = node.call.get("statistics", (None, None))
        running = [self.executor.tensor_of(name) for name in (mean_name, variance_name)]
        eps, tracks = node.call.get("eps", 1e-5), running[0] is not None
        x = x if base == box else cut(x, box, base, b.axes_of(x.ndim - 2))
        if not module.training and tracks:
            return F.batch_norm(x, *running, weight, bias, False, 0.0, eps)
        is_of_module = isinstance(module, _BatchNorm) and not node.call.get("has_own_momentum")
        momentum = module.momentum if is_of_module else node.call.get("momentum", 0.1)
        if tracks and momentum is None and module.num_batches_tracked is not None:
            momentum = 1.0 / float(module.num_batches_tracked)
        meeting = self.plan.meetings.get(node.name)
        if meeting is None or len(meeting.devices) < 2:
            return F.batch_norm(x, *(running if tracks else (None, None)), weight, bias, True, momentum or 0.0, eps)
        counts = counts_of(meeting.devices, scheduled.boxes)
        self.token, y, mean, variance = Normalized.apply(self.token, x, weight, bias, meeting, counts, eps,
                                                           node.name in self.plan.returning)
        if tracks and momentum is not None:
            with torch.no_grad():
                count = sum(counts)
                running[0].lerp_(mean.to(running[0].dtype), momentum)
                running[1].lerp_((variance * (count / max(count - 1, 1))).to(running[1].dtype), momentum)
        return y

    def normalize_groups(self, node, x, base, box, parameters):
        x = x if base == box else cut(x, box, base, b.axes_of(x.ndim - 2))
        self.token, y = GroupNormalized.apply(self.token, x, *(parameters or (None, None)), self.plan.meetings[node.name],
                                              self.plan.shares[node.name], node.call["eps"], self.types[node.name],
                                              node.name in self.plan.returning)
        return y

    # Outputs

    def output(self, output):
        x, box = self.values[output.node]
        return output.of(x), box

    def outputs(self):
        """Returns all outputs, whole, on every rank. No gradient flows through them: a backward pass is refused."""
        executor, found = self.executor, []
        root = torch.zeros((), device=executor.device, requires_grad=self.is_recording)
        for output in executor.network.outputs:
            scheduled = self.schedule.nodes[output.node]
            axes = b.axes_of(len(scheduled.shape) - 1)
            whole = b.whole(scheduled.shape, self.schedule.batch)
            needed = {device: whole for device in range(self.schedule.devices)}
            move = Move(f"output {output.node}", executor.transport, scheduled.boxes, needed, axes, returns=False)
            like = self.types[output.node]
            if self.in_passes and move.held:
                self.gather_passes(output.node, move.held)
            x = self.values[output.node][0].detach() if move.held else None
            flight = executor.transport.post(move.name, "outputs", {
                peer: cut(x, box, move.held, axes) for peer, box in move.sends.items()}, {
                peer: (shape_of(box, axes), like) for peer, box in move.receives.items()}, executor.device)
            y = move.collected(flight, x, move.held, whole, move.receives, False, like, executor.device)
            y = output.of(y)
            found.append(WithoutGradient.apply(root, y) if output.node in self.plan.returning else y)
        structure = executor.network.structure
        if not self.training and executor.network.evaluated is not None:
            places, structure = executor.network.evaluated
            found = [found[place] for place in places]
        return found[0] if structure is None else pytree.tree_unflatten(found, structure)

    def total(self):
        """Returns the loss of the whole batch, the same on every rank."""
        executor, total = self.executor, None
        passed = self.in_passes.end() if self.in_passes else None
        for place, (output, (loss, weight)) in enumerate(zip(executor.network.outputs, executor.losses)):
            if self.in_passes:
                # `passed` is the loss of all outputs together, so it counts once.
                number = passed if place == 0 else torch.zeros((), device=executor.device)
            else:
                number = self.agreed_loss(output, loss) * weight
            like = torch.float64 if self.types[output.node] == torch.float64 else torch.float32
            backwards = (executor.passes_run, (self.kind, True)) if place == 0 else None
            self.token, one = Total.apply(self.token, number.to(like), self.plan.loss[output.node], backwards)
            total = one if total is None else total + one
        return total + 0 * self.token.to(total.dtype)

    def gather_passes(self, name, box):
        """Puts this rank's part of an output together from the parts of all passes."""
        for images, (x, _) in self.in_passes.outputs[name]:
            if name not in self.values:
                self.values[name] = (x.new_empty((box[b.N][1] - box[b.N][0], *x.shape[1:])), box)
            self.values[name][0][[image - box[b.N][0] for image in images]] = x.detach()

    def agreed_loss(self, output, loss):
        """Returns this rank's part of a loss. A function of the program may fail on some ranks only, or only some may notice that
        it is no mean; all ranks then refuse it."""
        executor, number, refusal = self.executor, torch.zeros((), device=self.executor.device), None
        try:
            if output.node in self.values:
                number = self.own_loss(output, loss, self.labels[output.node])
        except Exception as error:
            refusal = error
        if executor.agreement is not None and isinstance(loss, (Mean, Sum)):
            images = {box[b.N] for box in self.schedule.nodes[output.node].boxes.values()}
            if max(end - begin for begin, end in images) > 1:
                executor.compared.add(output.node)
            elif len(images) > 1 and not isinstance(loss, Sum) and not loss.is_vouched and output.node not in executor.compared:
                refusal = refusal or NotSupported(
                    f"the loss of {output.node}: every rank has one image, so nobody can see whether this function is a mean "
                    "over images; F.cross_entropy, F.binary_cross_entropy_with_logits, F.mse_loss and their like have rules")
            executor.agreement.bring(f"the loss of {output.node}", 1, refusal=refusal)
        elif refusal is not None:
            raise refusal
        return number

    def own_loss(self, output, loss, labels):
        x, box = self.output(output)
        scheduled, batch = self.schedule.nodes[output.node], self.schedule.batch
        if box[b.C] == (0, scheduled.shape[0]):
            before = {one.grad_fn for one in (x, x._base) if one is not None}  # a function may write into the outputs
            number = FUNCTIONS.get(loss, loss)(x, labels)
            if isinstance(loss, (Mean, Sum)) and self.executor.transport.world > 1:
                refuse_parameters(loss.loss, number, before, self.executor.parameters)
            return number if isinstance(loss, Sum) else number * (len(x) / batch)
        begin, end = box[b.C]
        if loss == "logistic":
            own = F.binary_cross_entropy_with_logits(x, labels[:, begin:end], reduction="sum")
            return own / (batch * scheduled.shape[0])
        self.token, number = SplitCrossEntropy.apply(self.token, x, labels, begin,
                                                          self.plan.classifiers[output.node], 1 / batch)
        return number


class WithoutGradient(torch.autograd.Function):
    """Gives outputs that require gradients, as those of the undivided model do, and refuses the backward pass."""

    @staticmethod
    def forward(ctx, root, x):
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        raise NotSupported("a backward pass through model(images), whose outputs have no gradient: model(images, labels) is the loss of "
                           "the batch, by the function that parallel.apply(..., loss=...) was given")


class Leaves(torch.autograd.Function):
    """Stands between the trained parameters and all of their uses. Its backward pass comes after all messages of a pass, and
    gives every rank the gradients of all parameters at once and in one order, empty ones for parameters of other ranks. So
    hooks of parameters, and torch.autograd.grad of some of them, make the same calls on all ranks."""

    @staticmethod
    def forward(ctx, token, *parameters):
        ctx.likes = [(parameter.shape, parameter.dtype, parameter.device) for parameter in parameters]
        ctx.set_materialize_grads(False)
        return token.clone(), *[parameter.view_as(parameter) for parameter in parameters]

    @staticmethod
    @once_differentiable
    def backward(ctx, token, *gradients):
        return token, *[torch.zeros(shape, dtype=dtype, device=device) if gradient is None and not shape.numel() else gradient
                        for gradient, (shape, dtype, device) in zip(gradients, ctx.likes)]


def _checkpointed(call, *inputs):
    again = copy.copy(call)
    again.inputs = list(inputs)
    return compute(again)
