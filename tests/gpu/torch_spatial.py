"""Runs ucudnn.spatial on one GPU, which the ranks share. Exchanges for cuDNN's calls use the transport `loopback`.
Exchanges by torch.distributed use gloo, through the host. Only in the mode `replayed` does each rank have its own GPU.
Prints JSON. With `--device cpu` it runs without a GPU and without CUDA graphs.

    torch_spatial.py backends         prints each convolution's backend in torch, and that backend's route in ucudnn.spatial
    torch_spatial.py whole FOLDER     decodes a picture with a VAE of random weights in fp64 and fp32, and saves the fp64 one
    torch_spatial.py rank FOLDER      decodes the picture in stripes, as one rank, and prints the distance from the saved one
    torch_spatial.py step FOLDER      trains convolutions with batch norms for a step, differentiates a penalty on gradients through
                                      convolutions, both in fp64 and fp32, and saves the numbers
    torch_spatial.py striped FOLDER   does the same as the mode `step` in stripes with converted models, as one rank
    torch_spatial.py steps FOLDER     trains these layers for some steps, and applies convolutions to the same images, in fp64
    torch_spatial.py replayed FOLDER  takes the steps in stripes as one rank, each as a launch of one CUDA graph, over NCCL
    torch_spatial.py shared FOLDER    applies the convolutions in stripes by launches of one CUDA graph, over loopback, and
                                      prints why the capture of a batch norm is refused
"""

import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from ucudnn import spatial
from ucudnn.spatial.backends import route

DEVICE = "cpu" if sys.argv[-2:] == ["--device", "cpu"] else "cuda"
ROWS, ROUNDS = (16, 1) if DEVICE == "cpu" else (64, 5)  # the latent has ROWS rows and columns

# Each name has: dimensions, channels, filters, filter size, stride, padding, dilation, groups, whether it is transposed.
CONVOLUTIONS = {
    "1-D": (1, 8, 16, 3, 1, 1, 1, 1, False), "2-D": (2, 8, 16, 3, 1, 1, 1, 1, False), "3-D": (3, 8, 16, 3, 1, 1, 1, 1, False),
    "1x1": (2, 8, 16, 1, 1, 0, 1, 1, False), "stride 2": (2, 8, 16, 3, 2, 1, 1, 1, False),
    "7x7 stride 2": (2, 3, 16, 7, 2, 3, 1, 1, False), "dilated": (2, 8, 16, 3, 1, 2, 2, 1, False),
    "dilated 3-D": (3, 8, 16, 3, 1, 2, 2, 1, False), "grouped": (2, 8, 16, 3, 1, 1, 1, 4, False),
    "depthwise": (2, 16, 16, 3, 1, 1, 1, 16, False), "depthwise 3-D": (3, 16, 16, 3, 1, 1, 1, 16, False),
    "depthwise 1-D": (1, 16, 16, 3, 1, 1, 1, 16, False), "even": (2, 8, 16, 4, 2, 1, 1, 1, False),
    "transposed": (2, 8, 16, 2, 2, 0, 1, 1, True), "transposed 4x4": (2, 8, 16, 4, 2, 1, 1, 1, True),
    "transposed 3-D": (3, 8, 16, 2, 2, 0, 1, 1, True), "transposed depthwise": (2, 16, 16, 2, 2, 0, 1, 16, True),
}
LAYOUTS = {2: torch.channels_last, 3: torch.channels_last_3d}


