#!/usr/bin/env python3
"""Records training runs of torchvision's ResNet-50 from JPEG files, for tests/parity/test_parity_images.sh.

    record_image_folder.py [--output DIR]    write image-folder/ and the references of a narrow model
    record_image_folder.py --full DIR        the same for torchvision.models.resnet50 itself, with samples
                                         of 64x64 and of 224x224, for tests/parity/full_parity.sh
    record_image_folder.py --check-strict FILE --classes N
                                         load a checkpoint of the full model with strict=True

PIL reads the files; torchvision's Resize, CenterCrop, ToTensor and Normalize transform them. The narrow model
reads them in the folder's order. The full model reads them shuffled as by starstep: in the folder's order,
batches would have a single class, and PyTorch's fp32 losses would differ from fp64 by 2e-4. record.py
documents the training of a case and the reason for the warm-up.
"""

import argparse
import os
import sys
from functools import partial

import torchvision

import image_folder
import record
import torchvision_models

# 51 files: 2 steps per epoch and less than a batch remains. 25 files: shards of unequal size.
NARROW = {"widths": (4, 5, 6, 7), "classes": 10, "train": 51, "val": 25, "side": 64, "batch": 24,
          "size": (80, 72), "quality": 50, "ranks": [1, 2, 3], "steps": 10}
SGD = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}
# 224 starts from the weights of 64, whose warm-up is cheaper.
FULL = {
    64: {"train": 330, "val": 70, "batch": 32, "size": (64, 64), "ranks": [1, 2], "steps": 10,
         "warmed_up": ""},
    224: {"train": 27, "val": 20, "batch": 8, "size": (320, 240), "ranks": [1], "steps": 3,
          "warmed_up": "resnet50-64"},
}
FULL_WARM_UP_STEPS, FULL_WARM_UP_SAMPLES = 120, 640
FULL_CLASSES, FULL_QUALITY, FULL_THREADS = 10, 75, 2
FULL_WARM_UP = {"lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4}
FULL_LR = 0.001  # PyTorch's fp32 losses agree with fp64's to 5e-6; at 0.005 to 2e-4


def record_narrow(directory):
    c = NARROW
    image_folder.write(os.path.join(directory, "image-folder"), c["train"], c["val"], c["classes"],
                          c["size"], c["quality"])
    samples = partial(image_folder.samples, folder="image-folder", side=c["side"],
                      warm_up=(800, c["classes"], c["size"], c["quality"]))
    record.record_case(
        record.Case("image-folder-resnet50", partial(torchvision_models.resnet50, c["widths"], c["classes"]),
                    c["widths"], c["ranks"], c["steps"], SGD, samples, c["batch"]), directory)


def record_full(directory, side, lr):
    c = FULL[side]
    folder = f"image-folder{side}"
    image_folder.write(os.path.join(directory, folder), c["train"], c["val"], FULL_CLASSES, c["size"],
                          FULL_QUALITY)
    samples = partial(image_folder.samples, folder=folder, side=side,
                      warm_up=(FULL_WARM_UP_SAMPLES, FULL_CLASSES, c["size"], FULL_QUALITY), seed=1)
    record.record_case(
        record.Case(f"resnet50-{side}", partial(torchvision.models.resnet50, num_classes=FULL_CLASSES),
                    (64, 128, 256, 512), c["ranks"], c["steps"], {**SGD, "lr": lr}, samples, c["batch"],
                    FULL_WARM_UP_STEPS, FULL_WARM_UP, FULL_THREADS, c["warmed_up"]), directory)


def check_strict(path, classes):
    try:
        record.load_state(torchvision.models.resnet50(num_classes=classes), path)
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    print(f"{path}: ok, torchvision.models.resnet50 loads it with strict=True")
    return 0


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", default=here, help="folder to write to (default: beside this file)")
    parser.add_argument("--full", metavar="DIR", help="record the full model in this folder")
    parser.add_argument("--side", type=int, choices=FULL, help="only this case of --full")
    parser.add_argument("--lr", type=float, default=FULL_LR, help="learning rate of --full (default: %(default)s)")
    parser.add_argument("--check-strict", metavar="FILE", help="load this checkpoint and exit")
    parser.add_argument("--classes", type=int, default=FULL_CLASSES, help="number of classes of the checkpoint")
    args = parser.parse_args()
    if args.check_strict:
        return check_strict(args.check_strict, args.classes)
    if args.full:
        for side in [args.side] if args.side else FULL:
            record_full(args.full, side, args.lr)
    else:
        record_narrow(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
