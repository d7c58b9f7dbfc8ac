"""One forward pass of a rank. The steps of the schedule compute the network on boxes; torch's autograd engine runs the
backward pass."""
import copy

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from . import boxes as b
from .errors import NotSupported
from .ledger import PassKind, PassLedger
from .losses import FUNCTIONS, Mean, SplitCrossEntropy, Sum, Total, refuse_parameters
from .moves import Move, Post, Wait, cut, shape_of
from .norm import GroupNormalized, Normalized, counts_of
from .operators import Call, compute
from .passes import PassesRun
from .sums import Pass


class Run:
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
        """Returns a Run for one pass: the part of the network that runs in passes, over these images."""
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
        images, shape = self.executor.own_rows(plan, images).to(self.executor.device), data.shape
        if images.ndim == 2:
            images = images.reshape(*images.shape, *[1] * (len(shape) - 1))
        box = data.boxes[self.rank]
        base = (plan.rows, *b.whole(shape, 1)[1:])
        self.values[data.name] = (cut(images, box, base, b.axes_of(len(shape) - 1)), box)

    def forward(self, labels):
        """Runs the steps of the schedule. `labels` belong to the images that this rank has loaded. Returns the loss, or
        the outputs if `labels` is None."""
        executor, has_passes = self.executor, any(step[0] == "backward" for step in self.schedule.order)
        running = frozenset(node.name for node in executor.network.nodes if node.op == "batch_normalization" and
                            not self.module_of(node).training and node.call.get("statistics", (None,))[0])
        self.kind = PassKind(self.plan, self.is_recording, executor.is_synchronous, None if labels is None else labels[:1].numel(),
                             running)
        if labels is not None:
            self.labels = {output.node: self.plan.labels[output.node].bring(executor.transport, labels, self.rank)
                           for output in executor.network.outputs}
        if has_passes and torch.float16 in self.types.values() and self.is_recording and executor.pass_scale is None:
            raise NotSupported(
                "fp16 in passes, whose backward pass begins before the loss is scaled: model.step(images, labels, "
                "optimizer, scaler)")
        executor.passes_run[self.kind, False] += 1
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
        """Adds the bias of a reduction to the part of the sum that this rank keeps, so that the bias is added once. A
        rank that keeps no part drops its partial sum."""
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
            module.num_batches_tracked.add_(1)  # also on ranks that compute nothing of this node
        # A smaller batch may leave this rank without images. It still takes part in sums and statistics, because all
        # ranks make these calls in the same order.
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
            if is_over:  # a follower has computed this output already; move it from the follower's count to this layer's
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

    # ---- Outputs and losses

    def output(self, output):
        x, box = self.values[output.node]
        return output.of(x), box

    def outputs(self):
        """Returns all whole outputs on every rank. Gradients do not flow through them: a backward pass is refused."""
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
                # `passed` is the loss of all outputs together, so it is counted for the first output only.
                number = passed if place == 0 else torch.zeros((), device=executor.device)
            else:
                number = self.agreed_loss(output, loss) * weight
            like = torch.float64 if self.types[output.node] == torch.float64 else torch.float32
            backwards = (executor.passes_run, (self.kind, True)) if place == 0 else None
            self.token, one = Total.apply(self.token, number.to(like), self.plan.loss[output.node], backwards)
            total = one if total is None else total + one
        return total + 0 * self.token.to(total.dtype)

    def gather_passes(self, name, box):
        """Assembles this rank's part of an output from the parts of all passes."""
        for images, (x, _) in self.in_passes.outputs[name]:
            if name not in self.values:
                self.values[name] = (x.new_empty((box[b.N][1] - box[b.N][0], *x.shape[1:])), box)
            self.values[name][0][[image - box[b.N][0] for image in images]] = x.detach()

    def agreed_loss(self, output, loss):
        """Returns this rank's part of a loss. If the program's function fails on one rank, or turns out there to be no
        mean over images, all ranks refuse it."""
        executor, number, refusal = self.executor, torch.zeros((), device=self.executor.device), None
        try:
            if output.node in self.values:
                number = self.own_loss(output, loss, self.labels[output.node])
        except Exception as error:
            refusal = error
        if isinstance(loss, (Mean, Sum)):
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
            # grad_fn before the call, because the function may write into the outputs
            before = {one.grad_fn for one in (x, x._base) if one is not None}
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
    """Returns outputs that require gradients, as the undivided model's do, and refuses their backward pass."""

    @staticmethod
    def forward(ctx, root, x):
        return x.detach()

    @staticmethod
    def backward(ctx, gradient):
        raise NotSupported("a backward pass through model(images), whose outputs have no gradient: model(images, labels) is the loss of "
                           "the batch, by the function that parallel.apply(..., loss=...) was given")


class Leaves(torch.autograd.Function):
    """Stands between the trained parameters and their uses. Its backward runs after all messages of a pass and gives
    every rank the gradients of all parameters together, in the same order; gradients of other ranks' parameters are
    empty. So hooks of parameters, and torch.autograd.grad of some parameters, make the same calls on all ranks."""

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
