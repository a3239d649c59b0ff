#!/usr/bin/env python3
"""Records 20 training steps of small models, the PyTorch equivalents of those in tests/graph/test_graphs.h.

    record_small.py [NAME...]      write small/NAME.safetensors; default: all

Images, labels and weights are random, including biases and scales of norms, so that no default value hides
an error. They are redrawn until no input of a ReLU is close to 0 in any step, because the order of additions
could change its sign. Trained in fp64, which is recorded, and in fp32, to measure PyTorch's rounding error.
Contents of a file:

    records        (30, 193) uint8: label, then the image (3,8,8); batches of 6 in this order
    losses         (20,) loss of each step
    fp32           (2,) largest relative errors of the losses and of a tensor (in norm) after the last step
    first.NAME, last.NAME    weights before the first step (fp32) and after the last step
    exp_avg.NAME, exp_avg_sq.NAME    AdamW's states after the last step
"""

import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

import safetensors_io

IMAGES, CLASSES, SIDE, BATCH, STEPS = 30, 5, 8, 6, 20
KINK = 1e-5
SGD = (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01})
# Weight decay is far above the default: a run without it must be out of bounds.
ADAMW = (torch.optim.AdamW, {"lr": 0.002, "weight_decay": 0.5})


class Groups(nn.Module):
    spread = 0.2  # width of the random values added to the weights

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, padding=1)
        self.norm1 = nn.GroupNorm(3, 12)
        self.conv2 = nn.Conv2d(12, 12, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, 12)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.fc = nn.Linear(12 * 4 * 4, CLASSES)

    def forward(self, x):
        x = self.relu1(self.norm1(self.conv1(x)))
        x = self.relu2(self.norm2(self.conv2(x)) + x)
        return self.fc(F.avg_pool2d(x, 2).flatten(1))


class Gelus(nn.Module):
    spread = 0.05

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 12, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, 12)
        self.fc1 = nn.Linear(12 * 4 * 4, 20)
        self.fc2 = nn.Linear(20, CLASSES)

    def forward(self, x):
        x = F.gelu(self.conv1(x))
        x = F.gelu(F.gelu(self.norm2(self.conv2(x)), approximate="tanh") + x)
        x = self.fc1(F.avg_pool2d(x, 2).flatten(1))
        return self.fc2(F.gelu(x, approximate="tanh"))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, 12))
        self.pos_embedding = nn.Parameter(torch.empty(1, 17, 12).normal_(std=0.02))

    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.pos_embedding


