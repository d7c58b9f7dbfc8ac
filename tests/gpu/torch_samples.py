"""A PyTorch program that knows nothing of ucudnn. It runs the convolution samples that PyTorch's wheel carries for its own
tests (torch.testing's OpInfos), with larger mini-batches. It compares the samples' results, forward and backward in every type,
with the CPU's results in float64, and runs gradcheck on small samples. It prints the outcome of each sample as JSON. With
`--device cpu` it runs some samples without a GPU."""

import itertools
import json
import sys
import types
import unittest

import torch

try:
    import expecttest  # noqa: F401
except ImportError:  # PyTorch's test tools import expecttest, but the functions used here do not need it
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DEVICE = "cpu" if sys.argv[1:] == ["--device", "cpu"] else "cuda"
OPERATORS = tuple(f"nn.functional.conv{kind}{dimensions}d" for kind in ("", "_transpose") for dimensions in (1, 2, 3))
TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)[:2 if DEVICE == "cpu" else 4]
MOST = 10 if DEVICE == "cpu" else None  # the largest number of samples of an operator
COPIES = 8  # the factor by which a sample's mini-batch grows, so that ucudnn can divide it


def moved(value, function):
    """Returns `value`, with its tensors changed by `function`."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        return type(value)(moved(each, function) for each in value)
    if isinstance(value, dict):
        return {key: moved(each, function) for key, each in value.items()}
    return value


def with_images(sample):
    """If the sample's images have a batch dimension, that is, as many dimensions as the filter, returns random images,
    COPIES times as many as the sample has. Otherwise returns the sample's images."""
    images = sample.input
    if images.dim() == sample.args[0].dim() and len(images) > 0:
        generator = torch.Generator().manual_seed(1)
        shape = (COPIES * len(images), *images.shape[1:])
        images = torch.randn(shape, generator=generator, dtype=torch.float64).to(images.dtype)
    return images


def outputs(operator, images, args, kwargs, device, dtype):
    """Returns the result y and the gradients of the images and of all tensors among the arguments."""
    place = lambda tensor: tensor.detach().to(device, dtype).requires_grad_()
    images, args, kwargs = moved(images, place), moved(args, place), moved(kwargs, place)
    y = operator(images, *args, **kwargs)
    leaves = [images, *(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))]
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(device, dtype)
    return [y.detach(), *torch.autograd.grad(y, leaves, weights)]


def outcome(operator, sample, dtype):
    """Returns 'ok', or a text that says what is wrong. Errors are relative to the largest element of a tensor (at least
    1), since an element is a sum whose rounding grows with the size of its terms."""
    # The inputs are rounded to `dtype`, so that both devices compute with equal numbers.
    hold = lambda tensor: tensor.to(dtype).double()
    given = [moved(each, hold) for each in (with_images(sample), sample.args, sample.kwargs)]
    try:
        got = outputs(operator, *given, DEVICE, dtype)
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    expected = outputs(operator, *given, "cpu", torch.float64)
    for number, (tensor, reference) in enumerate(zip(got, expected, strict=True)):
        if reference.numel() == 0:
            continue
        error = (tensor.double().cpu() - reference).abs().max().item()
        allowed = 64 * torch.finfo(dtype).eps * max(reference.abs().max().item(), 1)
        if not error <= allowed:
            return f"result {number} is {error:.2e} off, {allowed:.2e} allowed"
    return "ok"


def gradchecked(operator, sample):
    place = lambda tensor: tensor.detach().to(DEVICE, torch.float64).requires_grad_()
    args, kwargs = moved(sample.args, place), moved(sample.kwargs, place)
    images = place(sample.input)
    try:
        checked = torch.autograd.gradcheck(lambda images, *args: operator(images, *args, **kwargs), (images, *args))
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "ok" if checked else "gradcheck failed"


def outcomes():
    """Returns the outcome of each sample by name."""
    results = {}
    for info in op_db:
        if info.name not in OPERATORS:
            continue
        for dtype in TYPES:
            if dtype not in info.supported_dtypes(DEVICE):
                continue
            torch.manual_seed(0)
            samples = info.sample_inputs("cpu", torch.float64, requires_grad=False)
            for number, sample in enumerate(itertools.islice(samples, MOST)):
                name = f"{info.name} {str(dtype)[6:]} {number}"
                results[name] = outcome(info.op, sample, dtype)
                if dtype == torch.float64 and sample.input.numel() * sample.args[0].numel() < 4000:
                    results[f"{name} gradcheck"] = gradchecked(info.op, sample)
    return results


def main():
    # PyTorch's test tools refuse permanent changes of these flags.
    with torch.backends.cudnn.flags(True, benchmark=False, deterministic=False, allow_tf32=False):
        print(json.dumps({"torch": torch.__version__, "samples": outcomes()}))


if __name__ == "__main__":
    main()
