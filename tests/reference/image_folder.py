"""Writer of small data sets of JPEG files in TinyImageNet's layout, and reader with torchvision's evaluation transform.

DIR/wnids.txt, train/WNID/images/WNID_N.JPEG, val/images/val_N.JPEG, val/val_annotations.txt.
"""

import io
import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import draws

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# File i has the kind i % 8: sizes and JPEG variants that exercise different paths of decoder and resizing.
KINDS = [
    {}, {"turn": True}, {"subsampling": "4:4:4"}, {"progressive": True},
    {}, {"grey": True}, {"subsampling": "4:2:2", "turn": True}, {"small": True},
]


def enlarge(values, height, width):
    """Interpolates bilinearly from a 4x4 grid per channel (3,4,4) to (3,height,width)."""
    axes = []
    for size in (height, width):
        at = np.clip((np.arange(size) + 0.5) * 4 / size - 0.5, 0, 3)
        axes.append(np.maximum(0, 1 - np.abs(at[:, None] - np.arange(4)[None, :])))
    return np.einsum("yi,cij,xj->cyx", axes[0], values, axes[1], optimize=True)


class Maker:
    """Makes noisy images around a smooth pattern of each class, the same for every seed, so that classes can be
    learned."""

    def __init__(self, classes, size, quality, seed):
        self.patterns = np.random.RandomState(0).normal(size=(classes, 3, 4, 4))
        self.rng = np.random.RandomState(seed)
        self.size, self.quality = size, quality

    def jpeg(self, label, number):
        kind = KINDS[number % len(KINDS)]
        width, height = self.size
        if kind.get("turn"):
            width, height = height, width
        if kind.get("small"):  # smaller than the sample, so that the image is enlarged
            width, height = width * 5 // 8, height * 5 // 8
        smooth = enlarge(self.patterns[label] + 0.5 * self.rng.normal(size=(3, 4, 4)), height, width)
        noise = enlarge(self.rng.normal(size=(3, 4, 4)), height, width)
        fine = self.rng.normal(size=(1, height, width))
        values = np.clip(np.rint(125 + 45 * smooth + 20 * noise + 9 * fine), 0, 255).astype(np.uint8)
        image = Image.fromarray(values.transpose(1, 2, 0))
        options = {key: kind[key] for key in ("subsampling", "progressive") if key in kind}
        out = io.BytesIO()
        (image.convert("L") if kind.get("grey") else image).save(
            out, "JPEG", quality=self.quality, optimize=True, **options)
        return out.getvalue()


def write_bytes(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def name_class(label):
    return f"n{1443537 + 7919 * label:08d}"


def write(directory, train, val, classes, size, quality, seed=1):
    """Writes a data set. size: (width, height) of most files."""
    maker = Maker(classes, size, quality, seed)
    annotations = []
    for i in range(train):
        name = name_class(i % classes)
        write_bytes(os.path.join(directory, "train", name, "images", f"{name}_{i // classes}.JPEG"),
                    maker.jpeg(i % classes, i))
    for i in range(val):
        label = int(maker.rng.randint(classes))
        write_bytes(os.path.join(directory, "val", "images", f"val_{i}.JPEG"), maker.jpeg(label, i))
        annotations.append(f"val_{i}.JPEG\t{name_class(label)}\t0\t0\t63\t63\n")
    write_bytes(os.path.join(directory, "val", "val_annotations.txt"), "".join(annotations).encode())
    names = "".join(name_class(label) + "\n" for label in range(classes))
    write_bytes(os.path.join(directory, "wnids.txt"), names.encode())


def open_image(source):
    with Image.open(source) as image:
        return image.convert("RGB")


def evaluation(side):
    return transforms.Compose([transforms.Resize(side * 8 // 7), transforms.CenterCrop(side),
                               transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def list_files(directory, split):
    """Returns (path, label) of every file; train in ImageFolder's order, val sorted by name."""
    train = ImageFolder(os.path.join(directory, "train"))
    if split == "train":
        return train.samples
    with open(os.path.join(directory, "val", "val_annotations.txt"), encoding="ascii") as f:
        lines = sorted(line.split("\t") for line in f)
    return [(os.path.join(directory, "val", "images", line[0]), train.class_to_idx[line[1]])
            for line in lines]


def as_samples(pairs, side, dtype):
    """Returns a TensorDataset of (file or bytes, label) pairs, without augmentation."""
    transform = evaluation(side)
    images = [transform(open_image(source)) for source, _ in pairs]
    return TensorDataset(torch.stack(images).to(dtype), torch.tensor([label for _, label in pairs]))


def samples(directory, split, dtype, folder, side, warm_up, seed=None):
    """The `samples` function of record.Case. warm_up: number of images of the warm-up, and Maker's arguments except the
    seed. seed: orders the training files as starstep's first epoch with this seed; None: in the folder's order."""
    if split != "warm-up":
        files = list_files(os.path.join(directory, folder), "val" if split == "test" else "train")
        if split == "train" and seed is not None:
            files = [files[i] for i in draws.order(seed, 0, len(files))]
        return as_samples(files, side, dtype)
    count, classes, size, quality = warm_up
    maker = Maker(classes, size, quality, seed=11)
    pairs = []
    for i in range(count):
        label = int(maker.rng.randint(classes))
        pairs.append((io.BytesIO(maker.jpeg(label, i)), label))
    return as_samples(pairs, side, dtype)
