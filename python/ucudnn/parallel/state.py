"""Checkpoints: each part of a tensor is saved with its position in the whole tensor. torch.distributed.checkpoint
writes each part once, and reads any parts that another plan, or a single process, asks for."""
import copy

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from . import optimizers
from .errors import NotSupported


class Piece(torch.Tensor):
    """A part of a tensor, as torch.distributed.checkpoint handles it; `shard` says which part. A rank without a part
    writes and reads nothing. If several ranks have the same part, the first one writes it."""

    @staticmethod
    def make(values, shard):
        piece = values.detach().as_subclass(Piece)
        piece.shard = shard
        return piece

    def size(self, dim=None):
        """Returns the whole tensor's size, which torch.distributed.checkpoint compares with the checkpoint's."""
        return torch.Size(self.shard.shape) if dim is None else self.shard.shape[dim]

    def _chunk(self):
        ranges = [*self.shard.ranges, *((0, extent) for extent in self.shard.shape[len(self.shard.ranges):])]
        return ChunkStorageMetadata(torch.Size(begin for begin, _ in ranges), torch.Size(end - begin for begin, end in ranges))

    def __create_write_items__(self, name, piece):
        if self.shard.ranges is None or not self.shard.is_first:
            return []
        chunk = self._chunk()
        properties = TensorProperties.create_from_tensor(self.as_subclass(torch.Tensor))
        return [WriteItem(MetadataIndex(name, chunk.offsets), WriteItemType.SHARD,
                          tensor_data=TensorWriteData(chunk, properties, torch.Size(self.shard.shape)))]

    def __create_chunk_list__(self):
        return [] if self.shard.ranges is None else [self._chunk()]

    def __get_tensor_shard__(self, index):
        return self.as_subclass(torch.Tensor)

    def __reduce_ex__(self, protocol):
        raise NotSupported(f"pickling a part {self.shard.ranges} of a tensor of shape {self.shard.shape}: "
                           "torch.distributed.checkpoint saves it, or parallel.whole_state_dict gathers it")

    def __deepcopy__(self, memo):
        return Piece.make(self.clone(), self.shard)

    __torch_function__ = torch._C._disabled_torch_function_impl


def state_dict(model, optimizer=None):
    """Returns {"model": {...}, "optimizer": {...}, "param_groups": ...} for torch.distributed.checkpoint.save and load.
    Parts are Pieces that share memory with the model, so `load` writes into the model. Values that are whole on every
    rank are plain. An optimizer that has not stepped has no state yet."""
    shards = model._ucudnn.shards
    state = {"model": {name: _piece(value, shards.get(name)) for name, value in _named_values(model)}}
    if optimizer is not None:
        names, found = _names_of(model, optimizer), {}
        for parameter, entries in optimizer.state.items():
            name = names[id(parameter)]
            for key, value in entries.items():
                is_part = isinstance(value, torch.Tensor) and value.shape == parameter.shape and value.ndim > 0
                found[f"{name}.{key}"] = _piece(value, shards[name]) if is_part else value
        groups = [{"params": [names[id(parameter)] for parameter in group["params"]], **copy.deepcopy(_options(group))}
                  for group in optimizer.param_groups]
        # A tuple, because torch.distributed.checkpoint saves a tuple as a single value.
        state |= {"optimizer": found, "param_groups": (type(optimizer).__name__, groups, sorted(found))}
    return state


def _options(group):
    return {key: value for key, value in group.items() if key not in ("params", "param_names")}


def _names_of(model, optimizer):
    """Returns {id of parameter: name} for an optimizer's parameters. Raises NotSupported if one is not the model's."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    unknown = [parameter for group in optimizer.param_groups for parameter in group["params"] if id(parameter) not in names]
    if unknown:
        raise NotSupported(f"an optimizer with {len(unknown)} parameters that are not the model's")
    return names


def _named_values(model):
    """Yields the (name, value) pairs that torch's own state_dict has."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield name, parameter
    for name, buffer in model.named_buffers(remove_duplicate=False):
        path, _, last = name.rpartition(".")
        if last not in model.get_submodule(path)._non_persistent_buffers_set:
            yield name, buffer


def _piece(value, shard):
    return value.detach() if shard is None else Piece.make(value, shard)


def save(model, folder, optimizer=None):
    """Writes a checkpoint with torch.distributed.checkpoint. All ranks call it."""
    import torch.distributed.checkpoint as dcp
    _together(model, "parallel.save")
    dcp.save(state_dict(model, optimizer), checkpoint_id=folder)


