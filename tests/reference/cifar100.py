"""Reader of CIFAR-100's binary format, and writer of small synthetic data sets in it.

A record is <coarse label><fine label><3072 bytes: red, green, blue planes of 32x32>.
"""

import os

import numpy as np

MEAN = (0.5071, 0.4867, 0.4408)
STD = (0.2675, 0.2565, 0.2761)
RECORD_BYTES = 2 + 3 * 32 * 32


def read(path):
    """Reads a file; returns images (N,3,32,32) uint8 and fine labels (N,) int64."""
    raw = np.fromfile(path, dtype=np.uint8)
    if raw.size == 0 or raw.size % RECORD_BYTES:
        raise ValueError(f"{path}: {raw.size} bytes are not a multiple of the record size, {RECORD_BYTES} bytes")
    records = raw.reshape(-1, RECORD_BYTES)
    return records[:, 2:].reshape(-1, 3, 32, 32).copy(), records[:, 1].astype(np.int64)


def write_synthetic(path, count, seed):
    """Writes noisy images around one of 100 smooth class patterns (the same in every file), so that the labels can be
    learned. The noise separates neighboring pixels: a maximum over near ties would depend on rounding."""
    patterns = np.random.RandomState(0).normal(size=(100, 3, 4, 4))
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 100, size=count)
    # Bilinear from a 4x4 grid to 32x32, as a product with one interpolation matrix per axis.
    at = np.clip((np.arange(32) + 0.5) / 8 - 0.5, 0, 3)
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(4)[None, :]))
    with open(path, "wb") as f:
        for begin in range(0, count, 1024):
            part = labels[begin:begin + 1024]
            coarse = patterns[part] + 0.5 * rng.normal(size=(len(part), 3, 4, 4))
            smooth = np.einsum("yi,ncij,xj->ncyx", weights, coarse, weights, optimize=True)
            noisy = 125 + 30 * smooth + 40 * rng.normal(size=smooth.shape)
            records = np.empty((len(part), RECORD_BYTES), np.uint8)
            records[:, 0] = part // 5
            records[:, 1] = part
            records[:, 2:] = np.clip(np.rint(noisy), 0, 255).astype(np.uint8).reshape(len(part), -1)
            f.write(records.tobytes())


def write_synthetic_dir(directory, train, test, seed=1):
    os.makedirs(directory, exist_ok=True)
    write_synthetic(os.path.join(directory, "train.bin"), train, seed)
    write_synthetic(os.path.join(directory, "test.bin"), test, seed + 1)
