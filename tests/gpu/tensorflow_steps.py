"""A TensorFlow program that knows nothing of ucudnn. It runs convolutions of two and three dimensions on whole numbers. Some
are grouped, strided or dilated. Each runs once eagerly, and once in a tf.function with its gradients. The program prints
JSON with checksums of the tf.function's results, by which two runs can be compared. With `--device cpu` it runs without a
GPU."""

import json

import tensorflow as tf
from program import ON_CPU, SHARE, cudnn_files, outcome
from whole_numbers import checksum, whole

# Each name has: dimensions, images, input channels, output channels, side, window, stride, dilation, groups.
SHAPES = {
    "2d": (2, 32, 64, 64, 14, 3, 1, 1, 1),
    "large": (2, 64, 64, 128, 56, 3, 1, 1, 1),
    "strided": (2, 32, 32, 64, 28, 5, 2, 1, 1),
    "dilated": (2, 32, 64, 64, 20, 3, 1, 2, 1),
    "grouped": (2, 32, 64, 64, 20, 3, 1, 1, 4),
    "3d": (3, 16, 32, 32, 16, 3, 1, 1, 1),
}
devices = set()


def convolution(shape, dtype, last):
    dimensions, n, inputs, outputs, side, window, stride, dilation, groups = shape
    n, inputs, outputs = n // SHARE, max(inputs // SHARE, groups), max(outputs // SHARE, groups)
    sides = [side // (2 if ON_CPU else 1)] * dimensions
    layout = {True: ("NHWC", "NDHWC"), False: ("NCHW", "NCDHW")}[last][dimensions - 2]
    spread = lambda value: [1, *[value] * dimensions, 1] if last else [1, 1, *[value] * dimensions]
    x = tf.constant(whole((n, *sides, inputs) if last else (n, inputs, *sides), 8, 0), dtype)
    w = tf.constant(whole((*[window] * dimensions, inputs // groups, outputs), 16, 1), dtype)
    function = (tf.nn.conv2d, tf.nn.conv3d)[dimensions - 2]

    @tf.function(jit_compile=False)
    def step(x, w, seed):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = function(x, w, spread(stride), "SAME", layout, spread(dilation))
        return y, *tape.gradient(y, [x, w], output_gradients=seed)

    y = function(x, w, spread(stride), "SAME", layout, spread(dilation))
    results = step(x, w, tf.constant(whole(tuple(y.shape), 16, 2), dtype))
    devices.update(tf.DeviceSpec.from_string(tensor.device).device_type for tensor in results)
    return checksum(*(tf.cast(tensor, tf.float32).numpy() for tensor in results))


def main():
    tf.config.experimental.enable_tensor_float_32_execution(False)
    results = {}
    for name, shape in SHAPES.items():
        for dtype in (tf.float32, tf.float16, tf.bfloat16):
            for last in (True,) if ON_CPU else (True, False):
                if ON_CPU and dtype != tf.float32:
                    continue
                results[f"{name} {dtype.name} {'last' if last else 'first'}"] = outcome(convolution, shape, dtype, last)
    print(json.dumps({"version": tf.__version__, "device": " ".join(sorted(devices)), "cudnn_files": cudnn_files(),
                      "convolutions": results}))


main()
