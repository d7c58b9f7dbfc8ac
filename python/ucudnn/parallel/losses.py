"""Losses of a whole batch, computed from each rank's part of the outputs: a mean over the images of all ranks (not a
mean of the ranks' means), or a sum over images (Sum)."""
import contextlib
import math

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from .errors import NotSupported


def named(loss):
    """Returns "cross_entropy" or "logistic" for torch's own function or module with default arguments. Returns None for
    any other function; a rank calls such a function with its own images only."""
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
    """Returns a list of (function, weight), one for each of `count` outputs. `loss` is the argument of `apply`."""
    given = loss if isinstance(loss, (list, tuple)) else [loss]
    if len(given) != count:
        raise NotSupported(f"{len(given)} losses of a model with {count} outputs: one for each is expected, as "
                           "[(F.cross_entropy, 1.0), (F.cross_entropy, 0.4)]")
    losses = [one if isinstance(one, tuple) else (one, 1.0) for one in given]
    for one, _ in losses:
        named(one)
    return losses


FUNCTIONS = {"cross_entropy": F.cross_entropy, "logistic": F.binary_cross_entropy_with_logits}


def misfit(loss, shape, labels, is_divided):
    """Returns (what, why) if `labels` do not fit outputs whose shape for one image is `shape`, otherwise None. `loss`
    is an element of Executor.losses. `is_divided`: the classes are divided between ranks."""
    inner = loss.loss if isinstance(loss, (Mean, Sum)) else loss
    has_classes = loss == "cross_entropy" or isinstance(inner, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss))
    if labels.is_floating_point() and is_divided and loss == "cross_entropy":
        return "labels that are probabilities", "whole numbers are expected, as classes are divided"
    if loss in FUNCTIONS:  # call the function on small tensors: it refuses unsuitable types and shapes itself
        like = labels.dtype if labels.is_floating_point() else torch.float32
        try:
            FUNCTIONS[loss](torch.zeros(1, *shape, dtype=like), torch.zeros_like(labels[:1], device="cpu"))
        except (RuntimeError, ValueError) as error:
            return f"labels of {labels.dtype} with shape {tuple(labels.shape[1:])} for each image", str(error).splitlines()[0]
    if labels.is_floating_point() or isinstance(loss, Sum) or not labels.numel():
        return None
    ignored = getattr(inner, "ignore_index", -100)
    if (labels == ignored).any():
        return f"labels of {ignored}, which the loss leaves out of its mean,", (
            "the mean over all images is expected; parallel.Sum of a loss with reduction='sum' has a rule")
    low, high = torch.stack(labels.aminmax()).tolist()
    if has_classes and not 0 <= low <= high < shape[0]:
        return f"labels of {low if low < 0 else high}", f"0 to {shape[0] - 1} are expected, as there are {shape[0]} classes"
    return None


def refuse_parameters(function, number, outputs, parameters):
    """Refuses a loss with trained parameters of its own: each rank would get their gradient for its own images only.
    `number` is the loss, `outputs` the grad_fn of the model's outputs, `parameters` the model's parameters by name."""
    left, seen, known = [number.grad_fn], {None, *outputs}, {id(one) for one in parameters.values()}
    while left:
        step = left.pop()
        if step not in seen:
            seen.add(step)
            left += [before for before, _ in step.next_functions]
            leaf = getattr(step, "variable", None)
            if leaf is not None and id(leaf) not in known:
                named = function.named_parameters() if isinstance(function, torch.nn.Module) else ()
                name = next((name for name, one in named if one is leaf), "a tensor")
                raise NotSupported(
                    f"a loss in which {name} of shape {tuple(leaf.shape)} requires a gradient, of which each rank would have that of "
                    "its own images: a layer of the model is expected, or requires_grad_(False)")


class Total(torch.autograd.Function):
    """Sums the ranks' numbers; every rank gets the same sum. In backward, this rank's own number gets the gradient
    unchanged, without an exchange. `backwards`: a (Counter, key) that counts backward passes, or None."""

    @staticmethod
    def forward(ctx, token, number, meeting, backwards):
        ctx.backwards = backwards
        def merge(stacked):
            total = stacked[0].clone()
            for each in stacked[1:]:
                total += each
            return total
        return token.clone(), meeting.bring(number.reshape(1), merge).reshape(())

    @staticmethod
    def backward(ctx, token, gradient):
        if torch.is_grad_enabled():  # every rank's backward pass comes here before any exchange, so all ranks refuse
            raise NotSupported("create_graph: messages between ranks are differentiated once")
        if ctx.backwards is not None:
            counter, key = ctx.backwards
            counter[key] += 1
        return token, gradient, None, None


class SplitCrossEntropy(torch.autograd.Function):
    """The cross-entropy of outputs whose classes are divided between the ranks of a group. On the group's first rank
    the result is `factor` times the sum over the images; on the other ranks it is 0. `begin`: the first class of this
    rank."""

    @staticmethod
    def forward(ctx, token, x, labels, begin, meeting, factor):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        # the clamp avoids -inf - -inf where all classes of a rank are masked by -inf
        greatest = wide.amax(1).clamp(min=torch.finfo(wide.dtype).min)
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
    """A loss that is a sum over images, so the loss of a batch is the sum of the losses of its parts."""

    def __init__(self, loss):
        self.loss = loss

    def __call__(self, outputs, labels):
        return self.loss(outputs, labels)


def kind_of(labels):
    return labels.dtype, labels.shape[1:]