def backend(shape, dtype, is_last):
    dims, channels, filters, size, stride, pad, dilation, groups, transposed = shape
    x = torch.empty(2, channels, *[32] * dims, dtype=dtype, device=DEVICE)
    if is_last:
        x = x.contiguous(memory_format=LAYOUTS[dims])
    outer = (channels, filters // groups) if transposed else (filters, channels // groups)
    weight = torch.empty(*outer, *[size] * dims, dtype=dtype, device=DEVICE)
    return torch._C._select_conv_backend(x, weight, None, [stride] * dims, [pad] * dims, [dilation] * dims, transposed,
                                         [0] * dims, groups).name


def backends():
    """Returns torch's backends as {convolution: {type and layout: [backend, the module's route for it]}}."""
    found = {}
    for name, shape in CONVOLUTIONS.items():
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            for is_last in (False, True) if shape[0] in LAYOUTS else (False,):
                chosen = backend(shape, dtype, is_last)
                found.setdefault(name, {})[f"{str(dtype)[6:]}{' channels_last' * is_last}"] = [
                    chosen, route(chosen, DEVICE == "cuda")]
    return {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "backends": found}


def vae(dtype):
    from diffusers import AutoencoderKL
    torch.manual_seed(0)
    widths = (32, 32, 32) if DEVICE == "cpu" else (64, 128, 128)
    model = AutoencoderKL(latent_channels=4, block_out_channels=widths, norm_num_groups=16,
                          down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3)
    latent = torch.randn(1, 4, ROWS, ROWS, dtype=torch.float64)
    return model.eval().to(DEVICE, dtype), latent.to(DEVICE, dtype)


def timed(decode):
    """Returns the result of `decode`, and the median of its times in ms over ROUNDS calls after the first."""
    with torch.no_grad():
        result, taken = decode(), []
        for _ in range(ROUNDS):
            begin = mark()
            decode()
            taken.append(1000 * (mark() - begin))
    return result, statistics.median(taken)


def mark():
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def distance(found, exact):
    """Returns the largest absolute difference relative to the largest absolute value of `exact`."""
    exact = exact.to(found.device)
    return ((found.double() - exact).abs().max() / exact.abs().max()).item()


def whole(folder):
    figures, exact = {}, None
    for dtype in (torch.float64, torch.float32):
        model, latent = vae(dtype)
        picture, ms = timed(lambda: model.decode(latent).sample)
        if exact is None:
            exact = picture
            torch.save(exact.cpu(), folder / "whole.pt")
        figures[str(dtype)[6:]] = {"ms": ms, "distance": distance(picture, exact)}
    return {"torch": torch.__version__, "shape": list(exact.shape), "decoded": figures}


def normed(dtype):
    """Returns a model of convolutions with batch norms, and images for it."""
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1),
                          nn.BatchNorm2d(8), nn.ReLU())
    images = torch.randn(2, 4, ROWS, ROWS, dtype=torch.float64)
    return model.to(DEVICE, dtype), images.to(DEVICE, dtype)


def stepped(model, images):
    """Returns the loss, the gradients of all parameters and the running statistics, as one flat tensor."""
    loss = model(images).square().mean()
    loss.backward()
    found = [loss.detach(), *(parameter.grad for parameter in model.parameters())]
    found += [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    return torch.cat([spatial.gather(each).double().flatten() for each in found])


def step(folder):
    exact = stepped(*normed(torch.float64))
    second = penalised(*convolutions())
    torch.save(exact.cpu(), folder / "step.pt")
    torch.save(second.cpu(), folder / "penalty.pt")
    return {"torch": torch.__version__, "numbers": exact.numel(),
            "stepped": {"float32": {"distance": distance(stepped(*normed(torch.float32)), exact)}},
            "penalised": {"float32": {"distance": distance(penalised(*convolutions(torch.float32)), second)}}}


def penalised(model, images):
    """Returns a penalty on the images' gradients, and its gradients of all parameters, as one flat tensor."""
    images = images.detach().requires_grad_()
    gradient, = torch.autograd.grad(model(images).square().mean(), images, create_graph=True)
    penalty = gradient.square().sum()
    found = [penalty, *torch.autograd.grad(penalty, list(model.parameters()), materialize_grads=True)]
    return torch.cat([spatial.gather(each.detach()).double().flatten() for each in found])


def striped(folder):
    meet(folder)
    exact, figures = torch.load(folder / "step.pt"), {}
    second, penalties = torch.load(folder / "penalty.pt"), {}
    for dtype in (torch.float64, torch.float32):
        model, images = normed(dtype)
        figures[str(dtype)[6:]] = {"distance": distance(stepped(spatial.convert(model), spatial.shard(images)), exact)}
        model, images = convolutions(dtype)
        found = penalised(spatial.convert(model), spatial.shard(images))
        penalties[str(dtype)[6:]] = {"distance": distance(found, second)}
    dist.barrier()
    return {"rank": dist.get_rank(), "stepped": figures, "penalised": penalties}


def launched(run, images, restore=lambda: None):
    """Runs `run` on each of `images` by launches of one CUDA graph, and returns the last result. Before the graph is captured,
    `run` runs twice outside of a capture, and `restore` undoes what these runs changed."""
    if DEVICE == "cpu":
        for each in images:
            result = run(each)
        return result
    given, graph, beside = images[0].clone(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(2):
            run(given)
    torch.cuda.current_stream().wait_stream(beside)
    restore()
    with torch.cuda.graph(graph):
        result = run(given)
    for each in images:
        given.copy_(each)
        graph.replay()
    torch.cuda.synchronize()
    return result


def batches():
    _, images = normed(torch.float64)
    return [images * (i + 1) / 4 for i in range(4)]


def trained(model, images, run_all):
    """Returns parameters, running statistics and last gradients after one step on each of `images`. `run_all(step, images,
    restore)` takes the steps."""
    beginning = [tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers())]

    def step(x):
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        model(x).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.05)

    def restore():
        with torch.no_grad():
            for tensor, value in zip((*model.parameters(), *model.buffers()), beginning):
                tensor.copy_(value)
    run_all(step, images, restore)
    found = [*model.parameters(), *model.buffers(), *(parameter.grad for parameter in model.parameters())]
    return torch.cat([each.detach().double().flatten() for each in found])


