"""Checkpoints: each value carries its box in the whole tensor. torch.distributed.checkpoint writes each box once, and
reads any boxes that another plan, or one process, asks for."""
import torch
import torch.distributed as dist
import torch.distributed.checkpoint.state_dict
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from .errors import NotSupported


class Piece(torch.Tensor):
    """A part of a tensor, for torch.distributed.checkpoint. `shard` tells which part; if this rank has none, nothing is
    written or read. Of equal parts, the first rank writes."""

    @staticmethod
    def make(values, shard):
        piece = values.detach().as_subclass(Piece)
        piece.shard = shard
        return piece

    def size(self, dim=None):
        """Returns the size of the whole tensor, with which a checkpoint's is compared."""
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


def _shard(executor, name):
    return executor.shards.get(name)


def state_dict(model, optimizer=None):
    """Returns {"model": {...}, "optimizer": {...}} for torch.distributed.checkpoint.save and load: tensors of parts
    carry their boxes, and are the model's own memory, into which `load` writes. Values that are whole on every rank are
    plain."""
    executor = model._ucudnn
    values = dict(_named_values(model))
    state = {"model": {name: _piece(value, _shard(executor, name)) for name, value in values.items()}}
    if optimizer is not None:
        found = state["optimizer"] = {}
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        _start(optimizer, names)
        for parameter, entries in optimizer.state.items():
            name = names[id(parameter)]
            for key, value in entries.items():
                is_part = isinstance(value, torch.Tensor) and value.shape == parameter.shape and value.ndim > 0
                found[f"{name}.{key}"] = _piece(value, executor.shards[name]) if is_part else value
    return state


def _named_values(model):
    """Returns the names and values of torch's own state_dict."""
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield name, parameter
    for name, buffer in model.named_buffers(remove_duplicate=False):
        path, _, last = name.rpartition(".")
        if last not in model.get_submodule(path)._non_persistent_buffers_set:
            yield name, buffer


def _piece(value, shard):
    return value.detach() if shard is None else Piece.make(value, shard)


def _start(optimizer, names):
    """Gives an optimizer that has not stepped yet the state of its first step, into which a checkpoint is read. Values
    do not change: gradients and the learning rate are zero."""
    unknown = [parameter for group in optimizer.param_groups for parameter in group["params"] if id(parameter) not in names]
    if unknown:
        raise NotSupported(f"an optimizer with {len(unknown)} parameters that are not the model's")
    if optimizer.state or all(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"]):
        return
    torch.distributed.checkpoint.state_dict._init_optim_state(optimizer)


def save(model, folder, optimizer=None):
    """Writes a checkpoint of torch.distributed.checkpoint. All ranks call it."""
    import torch.distributed.checkpoint as dcp
    dcp.save(state_dict(model, optimizer), checkpoint_id=folder)


def load(model, folder, optimizer=None):
    """Reads what `save` wrote, even on other ranks and with another plan. All ranks call it."""
    import torch.distributed.checkpoint as dcp
    state = state_dict(model, optimizer)
    dcp.load(state, checkpoint_id=folder)
    load_state_dict(model, state, optimizer)


def load_state_dict(model, state, optimizer=None):
    """Copies the values of a state_dict of this model, read from elsewhere, to their places. Tensors that are the
    model's own memory are there already; numbers of the optimizer are not."""
    with torch.no_grad():
        for name, value in _named_values(model):
            given = state["model"][name]
            if isinstance(given, torch.Tensor) and given.data_ptr() != value.data_ptr():
                value.copy_(_for(given, model._ucudnn.shards.get(name)))
        if optimizer is not None:
            names = {name: parameter for name, parameter in model.named_parameters()}
            for key, value in state["optimizer"].items():
                name, _, last = key.rpartition(".")
                entries = optimizer.state[names[name]]
                old = entries.get(last)
                if isinstance(old, torch.Tensor) and isinstance(value, torch.Tensor):
                    if old.data_ptr() != value.data_ptr():
                        old.copy_(_for(value, model._ucudnn.shards[name] if old.ndim else None))
                else:
                    entries[last] = value


def _for(given, shard):
    if shard is None or isinstance(given, Piece):
        return given.as_subclass(torch.Tensor)
    return shard.of(given)  # `given` is a whole tensor


def whole_state_dict(model, optimizer=None):
    """Returns the state_dict with whole values, on the host of every rank, for a file of torch.save that one process
    reads. All ranks call it."""
    def gathered(values):
        own = {key: (value.shard.ranges, value.as_subclass(torch.Tensor).cpu()) if isinstance(value, Piece) else value
               for key, value in values.items() if not isinstance(value, Piece) or value.shard.is_first and value.shard.ranges}
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
    return {kind: gathered(values) for kind, values in state.items()}
