"""Makes a model run by a plan: `apply`."""
import argparse
import copy
import functools
import itertools
import socket
import types

import torch
import torch.distributed as dist

from ucudnn.spatial.stripe import recorded

from . import boxes as b
from . import optimizers
from . import schedule as schedules
from .agreement import Agreement, Alone
from .dropout import seed_of
from .errors import NotSupported, RankLost
from .executor import Executor, refuse_call
from .gradients import Part, Parts, mark
from .losses import of_outputs
from .network import LOSSES
from .passes import between
from .refusals import check
from .tracing import describe
from .transport import Transport

_APPLIED = itertools.count()  # counts the models that this process has divided


class Parallel:
    """The members that `apply` adds to a model's class. On every rank, `model(images, labels)` returns the loss of the
    whole batch, `model(images)` its outputs, and `model.whole_labels(labels)` its labels."""

    def forward(self, images, labels=None):
        if "_ucudnn" not in self.__dict__:
            raise NotSupported("a slice of a model that runs by a plan: its modules have parts of parameters, so the whole model is called")
        if recorded():
            raise NotSupported("torch.compile of a model that runs by a plan: its layers run one by one, between messages")
        passes = self._ucudnn.schedule.passes
        if passes and passes.update_every == "pass" and labels is not None and torch.is_grad_enabled() and \
                self._ucudnn.between_passes is None:
            raise NotSupported("a plan that updates after each pass: model.step(images, labels, optimizer) runs it")
        return self._ucudnn.forward(self, images, labels)

    def no_sync(self):
        """Within this context, gradients of passes are kept and not summed over ranks. The next pass outside of the
        context sums them together with its own."""
        return self._ucudnn.no_sync()

    def whole_labels(self, labels):
        """Returns the labels of the last call's whole batch, on every rank. `labels` are the labels of this rank's
        images, as the sampler gives them. All ranks call it."""
        return self._ucudnn.whole_labels(labels)

    def step(self, images, labels, optimizer, scaler=None):
        """Runs one training step and returns the loss before the update. A plan that updates after each pass runs only
        through this function."""
        executor = self._ucudnn
        passes = executor.schedule.passes
        optimizer.zero_grad()
        if passes and passes.update_every == "pass":
            if scaler is not None:
                raise NotSupported("a scaler, and updates after each pass")
            executor.between_passes = between(executor, optimizer)
        if passes and scaler is not None:
            executor.pass_scale = scaler.get_scale()
        try:
            loss = self(images, labels)
            (loss if scaler is None else scaler.scale(loss)).backward()
        finally:
            executor.between_passes, executor.pass_scale = None, None
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        return loss.detach()

    def state_dict(self, *arguments, **named):
        raise NotSupported("state_dict: a rank has parts of parameters; parallel.state_dict(model, optimizer) has their boxes, and "
                           "averages of models walk parameters() and buffers(), as torch.optim.swa_utils.AveragedModel does")

    def load_state_dict(self, *arguments, **named):
        raise NotSupported(
            "load_state_dict: a rank has parts of parameters; parallel.load_state_dict(model, state, optimizer) loads "
            "them")

    @property
    def _ddp_params_and_buffers_to_ignore(self):
        """DistributedDataParallel reads this before it exchanges anything, and torch.jit.trace before it records anything."""
        raise NotSupported("DistributedDataParallel or torch.jit.trace of a model that runs by a plan, which sums gradients itself and "
                           "exchanges messages between its layers")

    @property
    def _is_fsdp_managed_module(self):
        return False

    @_is_fsdp_managed_module.setter
    def _is_fsdp_managed_module(self, value):
        """fully_shard sets this property, so it is refused here."""
        raise NotSupported("fully_shard of a model that runs by a plan, which divides parameters itself")

    def __deepcopy__(self, memo):
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        executor = other.__dict__["_ucudnn"]
        executor.applied = executor.applied.of(self, other)
        watch_gradients(other)
        return other

    def __reduce_ex__(self, protocol):
        raise NotSupported("pickling a model of which each rank has parts: parallel.state_dict(model, optimizer) is saved")


@functools.cache
def _class_of(base):
    return type(f"Parallel{base.__name__}", (Parallel, base), {"__module__": __name__})