def convolutions(dtype=torch.float64):
    """Returns a model of convolutions with only pointwise layers between them, and images for it."""
    model, images = normed(dtype)
    return torch.nn.Sequential(*(layer for layer in model if not isinstance(layer, torch.nn.BatchNorm2d))), images


def steps(folder):
    def run_all(step, images, restore):
        for each in images:
            step(each)
    numbers = trained(normed(torch.float64)[0], batches(), run_all)
    with torch.no_grad():
        applied = convolutions()[0](batches()[-1])
    torch.save({"trained": numbers.cpu(), "applied": applied.cpu()}, folder / "steps.pt")
    return {"torch": torch.__version__, "numbers": numbers.numel()}


def replayed(folder):
    meet(folder, "gloo" if DEVICE == "cpu" else "nccl")
    exact, model = torch.load(folder / "steps.pt")["trained"], spatial.convert(normed(torch.float64)[0])
    numbers = trained(model, [spatial.shard(images) for images in batches()], launched)
    dist.barrier()
    return {"rank": dist.get_rank(), "distance": distance(numbers, exact)}


def shared(folder):
    meet(folder)
    exact, model = torch.load(folder / "steps.pt")["applied"], spatial.convert(convolutions()[0])
    stripes = [spatial.shard(images) for images in batches()]
    with torch.no_grad():
        rows = launched(model, stripes)
        figures = {"rank": dist.get_rank(), "distance": distance(spatial.gather(rows), exact), "refused": None}
    dist.barrier()
    if DEVICE == "cuda":  # this comes last, because a refused call breaks its capture
        normalised = spatial.convert(normed(torch.float64)[0])
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                normalised(stripes[0])
        except RuntimeError as error:
            refusal = error if isinstance(error, spatial.NotSupported) else error.__context__
            figures["refused"] = str(refusal)
    return figures


def meet(folder, backend="gloo"):
    """Initialises torch.distributed. Ranks that share a GPU use gloo; with NCCL each rank uses the GPU whose number is its
    rank."""
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["RANK"]))
    dist.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))


def rank(folder):
    meet(folder)
    exact, figures = torch.load(folder / "whole.pt"), {}
    for dtype in (torch.float64, torch.float32):
        model, latent = vae(dtype)
        model, stripe = spatial.convert(model), spatial.shard(latent, 2)
        rows, ms = timed(lambda: model.decode(stripe).sample)
        with torch.no_grad():
            picture = spatial.gather(rows)
        own = spatial.to_local(rows).shape
        assert own[2] < exact.shape[2], f"{tuple(own)} is no stripe of {tuple(exact.shape)}"
        figures[str(dtype)[6:]] = {"ms": ms, "distance": distance(picture, exact)}
    dist.barrier()  # no rank ends while another one waits for it
    return {"rank": dist.get_rank(), "decoded": figures}


def main():
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if DEVICE == "cpu":
        torch.set_num_threads(1)
    modes = {"backends": backends, "whole": whole, "rank": rank, "step": step, "striped": striped,
             "steps": steps, "replayed": replayed, "shared": shared}
    print(json.dumps(modes[sys.argv[1]](*(pathlib.Path(word) for word in sys.argv[2:3] if not word.startswith("--")))),
          flush=True)


if __name__ == "__main__":
    main()