def load(model, folder, optimizer=None):
    """Reads a checkpoint that `save` wrote, possibly with another plan or number of ranks. All ranks call it."""
    import torch.distributed.checkpoint as dcp
    _together(model, "parallel.load")
    state, told = state_dict(model, optimizer), _written(folder)
    _check(model, {"model": {key.removeprefix("model."): state["model"].get(key.removeprefix("model.")) for key in told
                             if key.startswith("model.")}}, None, "parallel.load")
    if optimizer is not None:
        groups = {"param_groups": ()}
        if "param_groups" in told:
            dcp.load(groups, checkpoint_id=folder)
        keys = [key for key in told if key.startswith("optimizer.")]
        _check(model, {"model": state["model"], **groups, "optimizer": {key.removeprefix("optimizer.") for key in keys}}, optimizer,
               "parallel.load")
        state["optimizer"] = {key.removeprefix("optimizer."): _room(model, optimizer, key.removeprefix("optimizer."), told[key])
                              for key in keys}
    dcp.load(state, checkpoint_id=folder)
    _put(model, state, optimizer)


def _written(folder):
    """Returns {key: (shape, type)} of a checkpoint, with None for a value that is not a tensor. Rank 0 reads the file
    and sends the result to all ranks."""
    from torch.distributed.checkpoint import FileSystemReader
    told = [None, None]
    if dist.get_rank() == 0:
        try:
            values = FileSystemReader(folder).read_metadata().state_dict_metadata
            told[0] = {key: (tuple(value.size), value.properties.dtype) if hasattr(value, "size") else None
                       for key, value in values.items()}
        except Exception as error:  # the other ranks must hear of any error
            told[1] = f"{type(error).__name__}: {error}"
    dist.broadcast_object_list(told, 0)
    if told[1]:
        raise NotSupported(f"{folder}: no checkpoint that rank 0 can read ({told[1]})")
    return told[0]


def _room(model, optimizer, key, told):
    """Returns the tensor of the optimizer's state into which the value `key` of a checkpoint is read; a new tensor if
    the optimizer has not stepped."""
    name, _, entry = key.rpartition(".")
    parameter, shard = model.get_parameter(name), model._ucudnn.shards[name]
    if told is None:
        return None
    (shape, dtype), old = told, optimizer.state.get(parameter, {}).get(entry)
    is_part = shape == shard.shape and len(shape) > 0
    if old is None or old.dtype != dtype or old.shape != (parameter.shape if is_part else shape):
        old = torch.zeros(parameter.shape if is_part else shape, dtype=dtype, device=_device_of(optimizer, parameter, len(shape)))
    return _piece(old, shard) if is_part else old


def _device_of(optimizer, parameter, dims):
    """Returns the device on which an optimizer keeps a state tensor of a parameter: torch's optimizers keep single
    numbers on the host."""
    group = next(group for group in optimizer.param_groups if any(parameter is one for one in group["params"]))
    is_host = dims == 0 and not group.get("capturable") and not group.get("fused")
    return torch.device("cpu") if is_host else parameter.device


def load_state_dict(model, state, optimizer=None):
    """Copies `state`, a state_dict of this model with parts of this plan or whole values, into the model and the
    optimizer. All ranks call it; if the state does not fit on one rank, all refuse it before anything is copied."""
    _check(model, state, optimizer, "parallel.load_state_dict")
    _put(model, state, optimizer, is_copied=True)


def _check(model, state, optimizer, call):
    """Raises on all ranks if the state does not fit on one of them."""
    try:
        text = _misfit(model, state, optimizer)
    except NotSupported as error:
        text = str(error)
    _together(model, call, text and NotSupported(text))


def _together(model, call, refusal=None):
    """Raises on all ranks if one rank has a `refusal`, or if some ranks make another call."""
    model._ucudnn.agreement.bring(call, 1, refusal=refusal)


