#!/usr/bin/env python3
"""Records torchvision's transforms of image-folder/ (record_image_folder.py), for tests/data/test_images_torchvision.c.

    record_samples.py [--output DIR]

Output: samples.txt with a line for each expectation:

    sample SPLIT INDEX HEIGHT WIDTH CHANNELS SEED EPOCH AUGMENT LABEL BYTES VALUES
        SHA-256 of the sample as bytes and as normalised fp32, both (CHANNELS,HEIGHT,WIDTH). With
        AUGMENT, crop and flip are starstep's draws (draws.py), passed to torchvision's resized_crop
        and hflip. With one channel, Grayscale follows.
    draw SEED EPOCH SAMPLE WIDTH HEIGHT x y w h flip
        a draw for an image of WIDTH x HEIGHT
    share WIDTH HEIGHT WHAT VALUE PART
        the fraction PART of the draws of RandomResizedCrop.get_params has WHAT (area, ratio, x, y) <= VALUE
"""

import argparse
import hashlib
import os

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import functional as F
from torchvision.transforms import transforms

import draws
import image_folder

SHAPES, SEED = ((64, 64, 3), (224, 224, 3), (48, 64, 3), (96, 40, 1), (64, 64, 1)), 7
GREY_MEAN, GREY_STD = (0.459,), (0.226,)
SIZES = [(64, 64), (500, 375), (300, 100), (40, 90)]  # for the third and fourth, many tries fail
EXTREMES = [(2000, 30), (31, 3000), (1, 1), (7, 5), (1, 4)]
DRAWS = 200000
PARTS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()


def resize_to_cover(image, height, width):
    """Resizes to the smallest size that covers the target with the same aspect ratio; for squares, Resize(side)."""
    if height == width:
        return F.resize(image, height)
    have_width, have_height = image.size
    if have_width * height <= have_height * width:
        return F.resize(image, [int(width * have_height / have_width), width])
    return F.resize(image, [height, int(height * have_width / have_height)])


def sample_line(files, split, index, shape, epoch, augment):
    height, width, channels = shape
    path, label = files[index]
    image = image_folder.open_image(path)
    if augment:
        x, y, w, h, flip = draws.draw(SEED, epoch, index, *image.size)
        image = F.resized_crop(image, y, x, h, w, [height, width])
        image = F.hflip(image) if flip else image
    else:
        image = F.center_crop(resize_to_cover(image, height * 8 // 7, width * 8 // 7), [height, width])
    mean, std = image_folder.MEAN, image_folder.STD
    if channels == 1:
        image, mean, std = F.to_grayscale(image), GREY_MEAN, GREY_STD
    values = F.normalize(F.to_tensor(image), mean, std)
    return ["sample", split, index, *shape, SEED, epoch, augment, label, digest(F.pil_to_tensor(image)),
            digest(values)]


def sample_lines(directory):
    for split in ("train", "val"):
        files = image_folder.list_files(directory, split)
        for shape in SHAPES:
            for index in range(0, len(files), 5):
                yield sample_line(files, split, index, shape, 0, 0)
            for index in range(2, len(files) if split == "train" else 0, 3):
                yield sample_line(files, split, index, shape, index % 4, 1)


def draw_lines():
    for sample in range(12):
        for size in SIZES:
            yield ["draw", 2**40 + sample, 3 * sample, sample, *size, *draws.draw(2**40 + sample, 3 * sample, sample, *size)]
    for size in EXTREMES:
        yield ["draw", 0, 1, 2, *size, *draws.draw(0, 1, 2, *size)]


def share_lines():
    for width, height in SIZES:
        image = Image.new("L", (width, height))
        found = np.array([transforms.RandomResizedCrop.get_params(image, list(draws.SCALE), list(draws.RATIO))
                          for _ in range(DRAWS)], np.float64)
        y, x, h, w = found.T
        for what, values in {"area": w * h, "ratio": w / h, "x": x, "y": y}.items():
            # set(): quantiles are equal if many draws have the same value.
            for value in sorted(set(np.quantile(values, PARTS, method="lower"))):
                yield ["share", width, height, what, repr(float(value)), repr(float(np.mean(values <= value)))]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", default=here, help="folder with image-folder/ (default: beside this file)")
    output = parser.parse_args().output
    torch.manual_seed(1)
    with open(os.path.join(output, "samples.txt"), "w", encoding="ascii") as f:
        f.write(f"# PIL {Image.__version__}, torchvision {torchvision.__version__}\n")
        for line in [*sample_lines(os.path.join(output, "image-folder")), *draw_lines(), *share_lines()]:
            f.write(" ".join(map(str, line)) + "\n")


if __name__ == "__main__":
    main()
