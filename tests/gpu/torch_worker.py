"""A PyTorch program that knows nothing of ucudnn. It reads commands from its input, one line of JSON each, and answers each
with a line of JSON. torch_iterations.py starts several of these programs and compares them. With `--device cpu` it runs without
a GPU. These are the commands:

    {"prepare": {"network": "resnet50", "batch": 64, "precision": "fp16", "last": true}, "steps": 10}
    {"time": 20}
    {"release": true}"""

import json
import statistics
import sys
import threading
import time

import torch
import torch_models
import torch_training

DEVICE = "cpu" if sys.argv[1:] == ["--device", "cpu"] else "cuda"


class DeviceMemory:
    """Records the largest number of bytes that were allocated on the device since `before` bytes were free. Includes bytes
    outside of PyTorch's allocator. REQUIRES: no other program allocates memory on the device meanwhile."""

    def __init__(self, before, every_s):
        self.before, self.least, self.done, self.every_s = before, before, threading.Event(), every_s
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while not self.done.wait(self.every_s):
            self.least = min(self.least, free_bytes())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.least = min(self.least, free_bytes())

    def bytes(self):
        return self.before - self.least


def free_bytes():
    return torch.cuda.mem_get_info()[0] if DEVICE == "cuda" else 0


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def mark():
    if DEVICE == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(first, second):
    """Returns the milliseconds between two results of mark()."""
    return (second - first) * 1000 if DEVICE == "cpu" else first.elapsed_time(second)


class Worker:
    def __init__(self):
        self.networks, self.training = torch_models.networks(DEVICE == "cpu"), None
        # This matrix product creates the CUDA context here, so that the context's memory is not counted for a network.
        # A convolution must not run here, because ucudnn divides a total budget as soon as a convolution repeats.
        square = torch.ones(64, 64, device=DEVICE)
        (square @ square).sum().item()

    def prepare(self, network, batch, precision, last, steps):
        """Makes the network and warms up for `steps` steps. Returns the times of these steps, and the memory that a
        later step needs."""
        self.release()
        before = free_bytes()
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.manual_seed(0)
        network = self.networks[network]
        begin = time.perf_counter()
        with DeviceMemory(before, 0.02) as warming:  # polls seldom, since ucudnn may measure meanwhile
            self.training = torch_training.Training(network, network.make(), network.batch(batch), precision, last, DEVICE)
            losses, ends_s = [], [time.perf_counter()]
            for _ in range(steps):
                losses.append(self.training.step()[1].item())
                ends_s.append(time.perf_counter())
        seconds = time.perf_counter() - begin
        if DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with DeviceMemory(before, 0.001) as steady:
            self.training.step()
            synchronize()
        peaks = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()] if DEVICE == "cuda" else [0, 0]
        return {"warm_up_s": seconds, "steps_ms": [(end - start) * 1000 for start, end in zip(ends_s, ends_s[1:])],
                "loss": losses[-1], "allocated_bytes": peaks[0], "reserved_bytes": peaks[1],
                "device_bytes": steady.bytes(), "device_bytes_warming_up": warming.bytes()}

    def time(self, steps):
        """Returns the milliseconds on the device from the end of each step to the end of the next. The host does not wait
        between steps, as in training."""
        self.training.step()
        marks = [mark()]
        for _ in range(steps):
            self.training.step()
            marks.append(mark())
        synchronize()
        times = [between(*pair) for pair in zip(marks, marks[1:])]
        return {"ms": times, "median_ms": statistics.median(times)}

    def release(self):
        self.training = None
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        return {}

    def answer(self, command):
        if "prepare" in command:
            return self.prepare(**command["prepare"], steps=command["steps"])
        if "time" in command:
            return self.time(command["time"])
        return self.release()


def main():
    worker = Worker()
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        try:
            reply = worker.answer(json.loads(line))
        except RuntimeError as error:  # for example, memory ran out; later commands still run
            worker.release()
            reply = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