def _misfit(model, state, optimizer):
    """Returns why a state does not belong to this model and optimizer, or None if it does. Values of None are not
    compared."""
    shards, values = model._ucudnn.shards, dict(_named_values(model))
    if not isinstance(state.get("model"), dict):
        return (f"a state without 'model', which has {_some(state)}: what parallel.state_dict or parallel.whole_state_dict returns "
                "is expected; {'model': state} makes one of a plain module's")
    if text := _unlike("values of the model", values, state["model"]):
        return text
    for name, given in state["model"].items():
        shard = shards.get(name)
        shape = tuple(values[name].shape) if shard is None else shard.shape
        if given is not None and tuple(given.size()) != shape:
            return f"{name} of shape {tuple(given.size())} in a state: {shape} is expected"
        if text := _other_part(name, given, shard):
            return text
    if optimizer is None:
        return None
    if not state.get("param_groups") or "optimizer" not in state:
        return "a state without an optimizer's 'param_groups': it was made without the optimizer"
    (kind, groups, entries), names = state["param_groups"], _names_of(model, optimizer)
    if kind != type(optimizer).__name__:
        return f"a state of the optimizer {kind}; this one is {type(optimizer).__name__}"
    told = {name: repr(_options(group)) for group in groups for name in group["params"]}
    own = [[names[id(parameter)] for parameter in group["params"]] for group in optimizer.param_groups]
    if text := _unlike("parameters of the optimizer", [name for group in own for name in group], told):
        return text
    for group in own:
        if other := next((name for name in group if told[name] != told[group[0]]), None):
            return f"{group[0]} and {other} are in one group of the optimizer; a state has {told[group[0]]} and {told[other]}"
    if text := _unlike("an optimizer's values", entries, state["optimizer"]):
        return text
    values = state["optimizer"].items() if isinstance(state["optimizer"], dict) else ()
    return next(filter(None, (_other_part(key, given, shards[key.rpartition(".")[0]]) for key, given in values)), None)


def _other_part(name, given, shard):
    if isinstance(given, Piece) and given.shard.ranges != shard.ranges:
        return f"a part {given.shard.ranges} of {name} in a state: this rank has {shard.ranges}; parallel.load divides a checkpoint"
    return None


def _unlike(what, expected, found):
    for text, one, other in (("without", expected, found), ("with unexpected", found, expected)):
        if names := [name for name in one if name not in other]:
            return f"a state {text} {what} {_some(names)}"
    return None


def _some(names):
    names = [str(name) for name in names]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _put(model, state, optimizer, is_copied=False):
    """Writes a fitting state into the model and the optimizer. Copies the tensors of the optimizer's state if
    `is_copied`."""
    shards = model._ucudnn.shards
    with torch.no_grad():
        for name, value in _named_values(model):
            given = state["model"][name]
            if given.data_ptr() != value.data_ptr():
                value.copy_(_for(given, shards.get(name)))
    if optimizer is None:
        return
    optimizer.state.clear()
    for key, value in state["optimizer"].items():
        name, _, entry = key.rpartition(".")
        parameter = model.get_parameter(name)
        if isinstance(value, torch.Tensor):
            is_part = value.ndim > 0 and tuple(value.size()) == shards[name].shape
            value = _for(value, shards[name] if is_part else None)
            value = value.detach().to(_device_of(optimizer, parameter, value.ndim), copy=is_copied)
        optimizer.state[parameter][entry] = value
    told, names = {name: group for group in state["param_groups"][1] for name in group["params"]}, _names_of(model, optimizer)
    for group in optimizer.param_groups:
        if group["params"]:
            group.update(copy.deepcopy(_options(told[names[id(group["params"][0])]])))
    optimizers.adopt(optimizer)


def _for(given, shard):
    if shard is None or isinstance(given, Piece):
        return given.as_subclass(torch.Tensor)
    return shard.of(given)  # `given` is a whole tensor


def whole_state_dict(model, optimizer=None):
    """Returns the state_dict with whole values, on the host of every rank; if torch.save writes it to a file, a single
    process can read that. All ranks call this function."""
    def gathered(values):
        own = {key: (value.shard.ranges, value.as_subclass(torch.Tensor).cpu()) if isinstance(value, Piece) else value
               for key, value in values.items()
               if not isinstance(value, Piece) or value.shard.is_first and value.shard.ranges is not None}
        shapes = {key: value.shard.shape for key, value in values.items() if isinstance(value, Piece)}
        answers = [None] * dist.get_world_size()
        dist.all_gather_object(answers, own)
        found = {}
        for key, value in values.items():
            if key not in shapes:
                found[key] = value.cpu() if isinstance(value, torch.Tensor) else value
                continue
            pieces = [answer[key] for answer in answers if key in answer]
            found[key] = torch.empty(shapes[key], dtype=value.dtype)
            for ranges, piece in pieces:
                found[key][tuple(slice(begin, end) for begin, end in ranges)] = piece
        return found
    state = state_dict(model, optimizer)
    _together(model, "parallel.whole_state_dict")
    return {kind: gathered(values) if isinstance(values, dict) else values for kind, values in state.items()}
