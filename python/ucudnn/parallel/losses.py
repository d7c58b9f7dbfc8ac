"""Losses of a whole batch from each rank's part of the outputs: sums over images divided by their number, never means
of means."""
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from .errors import NotSupported


def named(loss):
    """"cross_entropy" or "logistic" for torch's own function or module with its defaults; None for any other function,
    which sees one rank's images."""
    if loss in (F.cross_entropy, "cross_entropy") or isinstance(loss, torch.nn.CrossEntropyLoss) and loss.weight is None and \
            loss.reduction == "mean" and loss.ignore_index == -100 and loss.label_smoothing == 0:
        return "cross_entropy"
    if loss in (F.binary_cross_entropy_with_logits, "logistic") or isinstance(loss, torch.nn.BCEWithLogitsLoss) and \
            loss.weight is None and loss.pos_weight is None and loss.reduction == "mean":
        return "logistic"
    if isinstance(loss, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)) and loss.weight is not None and loss.reduction == "mean":
        raise NotSupported(f"{type(loss).__name__} with weights of classes, a mean whose weight depends on the labels: "
                           "parallel.Sum of a loss with reduction='sum' has a rule")
    if isinstance(loss, str) or not callable(loss):
        raise NotSupported(f"loss {loss!r}: cross_entropy, logistic or a function of outputs and labels is expected")
    return None


def of_outputs(loss, count):
    """Returns (function, weight) for each of `count` outputs, from the argument `loss` of `apply`."""
    given = loss if isinstance(loss, (list, tuple)) else [loss]
    if len(given) != count:
        raise NotSupported(f"{len(given)} losses of a model with {count} outputs: one for each is expected, as "
                           "[(F.cross_entropy, 1.0), (F.cross_entropy, 0.4)]")
    losses = [one if isinstance(one, tuple) else (one, 1.0) for one in given]
    for one, _ in losses:
        named(one)
    return losses


def left_out(loss):
    """Returns the label of images that a loss leaves out of its mean, as torch's cross-entropies do and functions of these;
    None for a sum. `loss` is one of Executor's."""
    if isinstance(loss, Sum):
        return None
    return getattr(loss.loss if isinstance(loss, Mean) else loss, "ignore_index", -100)


class Total(torch.autograd.Function):
    """The sum of all ranks' numbers: the same on each. Its gradient is each rank's own."""

    @staticmethod
    def forward(ctx, token, number, meeting):
        def merge(stacked):
            total = stacked[0].clone()
            for each in stacked[1:]:
                total += each
            return total
        return token.clone(), meeting.bring(number.reshape(1), merge).reshape(())

    @staticmethod
    def backward(ctx, token, gradient):
        if torch.is_grad_enabled():  # every rank's backward pass runs this first, so all ranks refuse
            raise NotSupported("create_graph: messages between ranks are differentiated once")
        return token, gradient, None


class SplitCrossEntropy(torch.autograd.Function):
    """The cross-entropy of outputs whose classes are divided: the sum over this rank's images (zero except on the first
    rank of a group), times `factor`. `begin`: the first class of this rank."""

    @staticmethod
    def forward(ctx, token, x, labels, begin, meeting, factor):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        greatest = wide.amax(1)
        total = (wide - greatest[:, None]).exp().sum(1)
        place = labels - begin
        mine = (place >= 0) & (place < x.shape[1])
        logit = torch.where(mine, wide.gather(1, place.clamp(0, x.shape[1] - 1)[:, None])[:, 0], torch.zeros_like(greatest))

        def merge(stacked):
            most = stacked[:, 0].amax(0)
            sums, logits = torch.zeros_like(most), torch.zeros_like(most)
            for each in stacked:
                sums = sums + each[1] * (each[0] - most).exp()
                logits = logits + each[2]
            return torch.stack([most, sums, logits])
        most, sums, logits = meeting.bring(torch.stack([greatest, total, logit]), merge)
        ctx.save_for_backward(x, labels, most, sums)
        ctx.begin, ctx.factor = begin, factor
        value = ((sums.log() + most - logits).sum() * factor).reshape(())
        return token.clone(), value if meeting.devices[0] == meeting.transport.rank else torch.zeros_like(value)

    @staticmethod
    @once_differentiable
    def backward(ctx, token, gradient):
        x, labels, most, sums = ctx.saved_tensors
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        dx = (wide - most[:, None]).exp() / sums[:, None]
        own = torch.arange(ctx.begin, ctx.begin + x.shape[1], device=x.device)
        dx -= (own == labels[:, None]).to(dx.dtype)
        return token, (dx * (gradient * ctx.factor)).to(x.dtype), None, None, None, None


class Sum:
    """A loss that is a sum over images: the loss of a batch is the sum over its parts."""

    def __init__(self, loss):
        self.loss = loss

    def __call__(self, outputs, labels):
        return self.loss(outputs, labels)


MEANS = (torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.SmoothL1Loss, torch.nn.HuberLoss)
MEAN_FUNCTIONS = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)


class Mean:
    """Refuses a function that is not a mean over images, the first time that it gets at least two images. `is_vouched`:
    a mean, if outputs and labels have the same shape."""

    def __init__(self, loss):
        self.loss, self.is_known = loss, False
        self.is_vouched = loss in MEAN_FUNCTIONS or isinstance(loss, MEANS) and loss.reduction == "mean"

    def __call__(self, outputs, labels):
        if not self.is_known and len(outputs) > 1 and isinstance(labels, torch.Tensor):
            self.is_known = True
            with torch.no_grad():
                whole = self.loss(outputs, labels)
                parts = [self.loss(outputs[:1], labels[:1]), self.loss(outputs[1:], labels[1:])]
                if whole.ndim:
                    raise NotSupported(f"a loss of shape {tuple(whole.shape)}: one number is expected")
                mean = (parts[0] + (len(outputs) - 1) * parts[1]) / len(outputs)
                if not torch.allclose(whole, mean, rtol=1e-3, atol=1e-5, equal_nan=True):
                    raise NotSupported(
                        "a loss that is no mean over images: the loss of a batch cannot be told from those of its parts")
        return self.loss(outputs, labels)
