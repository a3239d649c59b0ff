#!/usr/bin/env python3
"""Records results of PIL and torchvision on small JPEG files, for tests/data/test_jpeg.c and test_resize.c.

    record_images.py [--output DIR]

Output: images/*.jpg, the expected images as images/*.ppm (binary PPM), and images/cases.txt with a
line for each expectation:

    decode FILE EXPECTED                             Image.open(FILE).convert("RGB")
    crop FILE x y width height side flip EXPECTED    resized_crop, then hflip
    centre FILE shorter side EXPECTED                Resize(shorter), CenterCrop(side)
    box FILE left top right bottom w h EXPECTED      Image.resize((w, h), BILINEAR, box)
    size width height shorter side W H top left      Resize's size and CenterCrop's corner
"""

import argparse
import io
import os

import numpy as np
import torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode, transforms
from torchvision.transforms import functional as F


def image(width, height, channels, seed):
    """Makes an image of smooth waves with noise, similar to a photograph."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(channels):
        plane = np.full((height, width), 128.0)
        for _ in range(4):
            fx, fy, phase = rng.uniform(-0.5, 0.5), rng.uniform(-0.5, 0.5), rng.uniform(0, 6.3)
            plane += rng.uniform(10, 50) * np.sin(fx * x + fy * y + phase)
        planes.append(plane + rng.normal(0, 12, plane.shape))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def jpeg(array, mode="RGB", **options):
    out = io.BytesIO()
    Image.fromarray(array[..., 0] if mode == "L" else array, mode).save(out, "JPEG", **options)
    return out.getvalue()


def as_ycck(data):
    """Sets the color transform in the Adobe marker to YCCK."""
    at = data.index(b"Adobe")
    return data[: at + 11] + b"\x02" + data[at + 12 :]


def files():
    rotated = Image.Exif()
    rotated[0x0112] = 6  # orientation
    return {
        "c420.jpg": jpeg(image(61, 47, 3, 1), quality=75, subsampling="4:2:0"),
        "c422.jpg": jpeg(image(50, 41, 3, 2), quality=85, subsampling="4:2:2"),
        "c444.jpg": jpeg(image(33, 64, 3, 3), quality=95, subsampling="4:4:4"),
        "grey.jpg": jpeg(image(64, 64, 1, 4), "L", quality=80),
        "progressive.jpg": jpeg(image(57, 64, 3, 5), quality=80, progressive=True),
        "cmyk.jpg": jpeg(image(40, 30, 4, 6), "CMYK", quality=90),
        "ycck.jpg": as_ycck(jpeg(image(40, 30, 4, 7), "CMYK", quality=90)),
        "rotated.jpg": jpeg(image(24, 40, 3, 8), quality=70, exif=rotated),
        "pixel.jpg": jpeg(image(1, 1, 3, 9), quality=90),
        "large.jpg": jpeg(image(211, 150, 3, 10), quality=60, subsampling="4:2:0"),
        "large-progressive.jpg": jpeg(
            image(150, 203, 3, 11), quality=50, subsampling="4:2:0", progressive=True
        ),
    }


CROPS = [  # file, x, y, width, height, side, flip
    ("large.jpg", 17, 9, 120, 101, 32, 0),
    ("large.jpg", 0, 0, 211, 150, 24, 1),
    ("large.jpg", 90, 60, 13, 17, 40, 1),
    ("large.jpg", 200, 139, 11, 11, 11, 0),
    ("large-progressive.jpg", 3, 50, 140, 153, 37, 1),
    ("grey.jpg", 5, 6, 50, 44, 64, 0),
    ("pixel.jpg", 0, 0, 1, 1, 9, 0),
]
CENTRES = [("large.jpg", 40, 32), ("large-progressive.jpg", 45, 40), ("c420.jpg", 47, 30), ("grey.jpg", 73, 64)]
BOXES = [  # file, box, size
    ("large.jpg", (10.25, 3.5, 190.75, 149.125), (29, 31)),
    ("c444.jpg", (0.5, 0, 33, 63.5), (40, 30)),
]
SIZES = [(w, h, s, n) for w in (33, 50, 64, 211, 500) for h in (34, 61, 375) for s, n in ((40, 33), (33, 32), (256, 224))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "images"))
    output = parser.parse_args().output
    os.makedirs(output, exist_ok=True)
    lines = []

    def expect(words, name, image):
        assert image.mode == "RGB"
        image.save(os.path.join(output, name), "PPM")
        lines.append(" ".join(map(str, words + [name])))

    images = {}
    for name, data in files().items():
        with open(os.path.join(output, name), "wb") as f:
            f.write(data)
        images[name] = Image.open(io.BytesIO(data)).convert("RGB")
        if not name.startswith("large"):
            expect(["decode", name], name.replace(".jpg", ".ppm"), images[name])
    for i, (name, x, y, width, height, side, flip) in enumerate(CROPS):
        out = F.resized_crop(images[name], y, x, height, width, [side, side], InterpolationMode.BILINEAR)
        expect(["crop", name, x, y, width, height, side, flip], f"crop{i}.ppm", F.hflip(out) if flip else out)
    for i, (name, shorter, side) in enumerate(CENTRES):
        resize = transforms.Resize(shorter, InterpolationMode.BILINEAR, antialias=True)
        expect(["centre", name, shorter, side], f"centre{i}.ppm", F.center_crop(resize(images[name]), [side, side]))
    for i, (name, box, size) in enumerate(BOXES):
        expect(["box", name, *box, *size], f"box{i}.ppm", images[name].resize(size, Image.BILINEAR, box))
    for width, height, shorter, side in SIZES:
        # The value of each pixel encodes its position, so that the first pixel of the crop gives its corner.
        resized = F.resize(Image.new("RGB", (width, height)), shorter)
        y, x = np.mgrid[0 : resized.height, 0 : resized.width].astype(np.int32)
        place = Image.fromarray(y * 65536 + x, "I")
        top, left = divmod(F.center_crop(place, [side, side]).getpixel((0, 0)), 65536)
        words = ["size", width, height, shorter, side, resized.width, resized.height, top, left]
        lines.append(" ".join(map(str, words)))
    with open(os.path.join(output, "cases.txt"), "w", encoding="ascii") as f:
        f.write(f"# PIL {Image.__version__}, torchvision {torchvision.__version__}\n")
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
