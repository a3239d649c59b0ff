#!/usr/bin/env python3
"""Write JPEG files with the size and detail of photographs, in folders as for torchvision's ImageFolder.

The images have noise at all scales, with amplitudes that decrease with the scale as in natural images,
and some objects with edges. Equal arguments give equal pixels.
"""

import argparse
import os
import sys

import torch
from PIL import Image, ImageDraw

SIDES = [(500, 375), (375, 500), (500, 333), (500, 500)]
OCTAVES = 7
FALL = 0.76  # factor of the amplitude from one octave to the next finer one


def draw_noise(generator, width, height):
    """Returns (3, height, width), about 0..1; the channels are correlated, as in photographs."""
    total = torch.zeros(3, height, width)
    amplitude = 1.0
    for octave in range(OCTAVES):
        rows, columns = 3 << octave, 4 << octave
        grey = torch.randn(1, 1, rows, columns, generator=generator)
        colour = torch.randn(1, 3, rows, columns, generator=generator)
        grid = torch.nn.functional.interpolate(grey + 0.35 * colour, size=(height, width),
                                               mode="bicubic", align_corners=False)
        total += amplitude * grid[0]
        amplitude *= FALL
    total += 0.02 * torch.randn(3, height, width, generator=generator)  # sensor noise
    return 0.5 + 0.16 * total


def draw_objects(generator, image, width, height):
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        x, y, w, h, r, g, b, kind = torch.rand(8, generator=generator).tolist()
        box = [x * width, y * height, x * width + w * width / 4, y * height + h * height / 4]
        colour = (int(255 * r), int(255 * g), int(255 * b))
        (draw.ellipse if kind < 0.5 else draw.rectangle)(box, fill=colour)


def write_photo(path, seed, factor):
    generator = torch.Generator().manual_seed(seed)
    width, height = (factor * side for side in SIDES[seed % len(SIDES)])
    pixels = (draw_noise(generator, width, height) * 255).clamp(0, 255).to(torch.uint8)
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    draw_objects(generator, image, width, height)
    image.save(path, quality=90 + seed * 3 % 7)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory")
    parser.add_argument("--train", type=int, default=512)
    parser.add_argument("--val", type=int, default=8)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--factor", type=int, default=1, help="enlarge the sides by this factor")
    args = parser.parse_args()
    torch.set_num_threads(1)
    seed = 0
    for split, count in (("train", args.train), ("val", args.val)):
        for k in range(count):
            folder = os.path.join(args.directory, split, f"class{k % args.classes}")
            os.makedirs(folder, exist_ok=True)
            write_photo(os.path.join(folder, f"{k}.jpg"), seed, args.factor)
            seed += 1


if __name__ == "__main__":
    sys.exit(main())
