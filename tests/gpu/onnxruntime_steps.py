"""An ONNX Runtime program that knows nothing of ucudnn. Each of its models has one convolution with bias on whole numbers, of
one to three dimensions. Some convolutions are grouped, strided, dilated or transposed. Most models then add a residual, and
all end with an activation; ONNX Runtime fuses these with the convolution. The models run with each algorithm search of the
CUDA provider. The program also runs the convolutions among the test cases in ONNX's wheel. It prints JSON with checksums and
outcomes, by which two runs can be compared. With `--device cpu` it runs small sizes on the CPU."""

import json
import warnings

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from program import ON_CPU, SHARE, cudnn_files, outcome, told
from whole_numbers import checksum, whole

SEARCHES = ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")
# By name: (dimensions, images, input channels, output channels, side, window, attributes).
SHAPES = {
    "1d": (1, 32, 64, 64, 500, 5, {}),
    "2d": (2, 32, 64, 64, 14, 3, {}),
    "large": (2, 64, 64, 128, 56, 3, {}),
    "strided": (2, 32, 32, 64, 28, 5, {"strides": 2}),
    "dilated": (2, 32, 64, 64, 20, 3, {"dilations": 2}),
    "grouped": (2, 32, 64, 64, 20, 3, {"group": 4}),
    "transposed": (2, 32, 64, 64, 14, 3, {"strides": 2}),
    "3d": (3, 16, 32, 32, 16, 3, {}),
}
providers = set()  # the first provider of each session; a session lists only providers that were loaded


def model(name, shape, dtype):
    """Returns a model and its inputs. The model is x -> Conv with bias -> Relu or, if the result has x's sides, x -> Conv with
    bias -> + x2 -> Relu."""
    dimensions, n, inputs, outputs, side, window, options = shape
    groups, transposed = options.get("group", 1), name == "transposed"
    n, inputs, outputs = n // SHARE, max(inputs // SHARE, groups), max(outputs // SHARE, groups)
    sides, windows = [side // (2 if ON_CPU else 1)] * dimensions, [window] * dimensions
    attributes = {key: value if key == "group" else [value] * dimensions for key, value in options.items()}
    attributes |= {"pads": [window // 2 * options.get("dilations", 1)] * (2 * dimensions), "kernel_shape": windows}
    filters = (inputs, outputs) if transposed else (outputs, inputs // groups)
    constants = {"w": whole((*filters, *windows), 16, 1), "b": whole((outputs,), 2, 2)}
    nodes = [helper.make_node("ConvTranspose" if transposed else "Conv", ["x", "w", "b"], ["c"], **attributes)]
    feeds = {"x": whole((n, inputs, *sides), 8, 0).astype(dtype)}
    if options and "dilations" not in options and "group" not in options:
        nodes.append(helper.make_node("Relu", ["c"], ["y"]))
    else:
        nodes += [helper.make_node("Add", ["c", "x2"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
        feeds["x2"] = whole((n, outputs, *sides), 2, 3).astype(dtype)
    kind = TensorProto.FLOAT16 if dtype == numpy.float16 else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(key, kind, feed.shape) for key, feed in feeds.items()],
        [helper.make_tensor_value_info("y", kind, [None] * (dimensions + 2))],
        [numpy_helper.from_array(value.astype(dtype), key) for key, value in constants.items()])
    # Older releases of ONNX Runtime can read these versions, too.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), feeds


def session_of(described, search):
    cuda = ("CUDAExecutionProvider", {"cudnn_conv_algo_search": search, "use_tf32": "0"})
    session = onnxruntime.InferenceSession(
        described.SerializeToString(), providers=["CPUExecutionProvider"] if ON_CPU else [cuda, "CPUExecutionProvider"])
    session.disable_fallback()
    providers.add(session.get_providers()[0])
    return session


def samples():
    """Runs the convolutions among the test cases of operators in ONNX's wheel. Returns "ok" or an error for each, by name."""
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # other operators' test cases give warnings
        from onnx.backend.test.case.node import collect_testcases
        cases = collect_testcases(None)
    results = {}
    for case in cases:
        nodes = case.model.graph.node if case.model else []
        if len(nodes) != 1 or nodes[0].op_type not in ("Conv", "ConvTranspose"):
            continue
        try:
            session = session_of(case.model, SEARCHES[0])
            for inputs, expected in case.data_sets:
                got = session.run(None, dict(zip((each.name for each in session.get_inputs()), inputs)))
                numpy.testing.assert_allclose(got[0], expected[0], rtol=1e-3, atol=1e-3)
            results[case.name] = "ok"
        except Exception as error:  # ONNX Runtime's errors, such as for an unknown operator version, have no common base
            results[case.name] = told(error)
    return results


def run(name, shape, dtype, search):
    """Runs a model twice, since the second run uses the algorithm that the first one chose. Returns the checksum."""
    described, feeds = model(name, shape, dtype)
    onnx.checker.check_model(described)
    session = session_of(described, search)
    first, second = (session.run(None, feeds)[0] for _ in range(2))
    first, second = (checksum(each.astype(numpy.float32)) for each in (first, second))
    return first if first == second else f"{first}, then {second}"


def main():
    onnxruntime.set_default_logger_severity(3)
    if hasattr(onnxruntime, "preload_dlls") and not ON_CPU:
        onnxruntime.preload_dlls()  # loads the libraries in NVIDIA's wheels
    results = {}
    for search in SEARCHES:
        for name, shape in SHAPES.items():
            for dtype in (numpy.float32, numpy.float16):
                results[f"{name} {dtype.__name__} {search}"] = outcome(run, name, shape, dtype, search)
    checked = samples()
    print(json.dumps({"version": onnxruntime.__version__, "device": " ".join(sorted(providers)), "cudnn_files": cudnn_files(),
                      "convolutions": results, "samples": checked}))


main()