class Shard:
    """This rank's part of a tensor of the model. `ranges` are the part's intervals along the first axes; along all
    others, the part is whole. `ranges` is None if this rank has no part. `is_first`: no lower rank has the same part.
    `is_whole`: every rank has the whole parameter; always false for running statistics."""

    def __init__(self, shape, ranges, is_first, is_whole):
        self.shape, self.ranges, self.is_first, self.is_whole = tuple(shape), ranges, is_first, is_whole

    def of(self, whole):
        if self.ranges is None:
            return whole.new_empty((0, *whole.shape[1:]))
        return whole[tuple(slice(begin, end) for begin, end in self.ranges)].clone(memory_format=torch.contiguous_format)


# Attributes that Applied does not compare: every module has them, or the executor reads them at each call.
_NOT_COMPARED = frozenset(vars(torch.nn.Module())) | {"momentum", "_ucudnn"}
_PLAIN = bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device
_MOST = 3000  # largest number of elements of an attribute that are compared at each call
_UNSEEN = "not compared"


def _seen(value, depth=8, left=None):
    """Returns a value that changes when the attribute `value` does. It has plain values, contents of small tensors,
    functions, and containers of these with up to _MOST elements (`left` counts how many more are allowed). Large
    tensors and tensors on other devices are represented by their address and write counter."""
    if isinstance(value, _PLAIN):
        return value if value == value else "nan"
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu" and value.layout == torch.strided and value.numel() <= _MOST:
            flat = value.detach().as_subclass(torch.Tensor).resolve_conj().reshape(-1)
            return value.dtype, tuple(value.shape), flat.view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return id(value), None if value.is_inference() else value._version
    if isinstance(value, (types.SimpleNamespace, argparse.Namespace)):
        value = vars(value)
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        left = left or [_MOST]
        left[0] -= len(value)
        if not depth or left[0] < 0:
            return _UNSEEN
        kind = frozenset if isinstance(value, (set, frozenset)) else tuple
        return kind(_seen(one, depth - 1, left) for one in (value.items() if isinstance(value, dict) else value))
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return value.tobytes()
    return value if callable(value) and not isinstance(value, torch.nn.Module) else _UNSEEN


def _told(value):
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


class Applied:
    """What `apply` found in a model: its parameters, and the attributes of its modules that determine the model's
    description. Attributes that Executor reads at each call are left out."""

    def __init__(self, model, network):
        self.parameters = dict(model.named_parameters(remove_duplicate=False))
        self.shapes = {name: one.shape for name, one in self.parameters.items()}
        self.has_own_momentum = {node.module for node in network.nodes if node.call.get("has_own_momentum")}
        self.modules = {name: (type(module), set(vars(module)), self._attributes(name, module))
                        for name, module in model.named_modules(remove_duplicate=False)}

    def _attributes(self, name, module):
        """Returns {key: (value, _seen(value), text for messages, whether the value may change in place)}."""
        found = {}
        for key, value in vars(module).items():
            seen = _seen(value)
            if (key not in _NOT_COMPARED or key == "momentum" and name in self.has_own_momentum) and seen is not _UNSEEN:
                is_fixed = value is seen or all(isinstance(one, _PLAIN) for one in (value if isinstance(value, tuple) else [value]))
                found[key] = value, seen, _told(value), not is_fixed
        return found

    def of(self, model, copied):
        """Returns the Applied of `copied`, which is a copy of `model`. An attribute that the model has changed since
        `apply` counts as changed in the copy, too."""
        other = copy.copy(self)
        other.parameters = dict(copied.named_parameters(remove_duplicate=False))
        found = dict(model.named_modules(remove_duplicate=False))
        for name, module in copied.named_modules(remove_duplicate=False):
            if name in self.modules and type(found.get(name)) is self.modules[name][0]:
                kind, keys, attributes = self.modules[name]
                same = {key for key, (_, seen, *_) in attributes.items() if _seen(vars(found[name]).get(key)) == seen}
                now = self._attributes(name, module)
                other.modules = other.modules | {name: (kind, keys, {
                    key: now[key] if key in same and key in now else value for key, value in attributes.items()})}
        return other

    def change(self, model, modules):
        """Returns a text that names a change of the model since `apply`, or None if there is none."""
        parameters = dict(model.named_parameters(remove_duplicate=False))
        for name, one in parameters.items():
            if name in self.parameters and not isinstance(one, torch.nn.Parameter):
                return f"the parameter {name} is another tensor at this call, as in torch.func.functional_call, whose parameters have no " \
                       "rule: copy_ within torch.no_grad(), or parallel.load_state_dict, changes those of the model"
        text = self._attribute(modules) or self._parameter(parameters)
        return text and f"{text}: a model is changed before it is described and parallel.apply divides it"

    def _attribute(self, modules):
        for name, (kind, keys, attributes) in self.modules.items():
            found = modules.get(name)
            if type(found) is not kind:
                return f"the module {name or 'itself'} is {type(found).__name__}, and was {kind.__name__} at parallel.apply"
            own = vars(found)
            for key, (value, seen, text, is_mutable) in attributes.items():
                now = own.get(key)
                if now is not value or is_mutable:
                    now_seen = _seen(now)
                    if now_seen != seen and not (seen is None and now_seen is _UNSEEN):
                        return f"{'.'.join(filter(None, (name, key)))} is {_told(now)}, and was {text} at parallel.apply, so that the " \
                               "layers may compute otherwise (a counter is kept outside of the model)"
            # an instance attribute may hide an attribute of the class
            for key in own.keys() - keys if len(own) != len(keys) else ():
                if key == "forward" or hasattr(kind, key) and not hasattr(Parallel, key) and not hasattr(torch.nn.Module, key):
                    return f"{'.'.join(filter(None, (name, key)))} is {_told(own[key])}, and was that of {kind.__name__} at parallel.apply"
        return None

    def _parameter(self, parameters):
        for name in (*self.parameters, *parameters):
            if parameters.get(name) is not self.parameters.get(name):
                return f"the parameter {name} was {'removed' if name not in parameters else 'replaced or added'} after parallel.apply"
            if parameters[name].shape != self.shapes[name]:
                return f"{name} is of shape {tuple(parameters[name].shape)}; this rank's part is {tuple(self.shapes[name])}"
        return None


