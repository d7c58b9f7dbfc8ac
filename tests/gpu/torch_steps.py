"""A PyTorch program that knows nothing of ucudnn. It runs convolutions of one to three dimensions on whole numbers, and
captures CUDA graphs. Some convolutions are grouped, strided, dilated, transposed or fused. Some shapes also run in the
benchmark mode and the deterministic mode of torch.backends.cudnn. It prints JSON by which two runs can be compared. With
`--brief` it runs one convolution, in two types and two layouts, and no graphs. With `--device cpu` it runs without a GPU."""

import json
import sys

import torch
from graph_kernels import launches
from program import ON_CPU, SHARE, outcome
from torch.nn import functional
from whole_numbers import checksum

DEVICE = "cpu" if ON_CPU else "cuda"
# Each mode has a mini-batch of its own, because for equal shapes PyTorch keeps the choice of an earlier mode.
MODES = {"heuristic": (False, False, 32), "benchmark": (True, False, 24), "deterministic": (False, True, 40)}
CAPTURED, CAPTURED_FIRST = 64, 56  # mini-batches that no other case has; CAPTURED_FIRST never runs outside a capture
FEW = ("5x5 strided", "grouped", "3d")  # shapes for modes in which PyTorch builds and times many plans for each shape
LAST = (None, None, torch.channels_last, torch.channels_last_3d)
# Each name has: dimensions, input channels, output channels, side, window, options of the convolution.
SHAPES = {
    "1d": (1, 64, 64, 500, 5, {"padding": 2}),
    "1x1": (2, 64, 128, 14, 1, {}),
    "5x5 strided": (2, 32, 64, 28, 5, {"stride": 2, "padding": 2}),
    "dilated": (2, 64, 64, 20, 3, {"padding": 2, "dilation": 2}),
    "grouped": (2, 64, 64, 20, 3, {"padding": 1, "groups": 4}),
    "depthwise": (2, 64, 64, 20, 3, {"padding": 1, "groups": 64}),
    "3d": (3, 32, 32, 10, 3, {"padding": 1}),
    "3d strided": (3, 32, 64, 10, 3, {"stride": 2, "padding": 1}),
    "transposed": (2, 64, 32, 14, 3, {"stride": 2, "padding": 1}),
    "3d transposed": (3, 32, 32, 8, 3, {"stride": 2, "padding": 1}),
}


