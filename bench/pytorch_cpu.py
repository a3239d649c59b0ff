#!/usr/bin/env python3
"""The guides' training loop in PyTorch on CPU cores: the peer of cpu_vs_pytorch.

Prints one line of JSON: images/s between the end of step WARMUP and the end of the last step, and
the peak memory. The data are held in memory and augmented by whole batches, so that the loader
(about 1 % of a step) does not hold PyTorch back as the guides' per-image transforms would.
"""

import argparse
import json
import os
import sys
import time

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/reference"))
import cifar100  # noqa: E402
from wideresnet import WideResNet  # noqa: E402

PADDING = 4


class Batches:
    """Shuffled, randomly cropped and flipped batches without end; normalised fp32 (N,3,32,32)."""

    def __init__(self, path, batch, memory_format):
        images, labels = cifar100.read(path)
        if len(images) < batch:
            raise ValueError(f"{path}: {len(images)} samples do not fill a batch of {batch}")
        self.images, self.labels = images, torch.from_numpy(labels)
        self.batch, self.memory_format = batch, memory_format
        self.rng = np.random.RandomState(0)
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (cifar100.MEAN, cifar100.STD))
        self.scale, self.shift = 1 / (255 * std), -mean / std

    def normalise(self, images):
        x = torch.from_numpy(images).float().mul_(self.scale).add_(self.shift)
        return x.contiguous(memory_format=self.memory_format)

    def augmented(self, index):
        n, border = len(index), 2 * PADDING + 1
        padded = np.zeros((n, 3, 32 + 2 * PADDING, 32 + 2 * PADDING), np.uint8)
        padded[:, :, PADDING:-PADDING, PADDING:-PADDING] = self.images[index]
        windows = np.lib.stride_tricks.sliding_window_view(padded, (32, 32), axis=(2, 3))
        dy, dx = self.rng.randint(0, border, size=(2, n))
        crops = windows[np.arange(n), :, dy, dx]
        flip = self.rng.rand(n) < 0.5
        crops[flip] = crops[flip, :, :, ::-1]
        return self.normalise(crops)

    def __iter__(self):
        while True:
            order = self.rng.permutation(len(self.images))
            for begin in range(0, len(order) - self.batch + 1, self.batch):  # drop_last
                index = order[begin:begin + self.batch]
                yield self.augmented(index), self.labels[index]


def evaluate(model, path, batch, memory_format):
    """As after each epoch; here only for its share of the peak memory."""
    data = Batches(path, 1, memory_format)
    model.eval()
    correct = 0
    with torch.no_grad():
        for begin in range(0, len(data.images), batch):
            outputs = model(data.normalise(data.images[begin:begin + batch]))
            correct += int((outputs.argmax(1) == data.labels[begin:begin + batch]).sum())
    return correct / len(data.images)


def peak_memory_mb():
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data-dir", required=True, help="folder of train.bin and test.bin")
    parser.add_argument("--width", default="16,160,320,640")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--format", choices=["contiguous", "channels_last"], default="contiguous")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measurement")
    parser.add_argument("--steps", type=int, default=10, help="measured steps")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    memory_format = (torch.channels_last if args.format == "channels_last"
                     else torch.contiguous_format)
    widths = [int(w) for w in args.width.split(",")]
    model = WideResNet(widths=widths).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    loss_fn = nn.CrossEntropyLoss()
    batches = iter(Batches(os.path.join(args.data_dir, "train.bin"), args.batch_size, memory_format))

    model.train()
    done = []
    for _ in range(args.warmup + args.steps):
        images, labels = next(batches)
        loss = loss_fn(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done.append(time.perf_counter())
    elapsed = done[-1] - done[args.warmup - 1]
    evaluate(model, os.path.join(args.data_dir, "test.bin"), args.batch_size, memory_format)
    print(json.dumps({"images_per_s": args.steps * args.batch_size / elapsed,
                      "peak_mb": peak_memory_mb(), "loss": loss.item(),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
