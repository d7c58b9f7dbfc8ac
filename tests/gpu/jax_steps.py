"""A JAX program that knows nothing of ucudnn: convolutions on whole numbers, forward and gradients. Prints JSON that two
runs can be compared by."""

import json

import jax
import jax.numpy as jnp
import numpy
from whole_numbers import checksum


def whole(shape, one_in, seed):
    random = numpy.random.default_rng(seed)
    return random.choice([-1.0, 1.0], shape) * (random.integers(0, one_in, shape) == 0)


def convolution(dtype, layout):
    n, c, k, size = 32, 64, 64, 14
    axes = (layout, "OIHW" if layout == "NCHW" else "HWIO", layout)
    x_shape = (n, c, size, size) if layout == "NCHW" else (n, size, size, c)
    w_shape = (k, c, 3, 3) if layout == "NCHW" else (3, 3, c, k)
    x, w, dy = (jnp.asarray(whole(shape, one_in, seed), dtype)
                for seed, (shape, one_in) in enumerate([(x_shape, 8), (w_shape, 16), (x_shape, 16)]))

    @jax.jit
    def step(x, w, dy):
        y, gradients = jax.vjp(lambda x, w: jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=axes, precision=jax.lax.Precision.HIGHEST), x, w)
        return y, *gradients(dy)

    return checksum(*(numpy.asarray(array.astype(jnp.float32)) for array in step(x, w, dy)))


results = {f"{dtype.__name__} {layout}": convolution(dtype, layout)
           for dtype in (jnp.float32, jnp.float16, jnp.bfloat16) for layout in ("NCHW", "NHWC")}
print(json.dumps({"jax": jax.__version__, "device": jax.devices()[0].platform, "convolutions": results}))
