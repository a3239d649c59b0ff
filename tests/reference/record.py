#!/usr/bin/env python3
"""Records training runs of PyTorch, the reference of tests/parity/test_parity.sh.

    record.py [--output DIR]                         write data, initial weights and references
    record.py --check-strict FILE --width W,W,W,W    load a checkpoint with strict=True

Each case trains 20 steps without shuffling, augmentation and dropout: on 1 rank without
DistributedDataParallel, on 2, 4 and 8 ranks with it over Gloo, with the same 32 samples per step. Each
case is run in fp32 (the reference) and in fp64 (to measure the error of PyTorch's fp32).

The initial weights are the result of a short training. From a fresh initialization the first steps are
chaotic: at lr 0.05 PyTorch's fp32 and fp64 losses differ by 1e-2 after 20 steps, and no bound could
separate an error from rounding. Training at a large lr reaches a region where the loss is flat enough
for smaller steps to be stable. It also changes every tensor from its default (weights 1, biases 0,
variances 1). A default would hide a tensor that is not read, and its relative norm would be only noise.

Written: data/{train,test}.bin, versions.json, and per width wW-W-W-W/init.safetensors,
ranksN.safetensors (rank 0's state after the last step) and ranksN.json (losses, evaluation). Other
models are recorded by scripts that import this one.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from typing import Callable, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import cifar100
import safetensors_io
from wideresnet import WideResNet

WIDTHS = [(8, 16, 24, 32), (12, 20, 24, 40)]  # the second: not multiples of 8 or 16
RANKS = [1, 2, 4, 8]
BATCH, STEPS = 32, 20  # BATCH is global
# 10 steps per epoch and a remainder dropped by drop_last; neither count is divisible by all rank counts.
TRAIN_SAMPLES, TEST_SAMPLES = 330, 70
# Weight decay is far above the guides' 5e-4: a run without it must be out of bounds after 20 steps at
# this small lr. Tensors shrink by 6e-3.
SGD = {"lr": 0.005, "momentum": 0.9, "weight_decay": 0.01}
WARM_UP = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
WARM_UP_STEPS, WARM_UP_SAMPLES = 240, 1600
SEED = 1


def cifar_samples(directory, split, dtype):
    """Returns the samples of the shared data files; split: train, test or warm-up."""
    if split != "warm-up":
        return tensors_of(os.path.join(directory, "data", split + ".bin"), dtype)
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "warm-up.bin")
        cifar100.write_synthetic(path, WARM_UP_SAMPLES, seed=11)
        return tensors_of(path, dtype)


class Case(NamedTuple):
    """A model to record and its training parameters."""
    folder: str
    build: Callable  # makes the module; must be picklable, because ranks are processes
    widths: tuple
    ranks: list
    steps: int
    sgd: dict
    samples: Callable = cifar_samples  # (directory, split, dtype) to a TensorDataset; picklable
    batch: int = BATCH  # global
    warm_up_steps: int = WARM_UP_STEPS
    warm_up_sgd: dict = WARM_UP
    threads: int = 1  # of a run on 1 rank
    warmed_up: str = ""  # folder of the case whose initial state is used; empty: makes one


def tensors_of(path, dtype):
    """Reads a data file as normalized images and labels; ToTensor and Normalize in fp32, as in torchvision."""
    images, labels = cifar100.read(path)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (cifar100.MEAN, cifar100.STD))
    images = torch.from_numpy(images).float().div(255).sub(mean).div(std)
    return TensorDataset(images.to(dtype), torch.from_numpy(labels))


def state_arrays(model):
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def load_state(model, path):
    arrays = safetensors_io.load(path)
    model.load_state_dict({k: torch.from_numpy(v) for k, v in arrays.items()}, strict=True)


def evaluate(model, test_set):
    """Returns the mean loss over all samples and the number classified correctly."""
    model.eval()
    images, labels = test_set.tensors
    with torch.no_grad():
        outputs = model(images)
        loss = nn.functional.cross_entropy(outputs, labels).item()
    return loss, int((outputs.argmax(1) == labels).sum())


def train_steps(model, loader, steps, sgd):
    """Trains for the given number of steps, over as many epochs as needed. Returns the loss of every step."""
    optimizer = torch.optim.SGD(model.parameters(), **sgd)
    model.train()
    losses = []
    while True:
        for images, labels in loader:
            if len(losses) == steps:
                return losses
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())


def make_initial_state(case, directory):
    """Returns the state of a model trained on the warm-up samples."""
    torch.manual_seed(SEED)
    samples = case.samples(directory, "warm-up", torch.float32)
    loader = DataLoader(samples, case.batch, shuffle=True, drop_last=True)
    model = case.build()
    train_steps(model, loader, case.warm_up_steps, case.warm_up_sgd)
    return state_arrays(model)


def train(rank, ranks, case, dtype, directory):
    """Runs one rank. Returns its losses and its module."""
    train_set = case.samples(directory, "train", dtype)
    sampler = DistributedSampler(train_set, ranks, rank, shuffle=False)
    loader = DataLoader(train_set, case.batch // ranks, sampler=sampler, drop_last=True)
    module = case.build()
    load_state(module, os.path.join(directory, case.folder, "init.safetensors"))
    module.to(dtype)
    model = DistributedDataParallel(module) if ranks > 1 else module
    return train_steps(model, loader, case.steps, case.sgd), module


def rank_main(rank, ranks, case, dtype, directory, rendezvous, result):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    losses, module = train(rank, ranks, case, dtype, directory)
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    if rank == 0:
        torch.save(((mean / ranks).tolist(), module.state_dict()), result)
    dist.destroy_process_group()


def run_case(case, ranks, dtype, directory):
    """Runs all ranks. Returns the global loss of each step and rank 0's module after the last."""
    if ranks == 1:
        return train(0, 1, case, dtype, directory)
    with tempfile.TemporaryDirectory() as scratch:
        result = os.path.join(scratch, "result.pt")
        torch.multiprocessing.spawn(
            rank_main, nprocs=ranks,
            args=(ranks, case, dtype, directory, os.path.join(scratch, "rendezvous"), result))
        losses, state = torch.load(result)
    module = case.build().to(dtype)
    module.load_state_dict(state)
    return losses, module


