#!/usr/bin/env python3
"""The guides' training loop in PyTorch on one GPU: the peer of gpu_vs_pytorch.

    pytorch_gpu.py [--model resnet50] [--batch-size N] [--data-dir DIR] ... <requests

Each line of standard input is a request, a JSON object; the response to each is one line of JSON. One
process runs any number of requests, so that PyTorch is imported once and a network is compiled once:

    {"peer": "eager" | "eager-cl" | "compile-cl", "precision": "fp16" | "bf16" | "fp32" | "tf32",
     "data": "synthetic" | "loader"}

eager: as in the guides, contiguous tensors. eager-cl: model and images in channels_last. compile-cl:
eager-cl with torch.compile in its default mode. fp16 is automatic mixed precision with a GradScaler,
bf16 without. Data: `synthetic` is one batch in device memory (no loader, no copy: the upper bound of the
loop), `loader` a DataLoader with workers as in the guides, which reads DIR. For resnet50, torchvision's
for 200 classes, this is ImageFolder with the transforms of the ImageNet guide.

A response contains images/s over the measured steps by wall-clock time, the median step time by CUDA
events, peak memory of the caching allocator in MB, the last loss and, when a network trains for the
first time, startup_s: seconds to import PyTorch, initialize CUDA, build the network and complete its
first step, including compilation.
If a request fails, the response is {"error": ...}, and the process continues.
"""

import time

BEGIN = time.perf_counter()

import argparse
import contextlib
import json
import os
import statistics
import sys
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/reference"))
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import cifar100  # noqa: E402
from wideresnet import WideResNet  # noqa: E402

PEERS = ["eager", "eager-cl", "compile-cl"]
PRECISIONS = ["fp16", "bf16", "fp32", "tf32"]
AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}
PADDING = 4
CLASSES = {"wideresnet": 100, "resnet50": 200}
WIDERESNET_WIDTH = "16,160,320,640"
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pick_device(name):
    """Returns the device; cpu is for testing the script without a GPU."""
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("pytorch_gpu.py: PyTorch finds no GPU; check torch.version.cuda and nvidia-smi")
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    return device


class Stopwatch:
    """Timestamps between steps, without synchronizing with the device: CUDA events, on CPUs the clock."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.marks = []

    def mark(self):
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def median_ms(self):
        pairs = list(zip(self.marks, self.marks[1:]))
        return statistics.median(a.elapsed_time(b) if self.cuda else 1000 * (b - a)
                                 for a, b in pairs)


class GuidesTransform:
    """The guides' transforms of one image, with torchvision."""

    name = "torchvision"

    def __init__(self):
        from PIL import Image
        from torchvision import transforms
        self.to_image = Image.fromarray
        self.chain = transforms.Compose([
            transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=PADDING),
            transforms.ToTensor(), transforms.Normalize(cifar100.MEAN, cifar100.STD)])

    def __call__(self, image):
        return self.chain(self.to_image(image.transpose(1, 2, 0)))


class PlainTransform:
    """The same without torchvision, on tensors."""

    name = "plain"

    def __call__(self, image):
        x = torch.from_numpy(image).float().div_(255)
        if torch.rand(()) < 0.5:
            x = x.flip(2)
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in (cifar100.MEAN, cifar100.STD))
        dy, dx = torch.randint(0, 2 * PADDING + 1, (2,)).tolist()
        padded = nn.functional.pad(x, (PADDING,) * 4)
        return padded[:, dy:dy + 32, dx:dx + 32].sub(mean).div(std)


def pick_transform():
    try:
        return GuidesTransform()
    except ImportError:
        return PlainTransform()


class Cifar100(Dataset):
    def __init__(self, path, transform):
        self.images, self.labels = cifar100.read(path)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.transform(self.images[i]), int(self.labels[i])


def images(args):
    """Returns the training files below DIR/train, and the name of the transforms."""
    from torchvision import datasets, transforms
    chain = transforms.Compose([
        transforms.RandomResizedCrop(args.image_size), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)])
    data = datasets.ImageFolder(os.path.join(args.data_dir, "train"), chain)
    if len(data.classes) > CLASSES[args.model]:
        raise ValueError(f"{data.root} has {len(data.classes)} classes; {args.model} is built for "
                         f"{CLASSES[args.model]}")
    return data, "torchvision"


def cifar(args):
    transform = pick_transform()
    return Cifar100(os.path.join(args.data_dir, "train.bin"), transform), transform.name


def memory_format_of(peer):
    return torch.channels_last if peer.endswith("-cl") else torch.contiguous_format


def loaded_batches(args, device, memory_format):
    if not args.data_dir:
        raise ValueError("data \"loader\" needs --data-dir")
    data, transforms = (images if args.image_size else cifar)(args)
    if len(data) < args.batch_size:
        raise ValueError(f"{len(data)} samples do not fill a batch of {args.batch_size}")
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True,
                        num_workers=args.workers, pin_memory=device.type == "cuda",
                        persistent_workers=args.workers > 0)

    def batches():
        while True:
            for images, labels in loader:
                yield (images.to(device, non_blocking=True, memory_format=memory_format),
                       labels.to(device, non_blocking=True))

    return transforms, batches()


