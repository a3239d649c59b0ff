#!/usr/bin/env python3
"""Load a folder of images with torchvision as for training, and print the speed as JSON.

Uses ImageFolder, RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize in a DataLoader, as
torchvision's training scripts do. Epochs are repeated until the time is over.
"""

import argparse
import json
import math
import os
import sys
import time

import PIL
import torch
import torchvision
from torchvision import transforms


def transform(side):
    return transforms.Compose([
        transforms.RandomResizedCrop(side), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])


def open_loader(args):
    data = torchvision.datasets.ImageFolder(f"{args.data_dir}/train", transform(args.image_size))
    return torch.utils.data.DataLoader(data, batch_size=args.batch_size, shuffle=True,
                                       num_workers=args.workers, drop_last=True,
                                       persistent_workers=args.workers > 0)


def batches(loader):
    while True:
        yield from loader


def cpu_seconds(loader):
    """Returns the CPU time of this process and of the loader's workers."""
    workers = getattr(loader._iterator, "_workers", [])
    ticks = 0
    for worker in workers:
        with open(f"/proc/{worker.pid}/stat") as f:
            ticks += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=0, help="worker processes; 0: load in this process")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--warmup", type=int, default=4, help="batches before the measurement")
    parser.add_argument("--seconds", type=float, default=2, help="duration of the measurement, in whole batches")
    args = parser.parse_args()
    torch.set_num_threads(1)  # as in DataLoader's workers
    torch.manual_seed(1)
    loader = open_loader(args)
    stream = batches(loader)
    for _ in range(args.warmup):
        next(stream)
    begin, cpu, images, seconds, total = time.monotonic(), cpu_seconds(loader), 0, 0.0, 0.0
    while seconds < args.seconds:
        x, _ = next(stream)
        images += len(x)
        total += float(x[0, 0, 0, 0])
        seconds = time.monotonic() - begin
    json.dump({"images_per_s": images / seconds, "images": images, "seconds": seconds,
               "cpu_seconds": cpu_seconds(loader) - cpu, "workers": args.workers,
               "finite": math.isfinite(total), "torch": torch.__version__,
               "torchvision": torchvision.__version__, "PIL": PIL.__version__}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