def relative_norms(a, b):
    """Returns (||a-b||/||b||, name) of every floating-point tensor, largest first."""
    norms = [(float(np.linalg.norm(a[name].astype(np.float64) - b[name]) / np.linalg.norm(b[name])), name)
             for name in b if b[name].dtype.kind == "f"]
    return sorted(norms, reverse=True)


def name_of(widths):
    return "w" + "-".join(map(str, widths))


def record_run(case, ranks, directory):
    losses, module = run_case(case, ranks, torch.float32, directory)
    losses64, module64 = run_case(case, ranks, torch.float64, directory)
    stem = os.path.join(directory, case.folder, f"ranks{ranks}")
    arrays = state_arrays(module)
    safetensors_io.save(stem + ".safetensors", arrays)
    test_set = case.samples(directory, "test", torch.float32)
    loss, correct = evaluate(module, test_set)
    loss64, correct64 = evaluate(module64, case.samples(directory, "test", torch.float64))
    loss_error = max(abs(a - b) / abs(b) for a, b in zip(losses, losses64))
    tensor_error, tensor_name = relative_norms(arrays, state_arrays(module64))[0]
    # The smallest relative change of a tensor by the training, for comparison with the bound on tensors.
    init = safetensors_io.load(os.path.join(directory, case.folder, "init.safetensors"))
    moved, moved_name = relative_norms(arrays, init)[-1]
    with open(stem + ".json", "w") as f:
        json.dump({
            "widths": list(case.widths), "ranks": ranks, "batch": case.batch, "steps": case.steps, **case.sgd,
            "losses": losses,
            "eval": {"samples": len(test_set), "loss": loss, "correct": correct},
            "float64": {"losses": losses64, "eval": {"loss": loss64, "correct": correct64}},
            "float32_error": {"loss": loss_error, "tensor": tensor_error, "tensor_name": tensor_name},
            "least_moved": {"tensor": moved, "tensor_name": moved_name},
        }, f, indent=1)
        f.write("\n")
    print(f"{stem}: loss {losses[0]:.4f} .. {losses[-1]:.4f}, test loss {loss:.4f} "
          f"({correct}/{len(test_set)}); fp32 against fp64: loss {loss_error:.1e} relative, "
          f"tensors {tensor_error:.1e} ({tensor_name}); least moved {moved:.1e} ({moved_name})")


def versions():
    found = {"python": platform.python_version(), "numpy": np.__version__,
             "torch": torch.__version__, "machine": platform.machine()}
    try:  # the version of a distribution's build may be less exact than that of its package
        found["torch_package"] = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "python3-torch"],
            capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pass
    return found


def record_case(case, directory):
    torch.set_num_threads(case.threads)
    torch.use_deterministic_algorithms(True)
    os.makedirs(os.path.join(directory, case.folder), exist_ok=True)
    init = os.path.join(directory, case.folder, "init.safetensors")
    if case.warmed_up:
        shutil.copyfile(os.path.join(directory, case.warmed_up, "init.safetensors"), init)
    else:
        safetensors_io.save(init, make_initial_state(case, directory))
    for ranks in case.ranks:
        record_run(case, ranks, directory)


def record(directory):
    cifar100.write_synthetic_dir(os.path.join(directory, "data"), TRAIN_SAMPLES, TEST_SAMPLES)
    for widths in WIDTHS:
        record_case(Case(name_of(widths), partial(WideResNet, widths=widths, dropout=0.0), widths, RANKS,
                         STEPS, SGD), directory)
    with open(os.path.join(directory, "versions.json"), "w") as f:
        json.dump(versions(), f, indent=1)
        f.write("\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", default=here, help="folder to write to (default: beside this file)")
    parser.add_argument("--check-strict", metavar="FILE", help="load this checkpoint and exit")
    parser.add_argument("--width", help="channel widths of the checkpoint, such as 16,160,320,640")
    args = parser.parse_args()
    if not args.check_strict:
        record(args.output)
        return 0
    if not args.width:
        parser.error("--check-strict needs --width")
    try:
        load_state(WideResNet(widths=[int(w) for w in args.width.split(",")]), args.check_strict)
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        print(f"{args.check_strict}: {error}", file=sys.stderr)
        return 1
    print(f"{args.check_strict}: ok, loads with strict=True")
    return 0


if __name__ == "__main__":
    sys.exit(main())
