#!/usr/bin/env python3
"""Records torchvision's models, for tests/parity/test_parity_torchvision.sh and tests/graph/test_models.c.

    record_torchvision.py [--output DIR]     write references; requires data/ of record.py
    record_torchvision.py --check-strict FILE --model NAME --width W,W,...
                                             load a checkpoint with strict=True

record.py documents the training of a case and the reason for the warm-up. Images are 32x32, so the last
stages have maps of 2x2 and 1x1, and their BatchNorms normalize over few values. PyTorch's fp32 and fp64
losses still agree to 1e-6. If rounding decides the sign of a ReLU's input, a tensor changes by 1e-5 to 1e-4.

Output: NAME.txt (each tensor of the full model's state_dict: name, type, shape), per model
NAME-wW-W-.../ as from record.py, and torchvision.json (versions).
"""

import argparse
import json
import os
import sys
from functools import partial

import torchvision

import record
import torchvision_models

WIDTHS = {  # not all multiples of 8 or 16
    "resnet50": (8, 12, 20, 24),
    "vgg11_bn": (8, 12, 16, 20, 24, 30),
}
RANKS = [1, 2]
STEPS = 10
# Tensors changed only by weight decay shrink by 8e-3.
SGD = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}


def builder(name, widths):
    return partial(getattr(torchvision_models, name), widths=widths)


def write_list(name, directory):
    """Writes the list of tensors of torchvision's own model, for 1000 classes."""
    with open(os.path.join(directory, name + ".txt"), "w") as f:
        for tensor_name, tensor in getattr(torchvision.models, name)().state_dict().items():
            kind = str(tensor.dtype).replace("torch.", "")
            print(tensor_name, kind, *tensor.shape, file=f)


def record_all(directory):
    for name, widths in WIDTHS.items():
        write_list(name, directory)
        folder = f"{name}-{record.name_of(widths)}"
        record.record_case(record.Case(folder, builder(name, widths), widths, RANKS, STEPS, SGD), directory)
    with open(os.path.join(directory, "torchvision.json"), "w") as f:
        json.dump({**record.versions(), "torchvision": torchvision.__version__}, f, indent=1)
        f.write("\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", default=here, help="folder to write to (default: beside this file)")
    parser.add_argument("--check-strict", metavar="FILE", help="load this checkpoint and exit")
    parser.add_argument("--model", choices=WIDTHS, help="the checkpoint's model")
    parser.add_argument("--width", help="the checkpoint's channel widths")
    args = parser.parse_args()
    if not args.check_strict:
        record_all(args.output)
        return 0
    if not args.model or not args.width:
        parser.error("--check-strict needs --model and --width")
    widths = [int(w) for w in args.width.split(",")]
    try:
        record.load_state(builder(args.model, widths)(), args.check_strict)
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        print(f"{args.check_strict}: {error}", file=sys.stderr)
        return 1
    print(f"{args.check_strict}: ok, loads with strict=True")
    return 0


if __name__ == "__main__":
    sys.exit(main())
