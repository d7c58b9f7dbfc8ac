"""Finds the versions of the installed libraries and frameworks. The stage `versions` of a sitting finds all of them and
writes them to the file that UCUDNN_TEST_VERSIONS names, for later stages. A test that runs without a sitting finds the
versions that it needs."""

import concurrent.futures
import functools
import json
import os
import pathlib
import shutil
import sys

import machine

# Each framework has a title, a program that prints its version, and statements that fail if the framework was not built for
# CUDA. If they fail, the framework's stages are skipped. If they succeed and the framework does not use the GPU, its stages
# fail, since its programs print the device that they used.
PROBES = {
    "torch": ("PyTorch", "import torch; print(torch.__version__)",
              "assert torch.version.cuda and torch.backends.cudnn.is_available()"),
    "jax": ("JAX", "import jax, importlib.metadata; print(jax.__version__)",
            "assert any('cuda' in each.name for each in importlib.metadata.entry_points(group='jax_plugins'))"),
    "tensorflow": ("TensorFlow", "import tensorflow; print(tensorflow.__version__)",
                   "assert tensorflow.test.is_built_with_cuda()"),
    "onnxruntime": ("ONNX Runtime with the package onnx", "import onnxruntime, onnx; print(onnxruntime.__version__)",
                    "assert 'CUDAExecutionProvider' in onnxruntime.get_available_providers()"),
    "diffusers": ("diffusers", "import diffusers; from diffusers import AutoencoderKL; print(diffusers.__version__)", ""),
    "torchvision": ("torchvision", "import torchvision; print(torchvision.__version__)", ""),
}
LIBRARIES = {
    "cudnn": "import ctypes; print(ctypes.CDLL('libcudnn.so.9').cudnnGetVersion())",
    "cuda_runtime": "import ctypes; n = ctypes.c_int(); ctypes.CDLL('libcudart.so.13').cudaRuntimeGetVersion(ctypes.byref(n));"
                    "print(n.value)"}
# These environment variables are set when a framework is asked for its version and when its programs run.
VARIABLES = {
    "torch": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
    "jax": {"JAX_PLATFORMS": "cpu" if machine.HOST else "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    "tensorflow": {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "TF_CPP_MIN_LOG_LEVEL": "2"},
    "onnxruntime": {},
}
if machine.HOST:
    for variables in VARIABLES.values():
        variables["OMP_NUM_THREADS"] = "1"  # other stages use the CPU at the same time
SECONDS = 120


def ask(name, seconds=SECONDS):
    """Returns a dictionary with "version" and "missing", one of which is None. "missing" says why the framework cannot be
    used."""
    title, program, on_gpu = PROBES[name]
    if not machine.HOST and on_gpu:
        program += f"\n{on_gpu}"
    environment = machine.python_environment(**VARIABLES.get(name, {}))
    try:
        code, output, errors = machine.call([sys.executable, "-c", program], environment, seconds)
    except machine.TimedOut:
        return {"version": None, "missing": f"{title} is not imported within {seconds:.0f} s"}
    if code == 0:
        return {"version": output.strip().splitlines()[-1], "missing": None}
    last = (errors.strip().splitlines() or [f"exit code {code}"])[-1]
    return {"version": None, "missing": f"no {title}{'' if machine.HOST or not on_gpu else ' with CUDA'}: {last[:200]}"}


@functools.cache
def answer(name):
    told = os.environ.get("UCUDNN_TEST_VERSIONS")
    answers = json.loads(pathlib.Path(told).read_text()) if told and os.path.exists(told) else {}
    return answers[name] if name in answers else ask(name)


def missing(name):
    """Returns why a framework cannot be tried here, or None."""
    if not machine.HOST and machine.gpu() is None:
        return machine.NO_GPU
    return answer(name)["missing"]


def library(name):
    code, output, _ = machine.call([sys.executable, "-c", LIBRARIES[name]], machine.environment(), SECONDS)
    return output.strip() if code == 0 else None


def versions(sitting, seconds):
    """The work of the stage `versions`: records the versions on which the figures depend."""
    with concurrent.futures.ThreadPoolExecutor(2 if machine.HOST else 8) as threads:
        asked = {name: threads.submit(ask, name, seconds) for name in PROBES}
        libraries = {name: threads.submit(library, name) for name in LIBRARIES}
        answers = {name: each.result() for name, each in asked.items()}
        found = {name: each.result() for name, each in libraries.items()}
    machine.write_whole(sitting.scratch / "versions.json", json.dumps(answers).encode())
    return found | {name: told["version"] for name, told in answers.items()} | {
        "missing": {name: told["missing"] for name, told in answers.items() if told["missing"]}}


def commit():
    """Returns the commit of this ucudnn, from the file `commit` in a pack, or from git if there is no such file."""
    carried = machine.ROOT / "commit"
    if carried.exists():
        return carried.read_text().strip()
    if not shutil.which("git"):
        return None
    code, output, _ = machine.call(["git", "-C", machine.ROOT, "describe", "--always", "--dirty"], machine.python_environment(), 30)
    return output.strip() if code == 0 else None
