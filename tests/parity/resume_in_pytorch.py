#!/usr/bin/env python3
"""The PyTorch side of test_optimizer_state.sh.

    resume_in_pytorch.py names MODEL.pt
    resume_in_pytorch.py train WEIGHTS.safetensors OPTIMIZER.pt KIND FIRST STEPS MODEL.pt NEW_OPTIMIZER.pt
    resume_in_pytorch.py compare MODEL.pt WEIGHTS.safetensors OPTIMIZER.pt OTHER_OPTIMIZER.pt

names: saves the model's state_dict. train: loads the weights and the state of an optimizer of KIND and trains STEPS
steps on the training samples from FIRST, 16 per step. compare: checks that weights are equal within 1e-5 of their norm
and optimizer states within 1e-3, because gradients in them partly cancel.
"""

import math
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../reference"))
import record  # noqa: E402
import record_recipes  # noqa: E402

BATCH = 16


def train(weights, optimizer_file, kind, first, steps, model_to, optimizer_to):
    model = record_recipes.new_model(weights, torch.float32)
    groups = list(model.parameters())
    if kind.endswith("-groups"):
        kind, groups = kind.removesuffix("-groups"), record_recipes.excluded()(model)
    optimizer = getattr(torch.optim, kind)(groups, lr=1.0)
    optimizer.load_state_dict(torch.load(optimizer_file, weights_only=True))
    images, labels = record.tensors_of(os.path.join(record_recipes.HERE, "data", "train.bin"), torch.float32).tensors
    for at in range(int(first), int(first) + int(steps) * BATCH, BATCH):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[at:at + BATCH]), labels[at:at + BATCH]).backward()
        optimizer.step()
    torch.save(model.state_dict(), model_to)
    torch.save(optimizer.state_dict(), optimizer_to)


def distance(a, b):
    far = float((a - b).double().norm() / b.double().norm().clamp_min(1e-12))
    return math.inf if math.isnan(far) else far  # max() ignores NaN


def worst(pairs):
    return max((distance(a, b), name) for name, a, b in pairs)


def compare(model, weights, optimizer, other):
    state, reference = torch.load(model, weights_only=True), record.safetensors_io.load(weights)
    ours, theirs = (torch.load(path, weights_only=True) for path in (other, optimizer))
    if not ours["state"] or ours["param_groups"] != theirs["param_groups"]:
        raise SystemExit(f"groups or states differ: {ours['param_groups']} {theirs['param_groups']}")
    far = worst([(name, state[name], torch.from_numpy(reference[name])) for name in reference])
    far_states = worst([(f"{name} {index}", theirs["state"][index][name], value)
                        for index, states in ours["state"].items() for name, value in states.items()])
    print("weights: {:.1e} {}; states: {:.1e} {}".format(*far, *far_states))
    return not (far[0] < 1e-5 and far_states[0] < 1e-3)


def main():
    command, *words = sys.argv[1:]
    torch.set_num_threads(1)
    if command == "names":
        torch.save(record_recipes.new_model("", torch.float32).state_dict(), *words)
        return 0
    return {"train": train, "compare": compare}[command](*words)


if __name__ == "__main__":
    sys.exit(main())
