"""Exchanges between ranks within a pass, as autograd functions that are chained by a token tensor. Because of the
chain, torch's engine runs their backward in exactly the reversed order, so all ranks make all exchanges in the same
order."""
import torch
from torch.autograd.function import once_differentiable

from . import boxes as b


def cut(x, box, base, axes):
    """Returns the elements of `box` from x; `base` is the box that x covers."""
    return x[tuple(slice(box[axis][0] - base[axis][0], box[axis][1] - base[axis][0]) for axis in axes)]


def shape_of(box, axes):
    return [box[axis][1] - box[axis][0] for axis in axes]


def pieces(mine, others, rank):
    """Returns {peer: box}: the part of each other rank's box that lies in `mine`. Peers without such a part are left
    out."""
    if mine is None:
        return {}
    found = {peer: b.meet(mine, box) for peer, box in others.items() if peer != rank}
    return {peer: box for peer, box in found.items() if b.elements(box)}


class Move:
    """One exchange on one rank. `held` and `needed` are boxes by device. If `adds`, arriving tensors are partial sums
    and are added up, and backward copies the gradient to all senders; otherwise forward copies and backward adds.
    `returns`: whether backward sends gradients, because a trained parameter contributes to the moved tensors."""

    def __init__(self, name, transport, held, needed, axes, adds=False, returns=True):
        rank = transport.rank
        self.name, self.transport, self.axes, self.adds, self.returns = name, transport, axes, adds, returns
        self.held, self.needed = held.get(rank), needed.get(rank)
        self.sends = pieces(self.held, needed, rank)
        self.receives = pieces(self.needed, held, rank)
        own = b.meet(self.held, self.needed) if self.held and self.needed else None
        self.own = own if own and b.elements(own) else None
        self.is_part = bool(self.held or self.needed) and bool(self.sends or self.receives)

    def post(self, x, base, sends, receives, like, device):
        return self.transport.post(self.name, "transfer", {peer: cut(x, box, base, self.axes) for peer, box in sends.items()},
                                   {peer: (shape_of(box, self.axes), like) for peer, box in receives.items()}, device)

    def collected(self, flight, own, base, target, boxes, adds, like, device):
        """Waits for the messages of `flight`. Returns the box `target`, filled with the arrived tensors and this rank's
        own piece of `own`; `base` is the box of `own`."""
        arrived = flight.wait()
        if not arrived and own is not None and self.own == target:
            return cut(own, target, base, self.axes)
        make = torch.zeros if adds else torch.empty
        result = make(shape_of(target, self.axes), dtype=like, device=device)
        parts = {peer: (boxes[peer], tensor) for peer, tensor in arrived.items()}
        if self.own is not None and own is not None:
            parts[self.transport.rank] = (self.own, cut(own, self.own, base, self.axes))
        for _, (box, tensor) in sorted(parts.items()):
            place = cut(result, box, target, self.axes)
            place.add_(tensor) if adds else place.copy_(tensor)
        return result


class Post(torch.autograd.Function):
    """Posts the messages of a move; backward waits for the gradients' messages."""

    @staticmethod
    def forward(ctx, token, x, move, state, dtype, device):
        ctx.move, ctx.state, ctx.dtype, ctx.device = move, state, dtype, device
        ctx.set_materialize_grads(False)
        state["x"] = None if move.held is None else x.detach()
        state["flight"] = move.post(state["x"], move.held, move.sends, move.receives, dtype, device)
        return token.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, token):
        move, state = ctx.move, ctx.state
        gradient = None
        if move.returns:
            flight, own = state.pop("back")
            if move.held is not None:
                gradient = move.collected(flight, own, move.needed, move.held, move.sends, not move.adds, ctx.dtype, ctx.device)
            else:
                flight.wait()
        return token, gradient, None, None, None, None


class Wait(torch.autograd.Function):
    """Waits for the messages of a move and returns the box that the rank needs; backward posts the messages of its
    gradient."""

    @staticmethod
    def forward(ctx, token, move, state, dtype, device):
        ctx.move, ctx.state, ctx.dtype, ctx.device = move, state, dtype, device
        ctx.set_materialize_grads(False)
        flight, x = state.pop("flight"), state.pop("x")
        if move.needed is None:
            flight.wait()
            result = torch.empty(0, dtype=dtype, device=device)
        else:
            result = move.collected(flight, x, move.held, move.needed, move.receives, move.adds, dtype, device)
        if not move.returns:
            ctx.mark_non_differentiable(result)
        return token.clone(), result

    @staticmethod
    @once_differentiable
    def backward(ctx, token, gradient):
        move = ctx.move
        if move.returns:
            if gradient is None and move.needed is not None:
                gradient = torch.zeros(shape_of(move.needed, move.axes), dtype=ctx.dtype, device=ctx.device)
            flight = move.post(gradient, move.needed, move.receives, move.sends, ctx.dtype, ctx.device)
            ctx.state["back"] = (flight, gradient if move.needed is not None else None)
        return token, None, None, None, None


class Meeting:
    """Devices that merge numbers: the first device receives the numbers of all others, merges them, and sends back the
    result, a tensor of the same shape."""

    def __init__(self, name, transport, devices, kind="statistics"):
        self.name, self.transport, self.devices, self.kind = name, transport, tuple(devices), kind

    def bring(self, numbers, merge):
        first, rank = self.devices[0], self.transport.rank
        if len(self.devices) == 1:
            return merge(numbers.unsqueeze(0))
        like = (numbers.shape, numbers.dtype)
        if rank != first:
            self._swap({first: numbers}, {}, numbers.device)
            return self._swap({}, {first: like}, numbers.device)[first]
        arrived = self._swap({}, {peer: like for peer in self.devices[1:]}, numbers.device)
        arrived[rank] = numbers
        stacked = torch.stack([arrived[device] for device in self.devices])
        merged = numbers if numbers.is_meta else merge(stacked).contiguous()
        self._swap({peer: merged for peer in self.devices[1:]}, {}, numbers.device)
        return merged

    def _swap(self, sends, receives, device):
        return self.transport.post(self.name, self.kind, sends, receives, device).wait()
