"""Writes data sets in foreign formats to the current folder, for test_convert.sh: arrays as NumPy and MNIST store them, and
CIFAR's Python version. The same files each time, apart from compression."""
import gzip
import os
import pickle
import struct

import numpy as np


def images(count, height, width, channels):
    """Smooth, and noisy in the lower half."""
    n, y, x, c = np.ogrid[:count, :height, :width, :channels]
    noise = (n * 7919 + y * 104729 + x * 1299709 + c * 15485863) % 251
    return ((n * 59 + y * 3 + x * (n % 4) + c * 40 + noise * (2 * y > height)) % 256).astype(np.uint8)


def labels(count, classes):
    return np.arange(count) * 7 % classes


np.savez_compressed("keras.npz", x_train=images(80, 20, 24, 3), y_train=labels(80, 12)[:, None],
                    x_test=images(20, 20, 24, 3), y_test=labels(20, 12).astype(np.uint8))
np.savez("grey.npz", images=images(90, 28, 28, 1)[..., 0], labels=labels(90, 11).astype(">i4"))
np.savez("planes.npz", data=images(12, 64, 70, 3).transpose(0, 3, 1, 2).copy(), targets=labels(12, 4))
np.savez("large.npz", x=images(4, 200, 300, 3), y=labels(4, 2))
np.savez("medmnist.npz", train_images=images(30, 8, 8, 1), train_labels=labels(30, 3)[:, None],
         val_images=images(9, 8, 8, 1), val_labels=labels(9, 3)[:, None])

os.mkdir("idx")
for part, count, opener in ("train", 100, open), ("t10k", 30, gzip.open):
    for name, array in ("images-idx3", images(count, 28, 28, 1)[..., 0]), ("labels-idx1", labels(count, 10).astype(np.uint8)):
        with opener("idx/%s-%s-ubyte%s" % (part, name, ".gz" if part == "t10k" else ""), "wb") as f:
            f.write(b"\0\0\x08" + bytes([array.ndim]) + struct.pack(">%dI" % array.ndim, *array.shape) + array.tobytes())


def batch(count, **lists):
    return {"data": images(count, 32, 32, 3).transpose(0, 3, 1, 2).reshape(count, 3072).copy(), "batch_label": "x",
            "filenames": ["a.png"] * count, **lists}


os.makedirs("cifar100/cifar-100-python")
os.mkdir("cifar10")
for name, count, protocol in ("train", 50, 2), ("test", 20, 4):
    with open("cifar100/cifar-100-python/" + name, "wb") as f:
        pickle.dump(batch(count, fine_labels=labels(count, 100).tolist(), coarse_labels=labels(count, 20).tolist()), f, protocol)
for i, name in enumerate(["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]):
    of = batch(8 + i, labels=labels(8 + i, 10).tolist())
    with open("cifar10/" + name, "wb") as f:
        pickle.dump({key.encode(): value for key, value in of.items()} if i == 2 else of, f, 2 + i % 3)