def reference_numbers(loss, outputs, labels):
    """Returns two losses, of `outputs` and of 8 * `outputs`, for a comparison between ranks. A loss is NaN if the
    function raises."""
    found = []
    for x in (outputs.clone(), 8 * outputs):
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[x.device] if x.is_cuda else ()):
                torch.manual_seed(0)
                found.append(float(loss(x, labels)))
        except Exception:  # the program's function may raise any type of error; it raises again when the real loss is computed
            found.append(math.nan)
    return found


MEANS = (torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.SmoothL1Loss, torch.nn.HuberLoss)
MEAN_FUNCTIONS = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)


class Mean:
    """Calls a loss function, and checks that the function is a mean over images. The loss of a mean for some images is
    the mean of its losses for two parts of them, weighted by the parts' sizes; if it is not, the call raises
    NotSupported. A call cuts the batch in two parts for this check; only the first call does so if `is_vouched` or if
    there is a reference. Unless `is_vouched`, a call also checks made-up images with the labels of the batch, and the
    images of the batch together with the reference. `is_vouched`: the function is known to be a mean if outputs and
    labels have the same shape."""

    def __init__(self, loss):
        self.loss, self.is_known, self.classes = loss, False, set()  # classes: labels that _compare_classes has compared
        self.references = {}  # {(type, shape) of labels: (outputs, labels)}, with the same values on all ranks
        self.is_vouched = loss in MEAN_FUNCTIONS or isinstance(loss, MEANS) and loss.reduction == "mean"

    def __call__(self, outputs, labels):
        if isinstance(labels, torch.Tensor) and len(outputs) and not labels.is_meta:
            with torch.no_grad():
                reference = self.references.get(kind_of(labels))
                if len(outputs) > 1 and not (self.is_known and (self.is_vouched or reference)):
                    parts = [self.loss(outputs[:1], labels[:1]), self.loss(outputs[1:], labels[1:])]
                    self._compare(self.loss(outputs, labels), parts, (1, len(outputs) - 1), "")
                    self.is_known = True
                if not labels.is_floating_point() and not self.is_vouched:
                    self._compare_classes(outputs, labels)
                if reference and not self.is_vouched:
                    self._compare_beside(outputs, labels, *reference)
        return self.loss(outputs, labels)

    def _compare(self, whole, parts, counts, of, within=1e-4):
        """`whole` must be the mean of the two `parts` (losses of the first images and of the rest), weighted by
        `counts`, the numbers of images."""
        if whole.ndim:
            raise NotSupported(f"a loss of shape {tuple(whole.shape)}: one number is expected")
        mean = (counts[0] * parts[0] + counts[1] * parts[1]) / sum(counts)
        if not torch.allclose(whole, mean, rtol=within if of else 1e-3, atol=1e-5, equal_nan=not of):
            raise NotSupported(
                f"a loss that is no mean over images{of}: the loss of a batch cannot be told from those of its parts")

    def _compare_beside(self, outputs, labels, others, their_labels):
        """Checks that the loss of this rank's images and the reference together is the mean of their separate losses.
        Otherwise the mean of the ranks' losses is not the whole batch's loss."""
        count = len(outputs) if outputs[0].numel() <= 4096 else min(len(outputs), 2)  # larger outputs take too much memory
        place = torch.arange(count, device=outputs.device) % len(others)
        wide = torch.promote_types(outputs.dtype, torch.float32)
        for like in dict.fromkeys((wide, outputs.dtype)):
            x, y = outputs.to(like), others[place].to(like)
            # if the function has parameters of the outputs' type, it does not accept the wider type
            with contextlib.suppress(*([RuntimeError] if like != outputs.dtype else [])):
                whole = self.loss(torch.cat([x, y]), torch.cat([labels, their_labels[place]]))
                parts = [self.loss(x.clone(), labels), self.loss(y, their_labels[place])]
                self._compare(whole, parts, (len(x), count), ", as beside other images", 1e-4 if like == wide else 2.0**-5)
                break

    def _compare_classes(self, outputs, labels):
        """Checks that the loss of two made-up images with different labels is the mean of their separate losses. Uses
        all classes as labels, or the smallest and the largest label if labels are not classes."""
        new = set(torch.stack(labels.aminmax()).tolist()) - self.classes
        if not new:
            return
        if not self.classes and labels.ndim == outputs.ndim - 1:
            new |= set(range(outputs.shape[1]))
        generator, found = torch.Generator(outputs.device).manual_seed(0), []
        # A function with parameters of the outputs' type may refuse the wider type, so the second attempt uses the
        # outputs' type.
        for like in (torch.promote_types(outputs.dtype, torch.float32), outputs.dtype):
            x = torch.rand((2, *outputs.shape[1:]), generator=generator, device=outputs.device, dtype=like)
            for label in [*sorted(self.classes)[:1], *sorted(new)]:
                place, one = len(found) % 2, torch.full_like(labels[:1], label)
                # the function raises these errors for a label that it does not accept
                with contextlib.suppress(IndexError, RuntimeError):
                    found.append((label, one, self.loss(x[place:place + 1], one)))
            for place, (before, after) in enumerate(zip(found, found[1:])):
                whole = self.loss(x if place % 2 == 0 else x.flip(0), torch.cat([before[1], after[1]]))
                self._compare(whole, [before[2], after[2]], (1, 1), f", as with labels {before[0]} and {after[0]}")
            if found:
                break
        self.classes |= new