def apply(model, plan, loss=None, *, overlap=True, timeout_s=600.0, checkpoint=(), group=None, network=None,
          batch_norm="all", elementwise=()):
    """Makes `model` run by the schedule in the file `plan`. All ranks of torch.distributed call it with the same
    ordinary module. Its values may differ between ranks, because all ranks get rank 0's values. Each rank keeps its
    parts of the parameters. The parameters keep their names.

    `loss` is a function of outputs and labels that is a mean over images, or a list with an entry for each output: a
    function or (function, weight). `batch_norm`: "all" uses statistics of a layer's whole batch. "local" uses
    statistics of each rank's own box; running statistics are then each rank's own, and the first rank's are saved.
    `elementwise`: classes of optimizers that update each element independently, although the checks cannot find this
    out.

    Raises NotSupported or ValueError on all ranks if one rank's arguments do not fit, before anything is changed, and
    RankLost if a rank ends or does not come within `timeout_s`."""
    if not dist.is_initialized():
        raise NotSupported("torch.distributed is not initialised: torch.distributed.init_process_group comes first")
    if isinstance(model, Parallel):
        raise NotSupported("a model that runs by a plan already")
    world, size = dist.get_world_size(), dist.get_world_size(group)
    if size != world:
        raise NotSupported(f"group= {f'has {size} ranks' if size > 0 else 'does not have this rank'}; a group of all {world} ranks of "
                           "torch.distributed is expected")
    device = _device(model, group)
    agreement = Agreement(timeout_s) if world > 1 else Alone()
    try:
        schedule, network, losses = _agreed(model, plan, loss, network, checkpoint, device, group, batch_norm, agreement)
    except Exception as error:
        if not isinstance(error, RankLost):
            agreement.close()
        raise
    transport = Transport(group or dist.group.WORLD, timeout_s)
    summing = Transport(None, timeout_s)
    seed = agreement.answers("rank 0's seed", seed_of(torch.initial_seed(), next(_APPLIED)))[0]
    executor = Executor(network, schedule, transport, summing, losses, device, seed, overlap, checkpoint, agreement,
                        batch_norm == "local")
    executor.elementwise = tuple(elementwise)
    divide(model, executor, lambda tensor: _from_first(tensor, executor))
    executor.applied = Applied(model, network)
    _refuse_parts(model)
    watch_gradients(model)
    return model


def model_refusals(model):
    from torch.nn.parallel import DistributedDataParallel
    if isinstance(model, DistributedDataParallel):
        raise NotSupported(
            "DistributedDataParallel: the plan divides batches and sums gradients itself; apply takes the module in it")
    if any(type(parameter).__name__ == "DTensor" for parameter in model.parameters()):
        raise NotSupported("parameters that are DTensors, as fully_shard makes them: the plan divides parameters itself")


