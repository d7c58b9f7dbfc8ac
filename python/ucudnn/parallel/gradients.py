"""Gradients of parts. If a rank has a part of a parameter, the gradient is a Part. Functions that reduce a Part to one
number return the number of the whole parameter, so torch's own clip_grad_norm_ and GradScaler do the same on every rank
as on one device. All ranks have all parameters (parameters of other ranks are empty) and make the same calls."""
import torch

from .errors import NotSupported

_REFUSED = ("sum", "mean", "max", "min", "amax", "amin", "aminmax", "std", "var", "prod", "all", "any", "dot", "vdot", "median",
            "count_nonzero", "argmax", "argmin", "logsumexp", "nansum", "nanmean")


class Part(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name == "_foreach_norm":
                return _norms(args[0], *args[1:], **kwargs)
            if name in ("linalg_vector_norm", "linalg_norm", "norm") and isinstance(args[0], Part):
                if len(args) > 2 or kwargs.get("dim") is not None:
                    raise NotSupported(f"{name} along dimensions of a gradient of which this rank has a part")
                order = args[1] if len(args) > 1 else kwargs.get("ord", kwargs.get("p", 2.0))
                order = 2.0 if order in (None, "fro") else order
                return _norms([args[0]], order, dtype=kwargs.get("dtype"))[0]
            if name == "_amp_foreach_non_finite_check_and_unscale_":
                function(*args, **kwargs)
                _any_of_all(args[1], args[0])
                return None
            if name in _REFUSED and isinstance(args[0], Part):
                raise NotSupported(
                    f"{name} of a gradient of which this rank has a part: torch.nn.utils.clip_grad_norm_, its norm and "
                    "GradScaler have rules")
            return _plain(function(*args, **kwargs))


def _plain(result):
    return result.as_subclass(torch.Tensor) if type(result) is Part else result


def mark(gradient, parts):
    """`parts` says which ranks have this parameter, see Parts."""
    marked = gradient.as_subclass(Part)
    marked._parts = parts
    return marked


class Parts:
    """The parts of one parameter on one rank. `is_first`: no device of a lower number has the same part, so this one
    counts."""

    def __init__(self, is_first, transport):
        self.is_first, self.transport = is_first, transport


def _norms(gradients, order=2.0, dtype=None):
    """Returns the norms of the whole parameters."""
    order = float(order)
    parts = next(gradient._parts for gradient in gradients if isinstance(gradient, Part))
    own = []
    for gradient in gradients:
        counts = not isinstance(gradient, Part) or gradient._parts.is_first
        plain = gradient.as_subclass(torch.Tensor)
        wide = plain.to(dtype) if dtype else plain
        if not counts or plain.numel() == 0:
            own.append(torch.zeros((), dtype=torch.float64))
            continue
        norm = torch.linalg.vector_norm(wide, order).double().cpu()
        own.append(norm if order == float("inf") else norm ** order)
    meet = parts.transport.meeting("norms of gradients")
    told = meet.bring(torch.stack(own).to(gradients[0].device), _greatest if order == float("inf") else _added)
    total = told if order == float("inf") else told ** (1.0 / order)
    return [norm.to(dtype or gradient.dtype) for norm, gradient in zip(total.unbind(), gradients)]


def _any_of_all(found, gradients):
    parts = next((gradient._parts for gradient in gradients if isinstance(gradient, Part)), None)
    if parts is not None:
        found.copy_(parts.transport.meeting("whether gradients are finite").bring(found, _greatest))


def _added(stacked):
    return stacked.sum(0)


def _greatest(stacked):
    return stacked.amax(0)
