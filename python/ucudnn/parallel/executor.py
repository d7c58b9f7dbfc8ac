"""Runs one rank's part of a schedule."""
import collections
import contextlib
import copy
import itertools

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import batches
from . import boxes as b
from .agreement import Alone
from .dropout import seed_of
from .errors import NotSupported
from .ledger import Ledger
from .losses import Mean, Sum, named
from .moves import shape_of
from .operators import Call, compute
from .passes import schedule_of
from .plan import Plan
from .run import Run
from .shared_values import SharedValues
from .sums import Summed, Worker


class Executor:
    """The executor of one rank. It decides only by facts that all ranks have agreed on. It reads modules, parameters,
    buffers and `training` from the model anew at each call. `losses` has a pair (function, weight) for each output, or
    is None."""

    def __init__(self, network, schedule, transport, summing, losses, device, seed=0, is_beside=True, checkpointed=(),
                 agreement=Alone(), is_local=False):
        self.network, self.schedule, self.transport, self.summing = network, schedule, transport, summing
        self.rank, self.device, self.seed, self.step = transport.rank, device, seed, 0
        self.worker, self.is_synchronous, self.checkpointed = Worker(is_beside), True, frozenset(checkpointed)
        self.losses = losses and [(named(loss) or (loss if isinstance(loss, Sum) else Mean(loss)), weight)
                                  for loss, weight in losses]
        self.places = {node.name: place for place, node in enumerate(network.nodes)}
        self.parameters, self.accumulated, self.left = {}, {}, {}
        self.plans, self.types_by_state, self.trained, self.last_plan = {}, {}, None, None
        # sizes: batch sizes that a sampler gives; sampled: text about the batch that the sampler gave last
        self.sizes, self.sampled = {schedule.batch}, None
        self.has_sampled = False  # whether a sampler has given a batch since the last pass
        # passes since the last report by (PassKind, is_backward), including passes of copies of the model
        self.passes_run = collections.Counter()
        # pass_scale: the scale of a GradScaler while step() runs a plan with passes, otherwise None
        self.between_passes, self.pass_scale = None, None
        self.agreement, self.compared = agreement, set()  # compared: outputs whose losses were checked to be means over images
        # copies: the counter that numbers copies of a divided model
        self.copies, self.is_new_copy = itertools.count(-1, -1), False
        self.referenced = set()  # (type, shape) of labels for which ranks have compared their losses
        self.is_local = is_local  # whether batch normalization uses the statistics of each rank's own box
        self.applied = None  # the model as parallel.apply found it: a model.Applied
        self.shared_values = SharedValues(self)
        self.schedules, self.sums, self.ledger = {schedule.batch: schedule}, [], Ledger()
        for one in schedule.sums:
            if self.rank in one.devices:
                summed = Summed(schedule, one, summing)
                summed.names = tuple(self._model_name(node, name) for node, name in one.parameters)
                self.sums.append(summed)

    def __deepcopy__(self, memo):
        other = copy.copy(self)
        other.parameters, other.accumulated, other.left, other.worker = {}, {}, {}, Worker(self.worker.is_beside)
        other.ledger, other.shared_values, other.is_new_copy = Ledger(), self.shared_values.of(other), True
        return other

    def _model_name(self, node, name):
        place = [parameter.name for parameter in self.schedule.nodes[node].parameters].index(name)
        return self.network.by_name[node].parameters[place]

    # ---- Gradients that wait for the next synchronous pass

    def keep(self, gradients):
        self.accumulated.update(gradients)

    def kept(self, name):
        """Returns the gradient of earlier passes under no_sync that is not summed yet, or None. Also returns None if
        the program has set the parameter's grad to None since."""
        gradient = self.accumulated.pop(name, None)
        return gradient if self.parameters[name].grad is not None else None

    def note_gradient(self, name, gradient):
        """Called when autograd has left `gradient` in the parameter's grad. If an earlier gradient of the parameter
        waits to be summed, remembers `gradient` and its version. _refuse_written later compares the grad with these."""
        if name in self.accumulated and gradient is not None:
            self.left[name] = gradient, gradient._version

    def discard(self, name, gradient):
        """Drops the waiting gradient of a parameter, because the program writes zeros into the parameter's grad."""
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

    # ---- Properties of a pass

    def groups_of(self, statistics):
        return () if self.is_local and statistics.kind == "batch_normalization" else statistics.groups

    def returning(self):
        """Returns the nodes whose output needs a gradient, because a trained parameter contributes to the output."""
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
        """Returns the model's parameter or buffer `name`. If `name` is empty or None, returns `name`."""
        path, _, last = (name or "").rpartition(".")
        return name and getattr(self.modules[path], last)

    def types(self, like):
        """Returns {node: type of its output} for inputs of type `like` under the current autocast."""
        state = (like, self.autocast())
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

    def autocast(self):
        """Returns the current autocast's type, or None if it is off."""
        kind = "cpu" if self.device.type == "meta" else self.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None

    @contextlib.contextmanager
    def no_sync(self):
        before, self.is_synchronous = self.is_synchronous, False
        try:
            yield
        finally:
            self.is_synchronous = before

    # ---- Running a pass

    def forward(self, model, images, labels):
        plan = self.plan(batches.agreed_size(self, model, images, labels))
        # A copy of the model gets its number at its first pass, which all ranks run. It does not get the number when it
        # is made, because one rank may have made more copies than others.
        if self.is_new_copy:
            self.seed, self.is_new_copy = seed_of(self.seed, next(self.copies)), False
        batches.agree_on_data(self, plan, images, labels)
        if labels is not None and not labels.is_meta and (self.transport.world > 1 or self.schedule.passes):
            batches.agree_on_losses(self, plan, labels, torch.promote_types(self.floating(images), torch.float32))
        self.ledger.begin()
        self.last_plan = plan
        run = Run(self, plan, images)
        run.forward(None if labels is None else self.own_rows(plan, labels).to(self.device))
        return run.outputs() if labels is None else run.total()

    def whole_labels(self, labels):
        """Returns the labels of the last pass's whole batch, on every rank. All ranks call it."""
        refusal = facts = None
        try:
            facts = batches.facts_of_labels(self, labels)
        except Exception as error:  # the other ranks must hear of any error
            refusal = error
        self.agreement.bring("model.whole_labels(labels)", 1, facts=facts, refusal=refusal)
        own = self.own_rows(self.last_plan, labels).detach().to(self.device)
        return self.last_plan.whole_labels.bring(self.transport, own, self.rank, "outputs")

    def pass_plan(self, plan, number):
        """Returns the Plan of pass `number` of a schedule with passes."""
        if number not in plan.passes:
            plan.passes[number] = Plan(self, schedule_of(plan.schedule, plan.schedule.passes.images[number]))
        return plan.passes[number]

    def schedule_for(self, batch):
        if batch not in self.schedules:
            self.schedules[batch] = self.schedule.with_batch(batch)
        return self.schedules[batch]

    def rows(self, batch):
        """Returns (begin, end): the images that this rank reads of a batch of this size; None if it reads none.
        Samplers call this function, possibly in another thread."""
        box = self.schedule_for(batch).nodes[self.network.nodes[0].name].boxes.get(self.rank)
        return box and box[b.N]

    def floating(self, images):
        return next((p.dtype for p in self.parameters.values() if p.dtype.is_floating_point), images.dtype)

    def own_rows(self, plan, tensor):
        """Returns this rank's rows of images or labels. `tensor` has either these rows or the whole batch."""
        if plan.rows is None or len(tensor) == plan.rows[1] - plan.rows[0]:
            return tensor
        return tensor[slice(*plan.rows)]

    def close(self):
        self.worker.close()
        self.transport.close()
        self.summing.close()
        self.agreement.close()


def refuse_call(module, arguments):
    """Forward pre-hook of the modules within a divided model: raises NotSupported."""
    raise NotSupported(f"a call of the {type(module).__name__} alone of a model that runs by a plan: modules have parts of parameters, so "
                       "the whole model is called")