def network_of(model, schedule):
    built = getattr(model, "network", None)
    if getattr(built, "is_built", False):
        return built
    data = next(node for node in schedule.nodes.values() if not node.inputs)
    features = max(
        data.shape[1:]) == 1 and not any(isinstance(module, (torch.nn.Conv2d, torch.nn.Conv3d)) for module in model.modules())
    losses = {node.inputs[0]: node.op for node in schedule.nodes.values() if node.op in LOSSES.values()}
    network = describe(model, data.shape[:1] if features else data.shape)
    return network.add_losses([losses.get(output.node) for output in network.outputs])


def _device(model, group):
    """Returns the device on which this rank computes. For a model on meta, it is the current GPU with nccl and
    otherwise the CPU."""
    found = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    if found.type != "meta":
        return found
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else torch.device("cpu")


def _place_of(device):
    """Returns (device type, name). The name of a GPU is unique among all machines; for other devices it is empty."""
    if device.type != "cuda":
        return device.type, ""
    return device.type, f"{device} of {socket.gethostname()} ({torch.cuda.get_device_properties(device).uuid})"


def refused_places(places, backend):
    """Returns a text that says why ranks on these devices cannot exchange tensors over `backend`, or None if they
    can."""
    if backend != "nccl":
        return None
    for rank, (kind, place) in enumerate(places):
        if kind != "cuda":
            return f"the model of rank {rank} is on {kind}; nccl expects it on a GPU, gloo does not"
        first = places.index((kind, place))
        if first != rank:
            return (f"ranks {first} and {rank} share {place}: nccl needs a GPU for each rank "
                    "(torch.cuda.set_device(local_rank)); gloo does not")
    return None


def _checked(model, plan, loss, network, checkpoint):
    model_refusals(model)
    if dist.get_rank() == 0 and any(parameter.is_meta for parameter in model.parameters()):
        raise NotSupported("rank 0's model is on meta; the values that are scattered are expected there")
    schedule = schedules.read(plan)
    world = dist.get_world_size()
    if schedule.devices != world:
        raise schedules.ScheduleError(
            f"{plan}: a plan for {schedule.devices} devices; torch.distributed has {world} ranks: start "
            "as many")
    return schedule, *fitting(model, schedule, loss, network, checkpoint)


def fitting(model, schedule, loss, network=None, checkpoint=()):
    """Returns (network, losses with weights) of a model. Raises an error if the schedule is for another model."""
    network = network or network_of(model, schedule)
    schedules.compare(schedule, network)
    losses = None if loss is None else of_outputs(loss, len(network.outputs))
    check(network, schedule, losses, checkpoint)
    return network, losses


def _agreed(model, plan, loss, network, checkpoint, device, group, batch_norm, agreement):
    """Returns (schedule, network, losses). Raises on all ranks if one rank refuses, or if plans, networks, types,
    losses or versions of torch differ between ranks."""
    facts = refusal = result = None
    try:
        if batch_norm not in ("all", "local"):
            raise NotSupported(f"batch_norm={batch_norm!r}; 'all' or 'local' is expected")
        result = schedule, network, losses = _checked(model, plan, loss, network, checkpoint)
        facts = {"the plan": schedule.digest, "the network": network.hash(), "the version of torch": torch.__version__,
                 "types of parameters": sorted({str(parameter.dtype) for parameter in model.parameters()}),
                 "batch_norm": batch_norm,
                 "losses": str(losses and [(getattr(one, "__name__", type(one).__name__), weight) for one, weight in losses])}
    except Exception as error:  # the other ranks must hear of any error
        refusal = error
    agreement.bring("parallel.apply", 1, facts=facts, refusal=refusal)
    if text := refused_places(agreement.answers("the ranks' devices", _place_of(device)), dist.get_backend(group)):
        raise NotSupported(text)
    return result


def shards_of(network, schedule, rank):
    """Returns {name: Shard} on this rank for each parameter and for the running statistics of each normalization."""
    found = {}
    for node in network.nodes:
        scheduled = schedule.nodes[node.name]
        for name, parameter in zip(node.parameters, scheduled.parameters):
            shape, ranges = network.parameters[name].shape, parameter.parts.get(rank)
            first = min((device for device, other in parameter.parts.items() if other == ranges), default=None)
            if ranges is not None and shape != parameter.shape:
                ranges = _ranges_in(shape, parameter.shape, ranges)
            is_whole = len(parameter.parts) == schedule.devices and all(
                own == (0, extent) for part in parameter.parts.values() for own, extent in zip(part, parameter.shape))
            found[name] = Shard(shape, ranges, first == rank, is_whole)
        for name in node.call.get("statistics", ()):
            if name:
                box = scheduled.boxes.get(rank)
                channels = box and box[b.C]
                first = min((device for device, other in scheduled.boxes.items() if other[b.C] == channels), default=None)
                found[name] = Shard((node.shape[0],), channels and (channels,), first == rank, False)
    return found