def synthetic_batches(args, device, memory_format):
    side = args.image_size or 32
    images = torch.randn(args.batch_size, 3, side, side, device=device)
    batch = (images.to(memory_format=memory_format),
             torch.randint(0, CLASSES[args.model], (args.batch_size,), device=device))

    def batches():
        while True:
            yield batch

    return "none", batches()


def build(args):
    if args.model == "wideresnet":
        return WideResNet(widths=[int(w) for w in (args.width or WIDERESNET_WIDTH).split(",")])
    import torchvision  # not needed for WideResNet
    if not args.width:
        return torchvision.models.resnet50(num_classes=CLASSES[args.model])
    import torchvision_models
    return torchvision_models.resnet50([int(w) for w in args.width.split(",")], CLASSES[args.model])


def make_trainer(args, peer, precision, device):
    """Returns a function that trains one step and returns its loss."""
    model = build(args)
    model = model.to(device=device, memory_format=memory_format_of(peer))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    loss_fn = nn.CrossEntropyLoss()
    if peer.startswith("compile"):
        model = torch.compile(model)
    amp = AUTOCAST.get(precision)
    scaler = torch.amp.GradScaler(device.type) if precision == "fp16" else None

    def step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=amp) if amp else contextlib.nullcontext():
            loss = loss_fn(model(images), labels)
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step


def peak_memory(device):
    """Returns the caching allocator's peak allocated and reserved memory, and the current use of the whole device."""
    if device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info()
    return {"allocated_mb": torch.cuda.max_memory_allocated() / 2**20,
            "reserved_mb": torch.cuda.max_memory_reserved() / 2**20,
            "device_used_mb": (total - free) / 2**20}


class Measurements:
    """Networks by peer and precision, each built once."""

    def __init__(self, args, device):
        self.args, self.device = args, device
        self.trainers = {}
        self.wait()  # starts CUDA
        self.begun_s = time.perf_counter() - BEGIN

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def trainer(self, peer, precision, batches):
        """Returns the step function of the network, and its startup time in seconds if it is new, or None."""
        if (peer, precision) in self.trainers:
            return self.trainers[peer, precision], None
        torch.manual_seed(1)
        begin = time.perf_counter()
        step = make_trainer(self.args, peer, precision, self.device)
        step(*next(batches))
        self.wait()
        self.trainers[peer, precision] = step
        return step, self.begun_s + time.perf_counter() - begin

    def measure(self, peer, precision, data):
        args, device = self.args, self.device
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        make_batches = synthetic_batches if data == "synthetic" else loaded_batches
        transforms, batches = make_batches(args, device, memory_format_of(peer))
        step, startup_s = self.trainer(peer, precision, batches)
        for _ in range(args.warmup):
            loss = step(*next(batches))
        watch = Stopwatch(device)
        self.wait()
        begin = time.perf_counter()
        watch.mark()
        for _ in range(args.steps):
            loss = step(*next(batches))
            watch.mark()
        self.wait()
        elapsed = time.perf_counter() - begin
        return {"images_per_s": args.steps * args.batch_size / elapsed,
                "step_ms": watch.median_ms(), "startup_s": startup_s, **peak_memory(device),
                "loss": loss.item(), "transforms": transforms, "torch": torch.__version__,
                "gpu": torch.cuda.get_device_name() if device.type == "cuda" else None}

    def free(self):
        """Free cached device memory, which the other program uses until the next request."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def check_request(request, device):
    known = {"peer": PEERS, "precision": PRECISIONS, "data": ["synthetic", "loader"]}
    if not isinstance(request, dict) or set(request) != set(known):
        raise ValueError(f"a request has {', '.join(known)}")
    for name, values in known.items():
        if request[name] not in values:
            raise ValueError(f"{name} {request[name]!r} is not one of {', '.join(values)}")
    if device.type == "cpu" and request["precision"] == "tf32":
        raise ValueError("precision tf32 needs a GPU")
    if request["peer"].startswith("compile") and not hasattr(torch, "compile"):
        raise ValueError(f"PyTorch {torch.__version__} has no torch.compile")


def answer(measurements, line):
    try:
        request = json.loads(line)
        check_request(request, measurements.device)
        return measurements.measure(**request)
    except Exception as error:  # the next request may succeed
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {str(error).split(chr(10))[0]}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", choices=CLASSES, default="wideresnet", help="(%(default)s)")
    parser.add_argument("--image-size", type=int, help="for resnet50 (224)")
    parser.add_argument("--data-dir", help="folder of train.bin, or for images of the folder train; "
                                           "required for data \"loader\"")
    parser.add_argument("--workers", type=int, default=8, help="workers of the loader (%(default)s)")
    parser.add_argument("--width", default="", help="(default: the model's)")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--warmup", type=int, default=20, help="steps before the measurement")
    parser.add_argument("--steps", type=int, default=60, help="measured steps")
    parser.add_argument("--device", default="cuda", help="cpu: for testing the script")
    args = parser.parse_args()
    if args.model == "wideresnet" and args.image_size:
        parser.error("--image-size is for --model resnet50")
    if args.model == "resnet50":
        args.image_size = args.image_size or 224
    if args.warmup < 1 or args.steps < 1:
        parser.error("warm-up and steps must be at least 1")
    measurements = Measurements(args, pick_device(args.device))
    for line in sys.stdin:
        result = answer(measurements, line)
        measurements.free()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
