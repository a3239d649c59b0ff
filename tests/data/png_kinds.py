#!/usr/bin/env python3
"""Compare PNG files decoded by starstep with Pillow's convert("RGB").

png_kinds.py make DIR     write PNG files of every color type and bit depth as a data set
png_kinds.py compare DIR PACK...
                          check the pixels in packs of DIR/train and DIR/val against Pillow
"""
import os
import random
import struct
import sys
import warnings
import zlib

from PIL import Image

ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
draw = random.Random(5)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def some_bytes(n):
    return bytes(draw.randrange(256) for _ in range(n))


def pack_row(pixels, depth):
    samples = [sample for pixel in pixels for sample in pixel]
    if depth == 16:
        return b"\0" + struct.pack(f">{len(samples)}H", *samples)
    bits = "".join(format(sample, f"0{depth}b") for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return b"\0" + int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:]


def png(width, height, depth, kind, interlaced, chunks):
    pixels = [[[draw.randrange(1 << depth) for _ in range(CHANNELS[kind])] for _ in range(width)]
              for _ in range(height)]
    if kind == 0 and depth == 16:  # keep some values unclipped
        pixels = [[[v & 0x1FF if draw.random() < 0.5 else v for v in p] for p in row] for row in pixels]
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    rows = b"".join(pack_row(row[x::dx], depth) for x, y, dx, dy in passes for row in pixels[y::dy] if row[x::dx])
    data = zlib.compress(rows)
    half = len(data) // 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
            + chunks + chunk(b"IDAT", data[:half]) + chunk(b"IDAT", data[half:]) + chunk(b"IEND", b""))


def variants(kind, depth):
    """Return the chunks before the data: plain, with transparency and gamma, with a short palette."""
    gamma = chunk(b"gAMA", struct.pack(">I", 20000))
    if kind == 3:
        palette = chunk(b"PLTE", some_bytes(3 << depth))
        short = chunk(b"PLTE", some_bytes(3 * max(1, (1 << depth) // 2)))
        return {"plain": palette, "clear": gamma + palette + chunk(b"tRNS", some_bytes(1 << depth)),
                "short": short + chunk(b"tRNS", b"\0")}
    clear = {0: struct.pack(">H", 1), 2: struct.pack(">HHH", 1, 2, 3)}.get(kind)
    return {"plain": b"", "clear": gamma + (chunk(b"tRNS", clear) if clear else b"")}


def make(folder):
    for split in "train", "val":
        for size in ((1, 1), (3, 2), (9, 8)) if split == "train" else ((33, 17),):
            for kind, depths in DEPTHS.items():
                path = os.path.join(folder, split, f"type{kind}")
                os.makedirs(path, exist_ok=True)
                for depth in depths:
                    for name, chunks in variants(kind, depth).items():
                        for interlaced in 0, 1:
                            file = f"{size[0]}x{size[1]}-{depth}-{name}-{interlaced}.png"
                            with open(os.path.join(path, file), "wb") as out:
                                out.write(png(*size, depth, kind, interlaced, chunks))


def compare(folder, packs):
    """Compare the packs' images with Pillow. A pack is a 64-byte header, then images padded to 64 bytes."""
    for split, pack in zip(("train", "val"), packs):
        with open(pack, "rb") as file:
            got = file.read()
        at, count, bad = 64, 0, 0
        root = os.path.join(folder, split)
        for kind in sorted(os.listdir(root)):
            for name in sorted(os.listdir(os.path.join(root, kind))):
                with Image.open(os.path.join(root, kind, name)) as image:
                    want = image.convert("RGB").tobytes()
                if got[at:at + len(want)] != want:
                    print(f"{split}/{kind}/{name} differs from Pillow's")
                    bad += 1
                at += (len(want) + 63) // 64 * 64
                count += 1
        print(f"{split}: {count} files, {bad} differ")
        if bad or not count:
            sys.exit(1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # about palettes with transparency
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        compare(sys.argv[2], sys.argv[3:])
