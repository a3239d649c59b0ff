"""Independent implementation of starstep's random draws: RandomResizedCrop and flip of an image sample, and the
Fisher-Yates shuffle of an epoch. The generator is Philox4x32-10 with a key of seed and purpose and a counter of epoch
and sample."""

import math

MASK, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
SHUFFLE, AUGMENT = 2, 3  # purposes
SCALE, RATIO, TRIES = (0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0), 10


def mix(a, b):
    """The finalizer of splitmix64."""
    z = (a + 0x9E3779B97F4A7C15 * (b + 1)) & MASK64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK64
    return z ^ (z >> 31)


def philox(key, counter):
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [c0, c1, c2, c3]


def words(seed, purpose, epoch, sample):
    key = mix(seed, purpose)
    block = 0
    while True:
        yield from philox((key & MASK, key >> 32), (block, purpose, epoch, sample))
        block += 1


def between(stream, low, high):
    """Returns a uniform number in low .. high with 53 bits."""
    bits = next(stream) << 21
    bits |= next(stream) >> 11
    return low + (high - low) * (bits * 2.0**-53)


def below(stream, n):
    """Returns a uniform integer in 0 .. n-1; rejects words below 2^32 mod n to avoid bias."""
    while True:
        word = next(stream)
        if word >= 2**32 % n:
            return word % n


def draw(seed, epoch, sample, width, height):
    """Returns (x, y, width, height, flip). The steps after the flip are those of torchvision's get_params."""
    stream = words(seed, AUGMENT, epoch, sample)
    flip = next(stream) >> 31
    for _ in range(TRIES):
        area = width * height * between(stream, *SCALE)
        ratio = math.exp(between(stream, math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            y = below(stream, height - h + 1)
            return below(stream, width - w + 1), y, w, h, flip
    w, h = width, height
    if width / height < RATIO[0]:
        h = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        w = round(height * RATIO[1])
    return (width - w) // 2, (height - h) // 2, w, h, flip


def order(seed, epoch, count):
    """Returns the sample indices of an epoch in order."""
    stream = words(seed, SHUFFLE, epoch, 0)
    indices = list(range(count))
    for i in range(count - 1, 0, -1):
        j = below(stream, i + 1)
        indices[i], indices[j] = indices[j], indices[i]
    return indices