class Vit(nn.Module):
    spread = 0.2

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 12, 2, 2)
        self.tokens = Tokens()
        for i in range(4):
            setattr(self, f"norm{i}", nn.LayerNorm(12, eps=1e-6))
        self.qkv, self.proj = nn.Conv2d(12, 36, 1), nn.Conv2d(12, 12, 1)
        self.mlp1, self.mlp2 = nn.Conv2d(12, 20, 1), nn.Conv2d(20, 12, 1)
        self.fc = nn.Linear(12, CLASSES)

    @staticmethod
    def at_places(layer, x):
        return F.linear(x, layer.weight.flatten(1), layer.bias)

    def forward(self, x):
        x = self.norm0(self.patch(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.tokens(x)
        q, k, v = self.at_places(self.qkv, self.norm1(x)).unflatten(2, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.at_places(self.proj, y) + x
        y = F.gelu(self.at_places(self.mlp1, self.norm2(x)))
        x = self.at_places(self.mlp2, y) + x
        return self.fc(self.norm3(x)[:, 0])


class Scale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        return x * self.weight


class Join(nn.Module):
    spread = 0.02

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 12, 3, padding=1), nn.GroupNorm(3, 12)
        self.a, self.b = nn.Conv2d(12, 20, 1), nn.Conv2d(32, 5, 3, padding=1)
        self.c, self.d = nn.Conv2d(31, 31, 3, 2, 1), nn.Conv2d(31, 31, 1, 2)
        self.fc1, self.fc2 = nn.Conv2d(31, 4, 1), nn.Conv2d(4, 31, 1)
        self.gamma, self.classes = Scale(31), nn.Conv2d(31, CLASSES, 1)

    def forward(self, x):
        stem = F.gelu(self.stem_norm(self.stem(x)))
        a = F.gelu(self.a(stem))
        b = self.b(torch.cat([stem, a], 1))
        x = F.channel_shuffle(torch.cat([stem, a, b, a, b], 1), 2)
        left, right = x.chunk(2, 1)
        left, right = F.gelu(self.c(left)), self.d(right)
        y = left * right
        y = y * self.fc2(F.gelu(self.fc1(y.mean((2, 3), keepdim=True))))
        y = self.classes(F.gelu(self.gamma(y) + left))
        return y.mean((2, 3), keepdim=True).flatten(1)


class Readers(nn.Module):
    spread = 0.01

    def __init__(self):
        super().__init__()
        self.stem, self.a = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 6, 1)
        self.b, self.fc = nn.Conv2d(180, 7, 1), nn.Linear(7 * 4 * 4, CLASSES)

    def forward(self, x):
        x = F.gelu(self.a(7 * F.gelu(self.stem(x))))
        return self.fc(F.gelu(self.b(torch.cat([x] * 30, 1))).flatten(1))


RUNS = {"join": (Join, SGD), "readers": (Readers, SGD), "groups": (Groups, SGD), "gelus": (Gelus, SGD), "vit": (Vit, SGD), "groups-adamw": (Groups, ADAMW)}


def train(build, optimizer, first, records, dtype):
    """Returns losses, weights and optimizer states after the last step, and the smallest magnitude of a ReLU input."""
    model, closest = build(), [1.0]
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(
                lambda _, inputs, __: closest.append(inputs[0].abs().min().item()))
    model.load_state_dict(first)
    model.to(dtype)
    images = records[:, 1:].view(IMAGES, 3, SIDE, SIDE).to(dtype)
    images = (images / 255 - 0.5) / 0.25
    kind, options = optimizer
    optimizer = kind(model.parameters(), **options)
    losses = []
    for step in range(STEPS):
        pick = (step * BATCH + torch.arange(BATCH)) % IMAGES
        loss = F.cross_entropy(model(images[pick]), records[pick, 0].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    last = {"last." + key: value for key, value in model.state_dict().items()}
    for key, param in model.named_parameters():
        for state in ("exp_avg", "exp_avg_sq"):
            if state in optimizer.state[param]:
                last[f"{state}.{key}"] = optimizer.state[param][state]
    return torch.tensor(losses, dtype=torch.float64), last, min(closest)


def draw(name):
    """Draws records and initial weights."""
    labels = torch.randint(0, CLASSES, (IMAGES, 1))
    pixels = 20 * labels + torch.randint(0, 170, (IMAGES, 3 * SIDE * SIDE))
    records = torch.cat([labels, pixels], 1).to(torch.uint8)
    model = RUNS[name][0]()
    first = {key: value + model.spread * torch.rand_like(value)
             for key, value in model.state_dict().items()}
    return records, first


def record(name, path):
    torch.manual_seed(1)
    closest = 0
    while closest < KINK:
        records, first = draw(name)
        losses, last, closest = train(*RUNS[name], first, records, torch.float64)
    losses32, last32, _ = train(*RUNS[name], first, records, torch.float32)
    errors = [((losses32 - losses) / losses).abs().max().item(),
              max(((last32[key] - last[key]).norm() / last[key].norm()).item() for key in last)]
    arrays = {"losses": losses.numpy(), "fp32": torch.tensor(errors, dtype=torch.float64).numpy()}
    arrays |= {key: value.numpy() for key, value in last.items()}
    arrays |= {"first." + key: value.numpy() for key, value in first.items()}
    arrays["records"] = records.numpy()
    safetensors_io.save(path, arrays, {"torch": torch.__version__})
    print(f"{name}: losses {losses[0]:.4f} to {losses[-1]:.4f}; fp32 off by {errors[0]:.2g}, {errors[1]:.2g}")


def main():
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "small")
    os.makedirs(folder, exist_ok=True)
    for name in sys.argv[1:] or RUNS:
        record(name, os.path.join(folder, name + ".safetensors"))


if __name__ == "__main__":
    main()
