"""A PyTorch program that knows nothing of ucudnn. It takes training steps of one network in every precision and layout; some
of these also run in other modes. It compares each case with the steps in float64, which run without cuDNN. It prints JSON by
which two runs can be compared. For each case the JSON says how far outputs and gradients are from float64 and has a digest of
all of them, or it says why the case could not be run.

    torch_training.py resnet50|unet3d [--device cpu] [--only CASE,CASE] [--without MODE] [--digests] [--leave-out]
                      [--float64 FOLDER]

--only also sets the order of the cases. With --digests no steps in float64 are taken. --float64 keeps the results of the steps
in float64 in a folder, for another run of this program on the same device. --leave-out spoils the gradient of the first
parameter as if one image of the mini-batch were missing in it."""

import argparse
import copy
import hashlib
import json
import os
import pathlib
import shutil
import time

import torch
import torch_models
from program import told

STEPS, RATE, LOSS_SCALE = 3, 0.01, 1024
PRECISIONS = {"fp32": None, "tf32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
# PyTorch keeps the plan that it chose for a shape, so the mode "benchmark", which chooses plans in another way, has a
# mini-batch of its own.
BATCHES = {"resnet50": {"benchmark": 12, "": 16}, "unet3d": {"benchmark": 6, "": 8}}


def cases(network):
    """Returns the cases by name. A case is (precision, whether memory is channels last, mode)."""
    compiled = {"resnet50": ("bf16 last",)}.get(network, ("fp32 first",))  # compiling takes long
    found = {f"{precision} {'last' if last else 'first'}": (precision, last, "heuristic")
             for precision in PRECISIONS for last in (False, True)}
    for mode, chosen in {"benchmark": ("fp32 first", "bf16 first", "fp16 last"), "deterministic": ("fp32 first", "bf16 last"),
                         "compiled": compiled, "captured": ("fp32 first", "fp16 last")}.items():
        found |= {f"{name} {mode}": (*found[name][:2], mode) for name in chosen}
    return found


def distance(values, reference, scale=0.0):
    """Returns ‖values − reference‖ divided by ‖reference‖, or by `scale` if that is larger."""
    reference = reference.double()
    return ((values.double() - reference).norm() / max(reference.norm().item(), scale, 1e-300)).item()


class Training:
    """Trains a network one step at a time in `precision`, with channels-last memory if `last`."""

    def __init__(self, network, start, batch, precision, last, device, mode="heuristic", leave_out=False):
        layout = network.layout(last)
        self.network, self.device, self.type = network, device, PRECISIONS.get(precision)
        self.model = copy.deepcopy(start).to(device, memory_format=layout)
        self.images = batch[0].to(device, memory_format=layout)
        self.targets = batch[1].to(device)
        self.scale = LOSS_SCALE if self.type == torch.float16 else 1
        self.captures = mode == "captured"
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.forward = self.model
        if mode == "compiled":
            self.forward = torch.compile(self.model, backend="inductor" if device == "cuda" else "aot_eager")
        if leave_out:
            next(self.model.parameters()).register_hook(lambda gradient: gradient * (1 - 1 / len(self.images)))

    def step(self):
        """Takes a step and returns outputs and loss; the gradients stay in the parameters. If the network does not train, runs
        it forward and returns outputs and their mean."""
        if not self.network.trains:
            with torch.no_grad(), torch.autocast(self.device, self.type, enabled=self.type is not None):
                outputs = self.forward(self.images)
            return outputs, outputs.float().mean()
        self.optimizer.zero_grad()
        # A captured step must cast the weights anew in each replay, so autocast may not cache them.
        with torch.autocast(self.device, self.type, enabled=self.type is not None, cache_enabled=not self.captures):
            outputs = self.forward(self.images)
        loss = self.network.loss(outputs, self.targets)
        (loss * self.scale).backward()
        if self.scale != 1:
            for parameter in self.model.parameters():
                parameter.grad.div_(self.scale)
        self.optimizer.step()
        return outputs.detach(), loss.detach()

    def captured(self):
        """Returns a function that replays a CUDA graph of step(). Before the capture, the step runs a few times outside
        of it."""
        if self.device != "cuda":
            return self.step
        state = copy.deepcopy(self.model.state_dict())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad()  # drops the gradients, so that the capture makes them in the graph's own memory
        with torch.cuda.graph(graph):
            results = self.step()
        self.model.load_state_dict(state)

        def replay():
            graph.replay()
            return results

        return replay

    def run(self):
        step = self.captured() if self.captures else self.step
        outputs, losses, gradients = [], [], None
        for _ in range(STEPS):
            output, loss = step()
            outputs.append(output.clone())
            losses.append(loss.item())
            if gradients is None:
                gradients = {name: parameter.grad.clone() for name, parameter in self.model.named_parameters()}
        return outputs, losses, gradients


def digest(outputs, losses, gradients):
    result = hashlib.sha256(json.dumps(losses).encode())
    for tensor in (*outputs, *gradients.values()):
        result.update(tensor.float().contiguous().cpu().numpy().tobytes())
    return result.hexdigest()[:16]


def distances(run, reference):
    outputs, _, gradients = run
    total = sum(gradient.norm().item() ** 2 for gradient in reference[2].values()) ** 0.5
    errors = {name: distance(gradients[name], gradient, 1e-4 * total) for name, gradient in reference[2].items()}
    whole = sum((gradients[name].double() - gradient).norm().item() ** 2 for name, gradient in reference[2].items())
    return {"output_errors": [distance(*pair) for pair in zip(outputs, reference[0], strict=True)],
            "gradient_error": whole ** 0.5 / total, "gradient_errors": errors}


def c_compiler():
    """Returns the C compiler or None. Triton needs one to build the host code that launches its kernels."""
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Cases:
    """Runs the cases of one network. The start weights and the float64 results of each mini-batch are computed once for all
    cases."""

    def __init__(self, network, batches, arguments):
        self.network, self.batches, self.arguments = network, batches, arguments
        torch.manual_seed(0)
        self.start = network.make()
        self.references = {}

    def reference(self, batch):
        n = len(batch[0])
        if n not in self.references:
            kept = self.arguments.float64 and self.arguments.float64 / f"{self.arguments.network}-{n}.pt"
            if kept and kept.exists():
                self.references[n] = torch.load(kept, map_location=self.arguments.device)
            else:
                self.references[n] = self.take_in_float64(batch)
                if kept:
                    self.keep(self.references[n], kept)
        return self.references[n]

    def take_in_float64(self, batch):
        with torch.backends.cudnn.flags(enabled=False):
            twin = copy.deepcopy(self.start).double(), (batch[0].double(), batch[1])
            return Training(self.network, *twin, "fp64", False, self.arguments.device).run()

    @staticmethod
    def keep(results, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        torch.save(results, temporary)
        temporary.replace(path)

    def run(self, precision, last, mode):
        begin = time.perf_counter()
        device = self.arguments.device
        n = self.batches.get(mode, self.batches[""]) // (4 if device == "cpu" else 1)
        batch = self.network.batch(n)
        reference = None if self.arguments.digests else self.reference(batch)
        deterministic = mode == "deterministic"
        torch.use_deterministic_algorithms(deterministic, warn_only=True)
        torch.backends.cuda.matmul.allow_tf32 = False
        with torch.backends.cudnn.flags(True, mode == "benchmark", deterministic=deterministic,
                                        allow_tf32=precision == "tf32"):
            runs = [Training(self.network, self.start, batch, precision, last, device, mode, self.arguments.leave_out).run()
                    for _ in range(2 if deterministic else 1)]
        result = {"losses": runs[0][1], "digest": digest(*runs[0]), "mini_batch": n}
        if reference:
            result |= distances(runs[0], reference)
        if deterministic:
            result["repeats"] = result["digest"] == digest(*runs[1])
        return result | {"seconds": time.perf_counter() - begin}


def outcome(cases, precision, last, mode):
    """Returns a case's figures, or the error if it fails, so that the other cases still run."""
    try:
        return cases.run(precision, last, mode)
    except Exception as error:
        failure = {"error": told(error)}
        if mode == "compiled" and not c_compiler():
            failure["lacks"] = "C compiler"
        return failure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=BATCHES)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only")
    parser.add_argument("--without", metavar="MODE")
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--leave-out", action="store_true")
    parser.add_argument("--float64", type=pathlib.Path)
    arguments = parser.parse_args()
    network = torch_models.networks(arguments.device == "cpu")[arguments.network]
    every = Cases(network, BATCHES[arguments.network], arguments)
    results = {}
    known = cases(arguments.network)
    for name in arguments.only.split(",") if arguments.only else known:
        if known[name][-1] != arguments.without:
            results[name] = outcome(every, *known[name])
    print(json.dumps({"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "cases": results}))


if __name__ == "__main__":
    main()
