#!/usr/bin/env python3
"""Records edge cases of PyTorch's pooling: windows that differ between rows and columns, padding, ceil_mode,
count_include_pad, maps smaller than windows, adaptive sizes.

    record_pools.py        writes pools.safetensors

cases (N,16): kind (0 max, 1 average, 2 adaptive average), height, width, kernel, stride, padding, ceil_mode,
count_include_pad, and the output's height and width. x, dy: small integers with many duplicates. y, dx: the results,
computed in double precision. Each is a concatenation of all cases, (1,2,H,W) each.
"""

import itertools
import os
import random

import numpy as np
import torch
from torch.nn import functional as F

import safetensors_io

CHANNELS = 2
MAPS = [(7, 8), (5, 5), (6, 9), (2, 4), (1, 3)]
KERNELS = [(2, 2), (3, 3), (3, 2), (5, 4), (1, 2)]
STRIDES = [(1, 1), (2, 2), (3, 2), (2, 5)]
PADDINGS = [(0, 0), (1, 1), (1, 0), (2, 2)]
MOST = 200


def configurations():
    rng = random.Random(1)
    windows = list(itertools.product((0, 1), MAPS, KERNELS, STRIDES, PADDINGS, (False, True), (False, True)))
    rng.shuffle(windows)
    yield from windows
    for size, out in itertools.product(MAPS, [(3, 2), (1, 1), (6, 5), (4, 9)]):
        yield 2, size, out, (0, 0), (0, 0), False, False


def pool(x, kind, kernel, stride, padding, ceil, count):
    if kind == 0:
        return F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil)
    if kind == 1:
        return F.avg_pool2d(x, kernel, stride, padding, ceil, count)
    return F.adaptive_avg_pool2d(x, kernel)


def main():
    rng = np.random.default_rng(1)
    cases, values = [], {"x": [], "dy": [], "y": [], "dx": []}
    for kind, size, kernel, stride, padding, ceil, count in configurations():
        if kind < 2 and len(cases) >= MOST or (kind == 0 and count):
            continue
        x = torch.tensor(rng.integers(0, 6, (1, CHANNELS, *size)), dtype=torch.float64, requires_grad=True)
        try:
            y = pool(x, kind, kernel, stride, padding, ceil, count)
        except RuntimeError:  # padding exceeds half a window, or no window fits
            continue
        dy = torch.tensor(rng.integers(0, 16, tuple(y.shape)), dtype=torch.float64)
        y.backward(dy)
        cases.append([kind, *size, *kernel, *stride, *padding, ceil, count, *y.shape[2:], 0, 0, 0])
        for name, tensor, dtype in (("x", x, np.uint8), ("dy", dy, np.uint8), ("y", y, np.float32),
                                    ("dx", x.grad, np.float32)):
            values[name].append(tensor.detach().numpy().astype(dtype).ravel())
    tensors = {"cases": np.array(cases, np.int32)}
    for name in ("y", "dx", "x", "dy"):  # elements of 4 bytes first, for alignment
        tensors[name] = np.concatenate(values[name])
    here = os.path.dirname(os.path.abspath(__file__))
    safetensors_io.save(os.path.join(here, "pools.safetensors"), tensors, {"torch": torch.__version__})
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
