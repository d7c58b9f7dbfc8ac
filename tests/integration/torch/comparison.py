"""Compares a model on stripes with the same model on the whole image: the outputs, the gradients of the input and of
every parameter, and the buffers. Each rank computes the whole model itself."""
import copy

import torch

from ucudnn import spatial

TOLERANCE = 1e-9  # far above the rounding of fp64 sums of 1e5 terms in another order: 1e5 * 2^-53 = 1e-11


class Different(AssertionError):
    pass


def check_close(name, found, expected, tolerance=TOLERANCE):
    if found is None or expected is None:
        if found is not expected:
            raise Different(f"{name}: {'none' if found is None else 'one'} instead of {'none' if expected is None else 'one'}")
        return
    found = spatial.to_local(found.detach())
    if found.shape != expected.shape:
        raise Different(f"{name}: shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    difference = (found - expected).abs().max().item() if expected.numel() else 0.0
    if not difference <= tolerance * scale:
        raise Different(f"{name}: differs by {difference} where values reach {scale}")


def own(x, stripe):
    """Returns the part of the whole tensor x that belongs to this rank, by the layout of `stripe`."""
    from ucudnn.spatial.grid import owned
    for axis in stripe.cut.axes:
        begin, end = owned(stripe.cut.extents[axis])[spatial.ranks().part(axis)]
        x = x.narrow(stripe.cut.dim_of(axis), begin, end - begin)
    return x


def striped_like_whole(model, x, call=None, multiple=1, trust=(), tolerance=TOLERANCE, backward=True):
    """Expects equal outputs, gradients and buffers. `call(model, x)` returns the output. The compared gradients come
    from a weighted sum of the output."""
    call = call or (lambda model, x: model(x))
    whole, x = copy.deepcopy(model), x.clone()
    striped = spatial.convert(model, trust=trust)
    x_whole = x.clone().requires_grad_(backward)
    x_own = spatial.shard(x, multiple=multiple).detach().requires_grad_(backward)
    with torch.set_grad_enabled(backward):
        y_whole, y_own = call(whole, x_whole), call(striped, x_own)
    y = spatial.gather(y_own)
    check_close("output", y, y_whole, tolerance)
    if not backward:
        return
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    (y_whole * weights).sum().backward()
    (y * weights).sum().backward()
    check_close("gradient of the input", x_own.grad, own(x_whole.grad, x_own), tolerance)
    parameters = dict(whole.named_parameters())
    for name, parameter in striped.named_parameters():
        check_close(f"gradient of {name}", parameter.grad, parameters[name].grad, tolerance)
    buffers = dict(whole.named_buffers())
    for name, buffer in striped.named_buffers():
        if buffer.is_floating_point():
            check_close(f"buffer {name}", buffer, buffers[name], tolerance)


def penalty_like_whole(model, x, trust=(), tolerance=TOLERANCE):
    """Compares second derivatives: the gradients of a penalty on the gradients of the input and of the parameters."""
    whole, striped = copy.deepcopy(model), spatial.convert(model, trust=trust)
    x_whole, x_own = x.clone().requires_grad_(), spatial.shard(x).detach().requires_grad_()
    try:
        expected = _penalised(whole, x_whole)
    except RuntimeError as error:  # torch has no second derivative for some layers
        assert "is not implemented" in str(error), error
        return
    check_close("penalty", _penalised(striped, x_own), expected, tolerance)
    if x_whole.grad.isnan().any():  # no second derivative exists at this point, as for a norm at 0
        return
    check_close("second gradient of the input", x_own.grad, own(x_whole.grad, x_own), tolerance)
    parameters = dict(whole.named_parameters())
    for name, parameter in striped.named_parameters():
        check_close(f"second gradient of {name}", parameter.grad, parameters[name].grad, tolerance)


def _penalised(model, x):
    y = spatial.gather(model(x))
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    inputs = [x, *model.parameters()]
    gradients = torch.autograd.grad((torch.tanh(y) * weights).sum(), inputs, create_graph=True, materialize_grads=True)
    if isinstance(x, spatial.Stripe):
        assert gradients[0].cut == x.cut
    penalty = sum((gradient * gradient).mean() for gradient in gradients)
    penalty.backward()
    return penalty
