"""Functions that draw random numbers. Each rank draws separately, so a stripe's numbers differ from a single process's.
All these functions are therefore refused, except that a trusted class may draw for positions of stripes. A tensor that
is the same on every rank may be filled with random numbers, as a drop path does, because ranks compare these
numbers."""
import torch
from torch import nn
from torch.nn import functional

from .copies import same, trusts_draws
from .errors import NotSupported
from .pointwise import pointwise
from .stripe import Stripe, _where, flat, is_trusted, layout_of, name_of, named, rule
from .vouched import DRAWS

# {function: (its module class, whether it draws by default if `training` is not given)}
_DROPOUTS = {
    functional.dropout: (nn.Dropout, True), functional.dropout1d: (nn.Dropout1d, True),
    functional.dropout2d: (nn.Dropout2d, True), functional.dropout3d: (nn.Dropout3d, True),
    functional.alpha_dropout: (nn.AlphaDropout, False), functional.feature_alpha_dropout: (nn.FeatureAlphaDropout, False),
    torch.dropout: (nn.Dropout, True), torch.dropout_: (nn.Dropout, True),
    torch.feature_dropout: (nn.Dropout2d, True), torch.feature_dropout_: (nn.Dropout2d, True),
    torch.alpha_dropout: (nn.AlphaDropout, True), torch.alpha_dropout_: (nn.AlphaDropout, True),
    torch.feature_alpha_dropout: (nn.FeatureAlphaDropout, True), torch.feature_alpha_dropout_: (nn.FeatureAlphaDropout, True),
}
_OF_POSITIONS = (nn.Dropout, nn.AlphaDropout, nn.RReLU)  # other classes draw for whole channels, which all ranks share
_OTHERS = """
bernoulli bernoulli_ binomial cauchy_ exponential_ geometric_ gumbel_softmax kaiming_uniform_ log_normal_ multinomial
native_dropout normal normal_ poisson rand_like randint_like randn_like random_ rrelu_with_noise rrelu_with_noise_ uniform_
_fractional_max_pool2d _fractional_max_pool3d fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
fractional_max_pool3d_with_indices
""".split()
NAMES = {name_of(function) for function in _DROPOUTS} | {"rrelu", "rrelu_", *_OTHERS}  # names of the functions that draw
DRAW_BEFORE = "draw before, alike on all ranks"


def compare_drawn(name, result, is_now=False):
    """Function `name` drew numbers that must be the same on all ranks. Compares them between ranks if `is_now`, or if
    the model trusts a class that draws different numbers on each rank. Otherwise copies.same_draws compares generators
    after the pass."""
    if is_now or _where and trusts_draws(_where[0][2]._ucudnn_trust):
        same([(f"what {name} drew", each) for each in flat(result) if isinstance(each, torch.Tensor)],
             f"it counts as the same on all, and ranks whose stripes differ have drawn unlike many numbers: {DRAW_BEFORE}")


def _draw(cls, function, x, *args, **kwargs):
    if not is_trusted(f"{cls.__module__}.{cls.__qualname__}"):
        raise NotSupported(f"it {DRAWS}, unless {cls.__name__} is named in trust=[...]")
    if not x.cut.is_cut or cls not in _OF_POSITIONS:
        raise NotSupported(f"ranks would draw different numbers for what is the same on all of them: {DRAW_BEFORE}")
    return pointwise(function, x, *args, **kwargs)


@rule(*_DROPOUTS)
def _dropout(function, x, p=0.5, training=None, inplace=False, train=None):
    cls, draws = _DROPOUTS[function]
    told = training if train is None else train  # torch's own functions name this argument `train`
    if not (draws if told is None else told) or p == 0:
        return x
    if inplace:
        return _draw(cls, function, x, p, True, inplace=True)
    return _draw(cls, function, x, p, True)


@rule(*named("rrelu", "rrelu_"))
def _rrelu(function, x, lower=1 / 8, upper=1 / 3, training=False, inplace=False, **kwargs):
    if inplace:
        kwargs["inplace"] = True
    if training:
        return _draw(nn.RReLU, function, x, lower, upper, True, **kwargs)
    return pointwise(function, x, lower, upper, False, **kwargs)


@rule(*named(*_OTHERS, homes=(torch, torch.Tensor, functional, torch._C._nn, nn.init)))
def _drawn(function, *args, **kwargs):
    is_cut = any(layout_of(x).is_cut for x in flat((args, kwargs)) if isinstance(x, torch.Tensor))
    if is_cut or not name_of(function).endswith("_") or not args or not isinstance(args[0], Stripe):
        raise NotSupported(f"it {DRAWS}; {DRAW_BEFORE}")
    result = function(*args, **kwargs)
    # same_draws misses draws outside of a model, as when a checkpoint runs a function again. It also misses draws of
    # the program's own generators.
    compare_drawn(name_of(function), result, is_now=not _where or kwargs.get("generator") is not None)
    return result
