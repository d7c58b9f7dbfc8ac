"""Trains a model by a plan with cuDNN's convolutions, on each rank of parallel_cudnn_test.py. PyTorch calls cuDNN only
on a GPU, so this file replaces F.conv2d by a function that calls cuDNN's C API in fp64."""
import copy
import ctypes
import pathlib
import sys

import schedules
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from ucudnn import parallel

BATCH, STEPS = 8, 3
DOUBLE, NCHW, CROSS_CORRELATION, TO_DEVICE, TO_HOST = 1, 0, 1, 1, 2
WORKSPACE_BYTES = 1 << 20


def ask(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    assert status == 0, f"{name}: {status}"


def made(library, name, *arguments):
    """Calls a function of `library` that creates an object and writes its pointer to the first argument. Returns the
    pointer."""
    made = ctypes.c_void_p()
    ask(library, name, ctypes.byref(made), *arguments)
    return made


class Cudnn:
    def __init__(self):
        self.cudnn, self.cuda = ctypes.CDLL("libcudnn.so.9"), ctypes.CDLL("libcudart.so")
        self.handle = made(self.cudnn, "cudnnCreate")
        self.workspace = made(self.cuda, "cudaMalloc", ctypes.c_size_t(WORKSPACE_BYTES))

    def convolve(self, kind, first, second, result, window):
        """Calls cudnnConvolution`kind`. `first`, `second` and `result` are (tensor, kind of descriptor: "Tensor" or
        "Filter"). `window` is (stride, padding, dilation)."""
        (stride, padding, dilation), tensors, descriptors, places = window, (first, second, result), [], []
        convolution = made(self.cudnn, "cudnnCreateConvolutionDescriptor")
        ask(self.cudnn, "cudnnSetConvolution2dDescriptor", convolution, *padding, *stride, *dilation, CROSS_CORRELATION, DOUBLE)
        for tensor, what in tensors:
            descriptors.append(made(self.cudnn, f"cudnnCreate{what}Descriptor"))
            types = (NCHW, DOUBLE) if what == "Tensor" else (DOUBLE, NCHW)
            ask(self.cudnn, f"cudnnSet{what}4dDescriptor", descriptors[-1], *types, *tensor.shape)
            places.append(made(self.cuda, "cudaMalloc", ctypes.c_size_t(8 * tensor.numel())))
            self.copy(places[-1], ctypes.c_void_p(tensor.data_ptr()), tensor, TO_DEVICE)
        # `found` is memory for a cudnnConvolutionFwdAlgoPerf_t, whose first member is the algorithm.
        found, count = (ctypes.c_int * 64)(), ctypes.c_int()
        ask(self.cudnn, f"cudnnGetConvolution{kind}Algorithm_v7", self.handle, *descriptors[:2], convolution, descriptors[2], 1,
            ctypes.byref(count), found)
        one, zero = ctypes.byref(ctypes.c_double(1)), ctypes.byref(ctypes.c_double(0))
        ask(self.cudnn, f"cudnnConvolution{kind}", self.handle, one, descriptors[0], places[0], descriptors[1], places[1],
            convolution, found[0], self.workspace, ctypes.c_size_t(WORKSPACE_BYTES), zero, descriptors[2], places[2])
        self.copy(ctypes.c_void_p(result[0].data_ptr()), places[2], result[0], TO_HOST)
        for place in places:
            ask(self.cuda, "cudaFree", place)
        return result[0]

    def copy(self, to, source, tensor, direction):
        ask(self.cuda, "cudaMemcpy", to, source, ctypes.c_size_t(8 * tensor.numel()), direction)


class Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, cudnn, window):
        ctx.save_for_backward(x, weight)
        ctx.cudnn, ctx.window = cudnn, window
        extents = [(e + 2 * p - d * (w - 1) - 1) // s + 1 for e, w, s, p, d in zip(x.shape[2:], weight.shape[2:], *window)]
        y = x.new_empty(len(x), len(weight), *extents)
        return cudnn.convolve("Forward", (x, "Tensor"), (weight, "Filter"), (y, "Tensor"), window)

    @staticmethod
    def backward(ctx, dy):
        (x, weight), dy, dx = ctx.saved_tensors, (dy.contiguous(), "Tensor"), None
        if ctx.needs_input_grad[0]:
            dx = ctx.cudnn.convolve("BackwardData", (weight, "Filter"), dy, (torch.empty_like(x), "Tensor"), ctx.window)
        return dx, ctx.cudnn.convolve("BackwardFilter", (x, "Tensor"), dy, (torch.empty_like(weight), "Filter"),
                                      ctx.window), None, None


def pair_of(value):
    return [value] * 2 if isinstance(value, int) else list(value)


def main(folder):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.Flatten(),
                          nn.Linear(6 * 8 * 8, 5))
    single, network = copy.deepcopy(model), parallel.describe(model, (3, 8, 8))
    axes, plan = {"0": "n", "2": "c"}, pathlib.Path(folder, "plan.json")
    if dist.get_rank() == 0:
        plan.write_text(schedules.Writer(network, BATCH, 2, lambda node: (
            dict.fromkeys("nchwr", 1) | {axes.get(node.name, "n"): 2}, 0)).text())
    dist.barrier()
    divided = parallel.apply(model, plan, loss=F.cross_entropy, network=network)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (divided, single)]
    plain, cudnn = F.conv2d, Cudnn()

    def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1):
        y = Convolution.apply(x.contiguous(), weight.contiguous(), cudnn, [pair_of(one) for one in (stride, padding, dilation)])
        return y if bias is None else y + bias.view(1, -1, 1, 1)
    for step in range(STEPS):
        x, y = torch.randn(BATCH, 3, 8, 8), torch.randint(0, 5, (BATCH,))
        for optimizer in optimizers:
            optimizer.zero_grad()
        F.conv2d = conv2d
        found = divided(x, y)
        found.backward()
        F.conv2d = plain
        wanted = F.cross_entropy(single(x), y)
        wanted.backward()
        for optimizer in optimizers:
            optimizer.step()
        assert abs(found.item() - wanted.item()) <= 1e-12, (step, found, wanted)
    for name, parameter in single.named_parameters():
        own = divided.get_parameter(name)
        assert torch.allclose(own, divided._ucudnn.shards[name].of(parameter), rtol=1e-10, atol=1e-12), name
    assert parallel.report(divided).difference() == 0
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
