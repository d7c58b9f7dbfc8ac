"""A PyTorch program that knows nothing of ucudnn: convolutions on whole numbers in every mode of torch.backends.cudnn,
a few training steps, a captured CUDA graph. Prints JSON that two runs can be compared by."""

import json
import time

import torch
from whole_numbers import checksum

# A mini-batch of its own for each mode, because PyTorch keeps the choice of an earlier one for equal shapes.
MODES = {"heuristic": (False, False, 32), "benchmark": (True, False, 24), "deterministic": (False, True, 40)}


def whole(shape, one_in, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    keep = torch.randint(0, one_in, shape, generator=generator) == 0
    return (sign * keep).to("cuda", dtype)


def convolution(n, channels, filters, size, dtype, layout):
    """y, dx and dw of one convolution, on whole numbers."""
    x = whole((n, channels, size, size), 8, dtype, 1).to(memory_format=layout).requires_grad_()
    w = whole((filters, channels, 3, 3), 16, dtype, 2).to(memory_format=layout).requires_grad_()
    y = torch.nn.functional.conv2d(x, w, padding=1)
    dx, dw = torch.autograd.grad(y, (x, w), whole(tuple(y.shape), 16, dtype, 3).to(memory_format=layout))
    return [tensor.detach().float().cpu().numpy() for tensor in (y, dx, dw)]


def convolutions(n):
    results = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for layout in (torch.contiguous_format, torch.channels_last):
            name = f"{str(dtype)[6:]} {str(layout)[6:]}"
            results[name] = checksum(*convolution(n, 64, 64, 14, dtype, layout))
    results["large"] = checksum(*convolution(4 * n, 64, 128, 56, torch.float32, torch.contiguous_format))
    return results


def training(n):
    """Losses of a small network, and the time of its last steps. No layer of it adds in an order of chance."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 5, padding=2), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.ReLU(),
        torch.nn.Conv2d(64, 64, 3, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64 * 8 * 8, 10)).cuda()
    images, labels = torch.randn(n, 3, 64, 64).cuda(), torch.randint(0, 10, (n,)).cuda()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
    losses, start = [], 0
    for step in range(8):
        if step == 3:
            torch.cuda.synchronize()
            start = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(layers(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.cuda.synchronize()
    return losses, (time.perf_counter() - start) / 5 * 1000


def captured():
    """Whether a captured and replayed convolution, forward and backward, gives what the eager one gave."""
    x = whole((16, 32, 28, 28), 8, torch.float32, 1).requires_grad_()
    w = whole((64, 32, 3, 3), 16, torch.float32, 2).requires_grad_()
    dy = whole((16, 64, 28, 28), 16, torch.float32, 3)

    def step():
        y = torch.nn.functional.conv2d(x, w, padding=1)
        return (y.detach(), *torch.autograd.grad(y, (x, w), dy))

    values = lambda tensors: checksum(*(tensor.cpu().numpy() for tensor in tensors))
    eager = values(step())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = step()
    for tensor in outputs:
        tensor.zero_()
    graph.replay()
    torch.cuda.synchronize()
    return {"eager": eager, "replayed": values(outputs)}


def main():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    result = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "modes": {}}
    for mode, (benchmark, deterministic, n) in MODES.items():
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = benchmark, deterministic
        losses, step_ms = training(n)
        result["modes"][mode] = {"convolutions": convolutions(n), "losses": losses, "step_ms": step_ms}
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
    result["captured"] = captured()
    print(json.dumps(result))


main()