def _ranges_in(shape, planned, ranges):
    """Returns the ranges of a parameter whose shape in the model differs from its shape in the plan: in the model it
    has additional axes of extent 1, or in the plan it is a single axis."""
    if len(planned) == 1 and ranges[0] == (0, planned[0]):
        return tuple((0, extent) for extent in shape)
    axis = next(axis for axis, extent in enumerate(shape) if extent == planned[0])
    return tuple((0, 1) for _ in shape[:axis]) + ranges


def divide(model, executor, whole_of):
    """Replaces the model's parameters and buffers by this rank's parts. `whole_of(tensor)` returns the whole tensor
    with rank 0's values."""
    shards = executor.shards = shards_of(executor.network, executor.schedule, executor.rank)
    with torch.no_grad():
        for name, parameter in list(model.named_parameters()):
            part = shards[name].of(whole_of(parameter))
            if parameter.is_meta:
                path, _, last = name.rpartition(".")
                model.get_submodule(path)._parameters[last] = torch.nn.Parameter(part, parameter.requires_grad)
            else:  # keep the Parameter object: an optimizer that was made before refers to it
                parameter.data, parameter.grad = part, None
        for name, buffer in list(model.named_buffers()):
            whole = whole_of(buffer)
            path, _, last = name.rpartition(".")
            model.get_submodule(path)._buffers[last] = shards[name].of(whole) if name in shards else whole
    model.__class__ = _class_of(type(model))
    model.__dict__["_ucudnn"] = executor


def _from_first(tensor, executor):
    """Returns the whole `tensor` with rank 0's values, on its own device; a tensor on meta goes to the executor's."""
    whole = torch.empty(tensor.shape, dtype=tensor.dtype)
    if not tensor.is_meta:
        whole.copy_(tensor)
    executor.agreement.give("rank 0's weights", whole, 0)
    return whole.to(executor.device if tensor.is_meta else tensor.device)


def _refuse_parts(model):
    """Registers hooks that refuse to call, save or load a module within the model, because its parameters are parts."""
    for module in model.modules():
        if module is not model and any(True for _ in (*module.parameters(), *module.buffers())):
            module.register_forward_pre_hook(refuse_call)
            module.register_state_dict_pre_hook(_refuse_state)
            module.register_load_state_dict_pre_hook(_refuse_state)


def _refuse_state(module, *_):
    raise NotSupported(f"state_dict or load_state_dict of the {type(module).__name__} of a model that runs by a plan, which has parts "
                       "of parameters: parallel.state_dict(model, optimizer) has their boxes, parallel.load_state_dict loads them")


def _refuse_pickling(name, protocol):
    raise NotSupported(f"pickling {name} of a model that runs by a plan: parallel.save(model, folder) writes all ranks' parts, "
                       "parallel.whole_state_dict(model) gathers whole values")


def watch_gradients(model):
    """Marks gradients as Parts as soon as they exist, and has the steps of all optimizers checked."""
    executor = model.__dict__["_ucudnn"]
    optimizers.watch()
    for name, parameter in model.named_parameters():
        if executor.transport.world > 1 and parameter.is_floating_point():
            is_trained, parts = parameter.requires_grad, Parts(name, executor.shards[name], executor)
            parameter.ucudnn_parts = parts
            parameter.__reduce_ex__ = functools.partial(_refuse_pickling, name)
            # torch registers hooks only on trained parameters, and this one may be trained later
            parameter.requires_grad_(True)
            # covers torch.autograd.grad, which does not accumulate into .grad
            parameter.register_hook(functools.partial(mark, parts=parts))
            parameter.register_post_accumulate_grad_hook(functools.partial(_mark, parts))
            parameter.requires_grad_(is_trained)


def _mark(parts, parameter):
    if parameter.grad is not None and not isinstance(parameter.grad, Part):
        parameter.grad = mark(parameter.grad, parts)
    parts.executor.note_gradient(parts.name, parameter.grad)
