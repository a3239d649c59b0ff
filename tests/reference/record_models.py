#!/usr/bin/env python3
"""Records training steps of torchvision's model families, for tests/parity/test_parity_models.sh.

    record_models.py [NAME...]     default: all families of model_families.py; other recordings are preserved

Exports each family's model with tools/starstep-from-pytorch and trains it for 10 steps from weights computed by a
formula (model_families.py), with 16 samples per step on 1 rank, and on 2 ranks for the families in BOTH. Runs in fp64
and in fp32 (with one and two threads; the larger error is recorded), as documented in record_recipes.py. Dropout and
stochastic depth are disabled.

Output: models/NAME.json, the exported layers, and models/recorded.safetensors, with tensors as in record_recipes.py for
NAME on N ranks.
"""

import importlib.machinery
import importlib.util
import os
import sys
import tempfile

import numpy as np
import torch

import model_families
import record
import record_recipes
import safetensors_io

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10
BOTH = ("resnext50", "densenet121", "mobilenet_v2", "shufflenet_v2_x0_5", "vit_b_16")
# In deep models with a BatchNorm after each convolution, rounding errors triple in each step if the steps are larger.
SLOW = ("resnext50", "wide_resnet50_2", "googlenet", "densenet121", "mobilenet_v2", "mnasnet0_5", "regnet_x_400mf")
SLOWER = ("regnet_y_400mf", "shufflenet_v2_x0_5")


def rate(name):
    return 2e-6 if name in SLOWER else 1e-5 if name in SLOW else 1e-4


def recipe(name):
    return record_recipes.Recipe(record_recipes.build(
        torch.optim.SGD, lr=rate(name), momentum=0.9, weight_decay=0.01))


class Ranks(record_recipes.Ranks):
    def __init__(self, name, ranks, dtype):
        self.recipe, self.ranks = recipe(name), ranks
        self.models = [model_families.without_drops(model_families.make(name)).to(dtype).train() for _ in range(ranks)]
        self.model = self.models[0]
        self.optimizer = self.recipe.optimizer(list(self.model.parameters()))
        self.schedule = None
        self.samples = record.tensors_of(os.path.join(HERE, "data", "train.bin"), dtype).tensors


def sample(model):
    """Samples the tensors sorted by name, an order that does not depend on PyTorch."""
    return record_recipes.sample(dict(sorted(model.state_dict().items())))


def train(name, ranks, dtype):
    run = Ranks(name, ranks, dtype)
    losses = np.array([run.step(i)[0] for i in range(STEPS)])
    return losses, sample(run.model)


def record_family(name, ranks, arrays):
    losses, weights = train(name, ranks, torch.float64)
    errors = [0, 0]
    for threads in (1, 2):  # the order of sums differs: up to a hundred times the error in these models
        torch.set_num_threads(threads)
        losses32, weights32 = train(name, ranks, torch.float32)
        found = float(np.max(np.abs(losses32 / losses - 1))), record_recipes.worst(weights32, weights)
        errors = [max(pair) for pair in zip(errors, found)]
    torch.set_num_threads(1)
    moved = [float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in
             zip(weights, sample(model_families.make(name))) if np.any(b)]
    print(f"{name}.{ranks}: losses {losses[0]:.4f} to {losses[-1]:.4f}; fp32 off by {errors[0]:.1e}, {errors[1]:.1e}; "
          f"tensors moved by {min(moved):.1e} to {max(moved):.1e}", flush=True)
    arrays[f"{name}.{ranks}.losses"] = losses
    arrays[f"{name}.{ranks}.weights"] = np.concatenate(weights).astype(np.float32)
    arrays[f"{name}.{ranks}.fp32"] = np.array(errors)


def export(name, path):
    """Exports a model with dropout and stochastic depth, which --dropout 0 disables."""
    program = os.path.join(HERE, "../../tools/starstep-from-pytorch")
    loader = importlib.machinery.SourceFileLoader("starstep_from_pytorch", program)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("starstep_from_pytorch", loader))
    sys.modules["starstep_from_pytorch"] = module
    loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        module.export_model(model_families.make(name), torch.randn(2, 3, 32, 32), folder, name)
        os.replace(os.path.join(folder, "model.json"), path)


def main():
    sys.dont_write_bytecode = True
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    folder = os.path.join(HERE, "models")
    path = os.path.join(folder, "recorded.safetensors")
    os.makedirs(folder, exist_ok=True)
    arrays = safetensors_io.load(path) if sys.argv[1:] and os.path.exists(path) else {}
    for name in sys.argv[1:] or model_families.FAMILIES:
        export(name, os.path.join(folder, name + ".json"))
        for ranks in (1, 2) if name in BOTH else (1,):
            record_family(name, ranks, arrays)
        safetensors_io.save(path, arrays, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
