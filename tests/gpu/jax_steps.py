"""A JAX program that knows nothing of ucudnn. It runs convolutions of one to three dimensions on whole numbers, with gradients.
Some are grouped, strided, dilated or transposed. It prints JSON with checksums, by which two runs can be compared, the number
of cuDNN calls in the programs that XLA compiled, and cuDNN's loaded libraries. With `--device cpu` it runs small sizes on the
CPU."""

import json

import jax
import jax.numpy as jnp
import numpy
from program import ON_CPU, SHARE, cudnn_files, outcome
from whole_numbers import checksum, whole

TYPES = (jnp.float32, jnp.float16, jnp.bfloat16)[:1 if ON_CPU else 3]
# By name: (dimensions, images, input channels, output channels, side, window, options of the convolution).
SHAPES = {
    "1d": (1, 32, 64, 64, 500, 5, {}),
    "2d": (2, 32, 64, 64, 14, 3, {}),
    "large": (2, 64, 64, 128, 56, 3, {}),
    "strided": (2, 32, 32, 64, 28, 5, {"window_strides": 2}),
    "dilated": (2, 32, 64, 64, 20, 3, {"rhs_dilation": 2}),
    "transposed": (2, 32, 64, 32, 14, 3, {"lhs_dilation": 2}),
    "grouped": (2, 32, 64, 64, 20, 3, {"feature_group_count": 4}),
    "3d": (3, 16, 32, 32, 16, 3, {}),
    "3d strided": (3, 16, 32, 64, 16, 3, {"window_strides": 2}),
}
LAST = ("2d", "large", "3d")  # these shapes also run with channels last
cudnn_calls = []  # the number of cuDNN calls in each case
devices = set()


def convolution(shape, dtype, last):
    dimensions, n, inputs, outputs, side, window, options = shape
    groups = options.get("feature_group_count", 1)
    n, inputs, outputs = n // SHARE, max(inputs // SHARE, groups), max(outputs // SHARE, groups)
    letters, sides, windows = "DHW"[3 - dimensions:], (side // (2 if ON_CPU else 1),) * dimensions, (window,) * dimensions
    axes = (f"N{letters}C", f"{letters}IO", f"N{letters}C") if last else (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    x_shape = (n, *sides, inputs) if last else (n, inputs, *sides)
    w_shape = (*windows, inputs // groups, outputs) if last else (outputs, inputs // groups, *windows)
    strides = (options.get("window_strides", 1),) * dimensions
    dilations = {key: (options[key],) * dimensions for key in ("lhs_dilation", "rhs_dilation") if key in options}
    padding = [(window // 2 * options.get("rhs_dilation", 1),) * 2] * dimensions

    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=axes, feature_group_count=groups,
                                            precision=jax.lax.Precision.HIGHEST, **dilations)

    @jax.jit
    def step(x, w, dy):
        y, gradients = jax.vjp(convolve, x, w)
        return y, *gradients(dy)

    x, w = (jnp.asarray(whole(*tensor), dtype) for tensor in ((x_shape, 8, 0), (w_shape, 16, 1)))
    dy = jnp.asarray(whole(jax.eval_shape(convolve, x, w).shape, 16, 2), dtype)
    compiled = step.lower(x, w, dy).compile()
    results = compiled(x, w, dy)
    cudnn_calls.append(compiled.as_text().count('"__cudnn$'))
    devices.update(device.platform for array in results for device in array.devices())
    return checksum(*(numpy.asarray(array.astype(jnp.float32)) for array in results))


results = {f"{name} {dtype.__name__} {'last' if last else 'first'}": outcome(convolution, shape, dtype, last)
           for name, shape in SHAPES.items() for dtype in TYPES for last in (False, True) if not last or name in LAST}
print(json.dumps({"version": jax.__version__, "device": " ".join(sorted(devices)), "cudnn_calls": sum(cudnn_calls),
                  "cudnn_files": cudnn_files(), "convolutions": results}))
