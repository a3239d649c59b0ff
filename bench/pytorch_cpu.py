#!/usr/bin/env python3
"""The guides' training loop in PyTorch on CPU cores: the peer of cpu_vs_pytorch.

Prints one line of JSON: images/s between the end of step WARMUP and the end of the last step, the CPU
time per step, and the peak memory. All data, including images from JPEG files, are decoded in memory
and augmented in whole batches, so that the loader (about 1 % of a step) does not slow down PyTorch as
the guides' per-image transforms would.
"""

import argparse
import json
import os
import resource
import sys
import time

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/reference"))
import cifar100  # noqa: E402
from wideresnet import WideResNet  # noqa: E402

PADDING = 4
DEFAULT_WIDTH = {"wideresnet": "16,160,320,640", "resnet50": "", "vgg11_bn": ""}
PICTURE_CLASSES = 200
TORCHVISION = "torchvision:"
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools")
CLASSES = {"wideresnet": 100, "resnet50": PICTURE_CLASSES, "vgg11_bn": PICTURE_CLASSES}


def read_images(folder, side):
    """Like cifar100.read, for JPEG files below the folders of the classes."""
    from PIL import Image  # not needed for CIFAR
    images, labels = [], []
    for label, name in enumerate(sorted(os.listdir(folder))):
        for where, _, files in sorted(os.walk(os.path.join(folder, name))):
            for file in sorted(f for f in files if f.upper().endswith((".JPEG", ".JPG"))):
                with Image.open(os.path.join(where, file)) as image:
                    pixels = image.convert("RGB").resize((side, side), Image.BILINEAR)
                    images.append(np.asarray(pixels).transpose(2, 0, 1))
                labels.append(label)
    return np.stack(images), np.array(labels, np.int64)


def read(data_dir, part, image_size):
    """Returns images (N,3,H,W) uint8 and labels (N,) int64."""
    if image_size:
        return read_images(os.path.join(data_dir, {"train": "train", "test": "val"}[part]), image_size)
    return cifar100.read(os.path.join(data_dir, f"{part}.bin"))


def exported_model(name, image_size):
    """Returns the torchvision model, built in the same way as by starstep-from-pytorch."""
    sys.path.append(TOOLS)
    import starstep_from_pytorch as exporter  # not needed for other models
    return exporter.torchvision_model(argparse.Namespace(torchvision=name, classes=PICTURE_CLASSES,
                                                         image_size=(image_size, image_size)))[1]


def build(name, widths, image_size):
    if name.startswith(TORCHVISION):
        return exported_model(name[len(TORCHVISION):], image_size)
    if name == "wideresnet":
        return WideResNet(widths=widths)
    import torchvision_models  # not needed for WideResNet
    options = {"classes": CLASSES[name], **({"widths": widths} if widths else {})}
    if name == "vgg11_bn":
        options.update(side=image_size, dropout=0.5)
    return getattr(torchvision_models, name)(**options)


class Recipe:
    """The update of a model after backward, with PyTorch's fastest methods on CPUs: fused AdamW, and the EMA with one
    call for all tensors (AveragedModel makes the same call with more overhead)."""

    def __init__(self, args, model):
        self.clip, self.take = args.clip_norm, 1 - args.ema_decay
        self.params, self.buffers = list(model.parameters()), list(model.buffers())
        if args.optimizer == "adamw":
            self.optimizer = torch.optim.AdamW(self.params, lr=1e-3, weight_decay=0.01, fused=True)
        else:
            self.optimizer = torch.optim.SGD(self.params, lr=0.01, momentum=0.9, weight_decay=5e-4)
        self.averages = []
        if args.ema_decay:
            self.averages = [p.detach().clone() for p in self.params]
            self.kept = [b.clone() for b in self.buffers]

    def step(self):
        if self.clip:
            nn.utils.clip_grad_norm_(self.params, self.clip)
        self.optimizer.step()
        if self.averages:
            with torch.no_grad():
                torch._foreach_lerp_(self.averages, self.params, self.take)
                torch._foreach_copy_(self.kept, self.buffers)


