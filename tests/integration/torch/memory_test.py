"""Runs Stable Diffusion's VAE decoder for pictures of 1024 x 1024 on four ranks, on meta tensors, so nothing is computed.
Compares the memory of a rank's activations with the memory on one device. Compares the bytes that a rank receives with the
smallest possible number."""
import sys
import unittest
from unittest import mock

import gloo

sys.path.insert(0, str(gloo.ROOT / "python"))
GRID, PARTS, HEIGHT = "h4", 4, 128  # the latent's height is an eighth of the picture's


def setUpModule():
    gloo.need("torch")
    gloo.need("diffusers")


def decoder():
    import torch
    from diffusers import AutoencoderKL
    with torch.device("meta"):
        model = AutoencoderKL(latent_channels=4, block_out_channels=(128, 256, 512, 512), layers_per_block=2,
                              down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
    model.encoder = model.quant_conv = None
    return model


def latent():
    import torch
    return torch.empty(1, 4, HEIGHT, HEIGHT, device="meta")


def peak(model, x, trains=False):
    """Returns the largest number of bytes of activations that are alive at the same time."""
    import torch
    from counting import Living
    with torch.set_grad_enabled(trains), Living(x) as living:
        picture = model.decode(x).sample
        if trains:
            picture.sum().backward()
    return living.peak


def on_rank(rank, routed, run):
    """Runs `run(model, stripe)` on a FakeRanks. Returns (its result, the FakeRanks). `routed` says how convolutions run; it
    is a value of backends.route."""
    from fake_ranks import FakeRanks
    from ucudnn import spatial
    from ucudnn.spatial import cells, convolution
    ranks = FakeRanks(GRID, rank)
    with mock.patch.object(cells, "_current", ranks), mock.patch.object(convolution, "route", lambda *_: routed):
        return run(spatial.convert(decoder()), spatial.shard(latent(), 2)), ranks


def received_rows(rank, height, filter_rows, pad):
    """Returns how many rows of other ranks are read by the windows around this rank's rows. Each row counts once."""
    own = range(rank * height // PARTS, (rank + 1) * height // PARTS)
    read = {row - pad + tap for row in own for tap in range(filter_rows)}
    return len({row for row in read if 0 <= row < height} - set(own))


def fewest_bytes():
    """Returns, for each rank, the bytes that it must receive: rows of other ranks that windows read, and the keys and
    values of positions of other ranks. Hooks of the plain model count these bytes."""
    import torch
    from diffusers.models.attention_processor import Attention
    model, fewest = decoder(), [0] * PARTS

    def convolution(layer, arguments):
        n, c, h, w = arguments[0].shape
        assert layer.stride == layer.dilation == (1, 1)
        for rank in range(PARTS):
            fewest[rank] += 4 * n * c * w * received_rows(rank, h, layer.kernel_size[0], layer.padding[0])

    def attention(layer, arguments):
        n, _, h, w = arguments[0].shape
        for rank in range(PARTS):
            fewest[rank] += 4 * 2 * n * layer.inner_dim * w * (h - h // PARTS)

    for layer in model.modules():
        if isinstance(layer, torch.nn.Conv2d):
            layer.register_forward_pre_hook(convolution)
        elif isinstance(layer, Attention):
            layer.register_forward_pre_hook(attention)
    with torch.no_grad():
        model.decode(latent())
    return fewest


class Memory(unittest.TestCase):
    """On a GPU, convolutions are cuDNN calls inside which ucudnn exchanges rows. The exchanged rows are not results of
    operators, so ratio() adds the rows of the largest exchange."""

    def ratio(self, trains):
        whole, largest = peak(decoder(), latent(), trains), 0
        for rank in range(PARTS):
            own, _ = on_rank(rank, "ucudnn", lambda model, x: peak(model, x, trains))
            _, exchanged = on_rank(rank, "exchange", lambda model, x: peak(model, x, trains))
            largest = max(largest, own + exchanged.largest_swap)
        print(f"{'training' if trains else 'decoding'}: {largest / 2**20:.0f} MiB on a rank, {whole / 2**20:.0f} MiB on one "
              f"device: {largest / whole:.3f}")
        return largest / whole

    def test_a_quarter_of_the_activations_are_alive_on_each_of_four_ranks(self):
        self.assertTrue(0.24 < self.ratio(trains=False) <= 0.27)

    def test_as_many_of_a_step_of_training(self):
        self.assertTrue(0.24 < self.ratio(trains=True) <= 0.27)


class Bytes(unittest.TestCase):
    def test_each_row_that_a_window_reaches_comes_once(self):
        for rank, fewest in enumerate(fewest_bytes()):
            _, ranks = on_rank(rank, "exchange", peak)
            print(f"rank {rank}: {ranks.received['rows']} bytes of rows, keys and values; the fewest are {fewest}; statistics "
                  f"of norms: {ranks.received['sums']}")
            self.assertEqual(fewest, ranks.received["rows"])
            self.assertLess(ranks.received["sums"], fewest / 1000)

    def test_rows_are_received_where_convolutions_read_them(self):
        """No tensor is padded, or concatenated with the rows of other ranks, in the forward pass."""
        from counting import Calls

        def counted(model, x):
            with Calls() as calls:
                model.decode(x)
            return calls.counts
        counts, _ = on_rank(1, "exchange", counted)
        self.assertGreater(counts["aten.convolution.default"], 30)
        self.assertEqual(0, counts["aten.cat.default"] + counts["aten.constant_pad_nd.default"])


if __name__ == "__main__":
    unittest.main()