def whole(shape, one_in, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    keep = torch.randint(0, one_in, shape, generator=generator) == 0
    return (sign * keep).to(DEVICE, dtype)


def gradients(function, x_shape, w_shape, dtype, layout=None):
    """Returns a checksum of y, dx and dw of y = function(x, w), computed on whole numbers."""
    arrange = (lambda tensor: tensor.to(memory_format=layout)) if layout else (lambda tensor: tensor)
    x = arrange(whole(x_shape, 8, dtype, 1)).requires_grad_()
    w = arrange(whole(w_shape, 16, dtype, 2)).requires_grad_()
    y = function(x, w)
    dx, dw = torch.autograd.grad(y, (x, w), arrange(whole(tuple(y.shape), 16, dtype, 3)))
    return checksum(*(tensor.detach().float().cpu().numpy() for tensor in (y, dx, dw)))


def convolution(n, name, dtype, last):
    dimensions, inputs, outputs, side, window, options = SHAPES[name]
    transposed, groups = "transposed" in name, options.get("groups", 1)
    inputs, outputs = max(inputs // SHARE, groups), max(outputs // SHARE, groups)
    function = getattr(functional, f"conv{'_transpose' if transposed else ''}{dimensions}d")
    w_shape = (inputs, outputs) if transposed else (outputs, inputs // groups)
    return gradients(lambda x, w: function(x, w, **options), (n, inputs, *[side] * dimensions),
                     (*w_shape, *[window] * dimensions), dtype, LAST[dimensions] if last else None)


def convolutions(n, names):
    results, channels = {}, 64 // SHARE
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for last in (False, True):
            for name in names:
                if not (last and LAST[SHAPES[name][0]] is None):
                    results[f"{name} {str(dtype)[6:]} {'last' if last else 'first'}"] = outcome(
                        convolution, n, name, dtype, last)
    side = 56 // SHARE
    results["large"] = outcome(gradients, lambda x, w: functional.conv2d(x, w, padding=1), (4 * n, channels, side, side),
                               (2 * channels, channels, 3, 3), torch.float32)
    return results


def brief(n):
    """Returns outcomes of a convolution that a limit of 4 MiB divides. Tensor cores take NHWC, so cuDNN rearranges NCHW images
    in its workspace. In 16 bits this workspace is 12.5 MiB for 32 images and 3.3 MiB for 8 images (cuDNN 9.19, H200)."""
    channels, side = 128 // SHARE, 28 // SHARE
    return {f"{str(dtype)[6:]} {'last' if last else 'first'}": outcome(
        gradients, lambda x, w: functional.conv2d(x, w, padding=1), (n, channels, side, side), (channels, channels, 3, 3),
        dtype, LAST[2] if last else None) for dtype in (torch.float16, torch.float32) for last in (False, True)}


def fused(n):
    """Runs convolution, bias and activation in one call, as inference does, with and without an added residual."""
    def run(dtype, layout):
        x = whole((n, 64, 28, 28), 8, dtype, 1).to(memory_format=layout)
        w = whole((64, 64, 3, 3), 16, dtype, 2).to(memory_format=layout)
        z = whole((n, 64, 28, 28), 2, dtype, 4).to(memory_format=layout)
        bias, rest = whole((64,), 2, dtype, 5), ((1, 1), (1, 1), (1, 1), 1)
        outputs = [torch.cudnn_convolution_relu(x, w, bias, *rest),
                   torch.cudnn_convolution_add_relu(x, w, z, 1, bias, *rest)]
        return checksum(*(y.float().cpu().numpy() for y in outputs))

    if DEVICE == "cpu":
        return {}
    return {f"{str(dtype)[6:]} {str(layout)[6:]}": outcome(run, dtype, layout)  # fails with PyTorch's legacy path
            for dtype in (torch.float32, torch.float16) for layout in (torch.contiguous_format, torch.channels_last)}


def new_graph():
    """Returns a CUDA graph, which can be inspected if this version of PyTorch allows it."""
    try:
        return torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:
        return torch.cuda.CUDAGraph()


def captured(n, warm):
    """Returns the results of a convolution, forward and backward, once replayed from a graph and once eager. Also returns the
    graph's kernels if PyTorch shows them. Without `warm` the shape is new to the process when it is captured, and there are no
    eager results."""
    channels, side = 64 // SHARE, 56 // SHARE
    x = whole((n, channels, side, side), 8, torch.float32, 1).requires_grad_()
    w = whole((2 * channels, channels, 3, 3), 16, torch.float32, 2).requires_grad_()
    dy = whole((n, 2 * channels, side, side), 16, torch.float32, 3)

    def step():
        y = functional.conv2d(x, w, padding=1)
        return (y.detach(), *torch.autograd.grad(y, (x, w), dy))

    values = lambda tensors: checksum(*(tensor.cpu().numpy() for tensor in tensors))
    if DEVICE == "cpu":
        return {"eager": values(step()), "replayed": values(step()), "kernels": None}
    if warm:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
    graph = new_graph()
    try:
        with torch.cuda.graph(graph):
            outputs = step()
    except RuntimeError as error:
        if warm:
            raise
        return {"refused": type(error).__name__}  # PyTorch itself may be unable to capture a new shape
    kernels = launches(graph.raw_cuda_graph()) if hasattr(graph, "raw_cuda_graph") else None
    for tensor in outputs:
        tensor.zero_()
    graph.replay()
    torch.cuda.synchronize()
    replayed = values(outputs)
    # Without `warm` there is no eager call: the shape must stay new to this process.
    return {"replayed": replayed, "eager": values(step()) if warm else None, "kernels": kernels}


def main():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    result = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "modes": {}}
    if "--brief" in sys.argv:
        result["modes"]["heuristic"] = {"convolutions": brief(MODES["heuristic"][2] // SHARE)}
        print(json.dumps(result))
        return
    for mode, (benchmark, deterministic, n) in MODES.items():
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = benchmark, deterministic
        n //= SHARE
        result["modes"][mode] = {"convolutions": convolutions(n, SHAPES if mode == "heuristic" else FEW), "fused": fused(n)}
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
    result["captured"] = outcome(captured, CAPTURED // SHARE, True)
    result["captured first"] = outcome(captured, CAPTURED_FIRST // SHARE, False)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