class Batches:
    """Infinite shuffled, randomly cropped and flipped batches; normalized fp32 (N,3,H,W)."""

    def __init__(self, data, batch, memory_format):
        images, labels = data
        if len(images) < batch:
            raise ValueError(f"{len(images)} samples do not fill a batch of {batch}")
        self.images, self.labels = images, torch.from_numpy(labels)
        self.batch, self.memory_format = batch, memory_format
        self.rng = np.random.RandomState(0)
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (cifar100.MEAN, cifar100.STD))
        self.scale, self.shift = 1 / (255 * std), -mean / std

    def normalise(self, images):
        x = torch.from_numpy(images).float().mul_(self.scale).add_(self.shift)
        return x.contiguous(memory_format=self.memory_format)

    def augmented(self, index):
        n, border, side = len(index), 2 * PADDING + 1, self.images.shape[2]
        padded = np.zeros((n, 3, side + 2 * PADDING, side + 2 * PADDING), np.uint8)
        padded[:, :, PADDING:-PADDING, PADDING:-PADDING] = self.images[index]
        windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(2, 3))
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


def evaluate(model, data, batch, memory_format):
    """Evaluate as after each epoch; used here only for its contribution to the peak memory."""
    data = Batches(data, 1, memory_format)
    model.eval()
    correct = 0
    with torch.no_grad():
        for begin in range(0, len(data.images), batch):
            outputs = model(data.normalise(data.images[begin:begin + batch]))
            correct += int((outputs.argmax(1) == data.labels[begin:begin + batch]).sum())
    return correct / len(data.images)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_memory_mb():
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data-dir", required=True,
                        help="folder of train.bin and test.bin, or of train and val")
    parser.add_argument("--model", default="wideresnet",
                        help=f"{', '.join(sorted(CLASSES))}, or {TORCHVISION}NAME")
    parser.add_argument("--width", default="", help="(default: the model's)")
    parser.add_argument("--image-size", type=int, default=0, help="0: CIFAR's files; else images")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--format", choices=["contiguous", "channels_last"], default="contiguous")
    parser.add_argument("--bf16", action="store_true", help="with autocast in bf16")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
    parser.add_argument("--clip-norm", type=float, default=0, help="0: no clipping")
    parser.add_argument("--ema-decay", type=float, default=0, help="0: no EMA of the weights")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measurement")
    parser.add_argument("--steps", type=int, default=10, help="measured steps")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    memory_format = (torch.channels_last if args.format == "channels_last"
                     else torch.contiguous_format)
    widths = [int(w) for w in (args.width or DEFAULT_WIDTH.get(args.model, "")).split(",") if w]
    model = build(args.model, widths, args.image_size).to(memory_format=memory_format)
    recipe = Recipe(args, model)
    step = torch.compile(model) if args.compile else model
    loss_fn = nn.CrossEntropyLoss()
    batches = iter(Batches(read(args.data_dir, "train", args.image_size), args.batch_size,
                           memory_format))

    model.train()
    done, used = [], []
    for _ in range(args.warmup + args.steps):
        images, labels = next(batches)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = loss_fn(step(images), labels)
        recipe.optimizer.zero_grad()
        loss.backward()
        recipe.step()
        done.append(time.perf_counter())
        used.append(processor_seconds())
    elapsed = done[-1] - done[args.warmup - 1]
    cpu_ms = (used[-1] - used[args.warmup - 1]) * 1000 / args.steps
    with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
        evaluate(step, read(args.data_dir, "test", args.image_size), args.batch_size, memory_format)
    print(json.dumps({"images_per_s": args.steps * args.batch_size / elapsed,
                      "cpu_ms_per_step": cpu_ms, "peak_mb": peak_memory_mb(), "loss": loss.item(),
                      "torch": torch.__version__}))


if __name__ == "__main__":
    main()
