"""Samples the images of a data set that this rank reads: the images that its part of the first layers needs."""
import hashlib
import threading

import torch

from .errors import NotSupported


class BatchSampler:
    """Yields the indices of each batch's images for this rank's DataLoader. The order is the same on all ranks:
    shuffled by `seed` and the epoch (counted by iterations, or set by set_epoch), or the data set's own order if
    `shuffle` is false. A rank that needs no image reads the batch's first one, for its shape. If the size of the data
    set is not a multiple of the plan's batch, the last batch has the remaining images, or is left out with `drop_last`.

    All ranks refuse the next call of the model if their samplers did not give the same batch last, so their loaders
    must have equally many workers. If a sampler runs in another thread than the main thread, ranks compare only the
    size of the data set and the seed."""

    def __init__(self, dataset, model, seed=0, shuffle=True, drop_last=False):
        self.count, self.executor = len(dataset), model._ucudnn
        self.seed, self.shuffle, self.drop_last, self.epoch = seed, shuffle, drop_last, 0
        self.batch = self.executor.schedule.batch
        rest = self.count % self.batch
        if rest and not drop_last:
            if self.executor.schedule.passes:
                raise NotSupported(
                    f"a last batch of {rest} images in passes of a plan for {self.batch}: drop_last=True leaves it out")
            self.executor.sizes.add(rest)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.count // self.batch if self.drop_last else -(-self.count // self.batch)

    def __iter__(self):
        order = list(range(self.count))
        if self.shuffle:
            number = int.from_bytes(hashlib.sha256(repr((self.seed, self.epoch)).encode()).digest()[:7], "big")
            order = torch.randperm(self.count, generator=torch.Generator().manual_seed(number)).tolist()
        known = f"{self.count} images, " + (f"seed {self.seed!r}" if self.shuffle else "not shuffled")
        epoch, self.epoch = self.epoch, self.epoch + 1
        for number in range(len(self)):
            images = order[number * self.batch:(number + 1) * self.batch]
            # Ranks compare this text. A sampler in another thread names no batch, because its thread may be a batch
            # ahead on some ranks only.
            is_main = threading.current_thread() is threading.main_thread()
            self.executor.sampled = f"{known}, epoch {epoch}, batch {number}" if is_main else known
            self.executor.has_sampled = True
            rows = self.executor.rows(len(images))
            yield images[rows[0]:rows[1]] if rows else images[:1]


def batch_sampler(dataset, model, seed=0, shuffle=True, drop_last=False):
    return BatchSampler(dataset, model, seed, shuffle, drop_last)
