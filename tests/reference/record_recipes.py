#!/usr/bin/env python3
"""Records training recipes of PyTorch, for tests/parity/test_parity_recipes.sh.

    record_recipes.py [CASE...]      default: all cases; other recordings are preserved

Each case trains the guides' WideResNet for 20 steps from the weights in w8-16-24-32/ (record.py gives the
reason), mostly with 16 samples per step on 1 and 2 ranks. It is run in fp64, the reference, and in fp32, to
measure PyTorch's rounding error. Ranks are emulated in one process as in DistributedDataParallel: each has a
model with separate running statistics, gradients are averaged, and rank 0's model is the result. SyncBN is
emulated by one model with the samples of all ranks, which is its definition (torch.nn.SyncBatchNorm does not
support CPUs). PyTorch has no LARS and LAMB; they are implemented here from their papers, tensor by tensor.

A case lists recipes without its features. The recording fails if the result is too close to one of them,
because a run without the feature must be out of bounds.

Output: recipes/recorded.safetensors, for CASE on N ranks

    CASE.N.losses    (20,) loss of each step, mean over ranks and micro-batches
    CASE.N.weights   at most 32 equidistant elements of each flattened floating-point tensor (sample()), in
                     the order of the initial weights' file
    CASE.N.ema       the same elements of the EMA weights
    CASE.N.fp32      (2,) largest relative errors of PyTorch's fp32: of a loss; of a tensor's sample, in norm
    CASE.lr          (20,) learning rates
"""

import dataclasses
import functools
import math
import os
import sys
import warnings
from functools import partial
from typing import Callable

import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import record
import safetensors_io
from wideresnet import WideResNet

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTHS, BATCH, STEPS = (8, 16, 24, 32), 16, 20
SAMPLE = 32
BOUND = 1e-5  # minimum bound, or twice PyTorch's fp32 error if larger; recipe_compare.c allows 2e-5


class Lars(torch.optim.Optimizer):
    """LARS: You, Gitman and Ginsburg 2017, algorithm 1, as in MLPerf's ResNet reference (image_classification/
    tensorflow2/lars_optimizer.py): the momentum buffer includes the learning rate; parameters that are not
    adapted have no decay. The reference's epsilon of 1e-7 next to the norms is omitted."""

    def __init__(self, groups, lr, momentum=0.9, weight_decay=0.0, eta=0.001, inside=True):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eta": eta,
                                  "adapt": True, "inside": inside})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                g, lr, decay = w.grad, group["lr"], group["weight_decay"]
                if group["adapt"]:
                    w_norm, g_norm = w.norm(), g.norm()
                    if w_norm > 0 and g_norm > 0:
                        lr = lr * (group["eta"] * w_norm / (g_norm + decay * w_norm))
                    g = g + decay * w
                v = self.state[w].setdefault("momentum_buffer", torch.zeros_like(w))
                v.mul_(group["momentum"]).add_(lr * g if group["inside"] else g)
                w.sub_(v if group["inside"] else lr * v)


class Lamb(torch.optim.Optimizer):
    """LAMB: You et al. 2020, algorithm 2, with phi(z) = z and bias correction. Parameters that are not adapted
    have a ratio of 1."""

    def __init__(self, groups, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, correct=True):
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "adapt": True, "correct": correct})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                state, (beta1, beta2) = self.state[w], group["betas"]
                t = state["step"] = state.get("step", 0) + 1 if group["correct"] else math.inf
                m = state.setdefault("exp_avg", torch.zeros_like(w))
                v = state.setdefault("exp_avg_sq", torch.zeros_like(w))
                m.mul_(beta1).add_((1 - beta1) * w.grad)
                v.mul_(beta2).add_((1 - beta2) * w.grad * w.grad)
                r = (m / (1 - beta1 ** t)) / ((v / (1 - beta2 ** t)).sqrt() + group["eps"])
                u = r + group["weight_decay"] * w
                ratio = 1.0
                if group["adapt"] and w.norm() > 0 and u.norm() > 0:
                    ratio = w.norm() / u.norm()
                w.sub_(group["lr"] * ratio * u)


def is_excluded(name, param):
    """Returns whether a parameter is one-dimensional: those of BatchNorm and all biases."""
    return param.ndim == 1


def one_group(model):
    return list(model.parameters())


def excluded(**options):
    """Returns a function that makes two groups; the second, of BatchNorm and biases, has these options."""
    def groups(model):
        named = list(model.named_parameters())
        return [{"params": [p for n, p in named if not is_excluded(n, p)]},
                {"params": [p for n, p in named if is_excluded(n, p)], **options}]
    return groups


def factors(model):
    """Two groups; the last layer has ten times the learning rate."""
    named = list(model.named_parameters())
    return [{"params": [p for n, p in named if not n.startswith("fc.")]},
            {"params": [p for n, p in named if n.startswith("fc.")], "lr": 5e-3}]


def build(kind, **options):
    return lambda groups: kind(groups, **options)


# Small learning rates and large weight decays: a ReLU decided by rounding changes weights by much less than the bound,
# and a missing feature by much more.
sgd = partial(build, torch.optim.SGD, lr=5e-4, momentum=0.9, weight_decay=0.1)
adam = partial(build, torch.optim.Adam, lr=2e-5, weight_decay=0.1)
adamw = partial(build, torch.optim.AdamW, lr=2e-5, weight_decay=2.0)
lars = partial(build, Lars, lr=0.01, weight_decay=0.1)
lamb = partial(build, Lamb, lr=1e-4, weight_decay=5.0)
not_adapted = excluded(weight_decay=0.0, adapt=False)


def per_step(function):
    """Returns a schedule; function(k) is the factor of the learning rate in step k, from 0."""
    return lambda optimizer: lr_scheduler.LambdaLR(optimizer, function)


def behind_warmup(steps, schedule):
    """Returns a schedule with a linear warm-up from 0, followed by another schedule."""
    return lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, [per_step(lambda k: min(1, k / steps))(optimizer), schedule(optimizer)], milestones=[steps])


def cosine(steps, **options):
    return lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, steps, **options)


def one_cycle(optimizer):
    lr = optimizer.param_groups[0]["lr"]
    return lr_scheduler.OneCycleLR(optimizer, lr, total_steps=STEPS, cycle_momentum=False)


@dataclasses.dataclass(frozen=True)
class Recipe:
    optimizer: Callable = sgd()  # of groups
    groups: Callable = one_group  # of a model
    schedule: "Callable | None" = None  # of an optimizer
    smoothing: float = 0.0
    clip: float = 0.0
    ema: float = 0.0
    accumulate: int = 1
    batch: int = BATCH
    keep_last: bool = False  # as drop_last=False: the last, smaller batch of an epoch is used
    sync: bool = False
    ranks: tuple = (1, 2)
    without: tuple = ()  # recipes whose result must differ


PLAIN = Recipe()
DECOUPLED = Recipe(adamw())
WARMED_COSINE = behind_warmup(4, cosine(STEPS - 4))
CASES = {
    "sgd": PLAIN,
    "dampening": Recipe(sgd(dampening=0.5), without=(PLAIN,)),
    "nesterov": Recipe(sgd(nesterov=True), without=(PLAIN,)),
    "adam": Recipe(adam(), without=(DECOUPLED, Recipe(adam(weight_decay=0.0)))),
    "adamw": Recipe(adamw(), without=(Recipe(adam(weight_decay=2.0)), Recipe(adamw(weight_decay=0.0)))),
    "betas": Recipe(adamw(betas=(0.8, 0.95), eps=1e-4), without=(
        Recipe(adamw(betas=(0.9, 0.95), eps=1e-4)), Recipe(adamw(betas=(0.8, 0.999), eps=1e-4)),
        Recipe(adamw(betas=(0.8, 0.95))))),
    "lars": Recipe(lars(), not_adapted, WARMED_COSINE, without=(
        Recipe(lars(), excluded(weight_decay=0.0), WARMED_COSINE), Recipe(lars(), excluded(adapt=False)),
        Recipe(lars(inside=False), not_adapted, WARMED_COSINE),
        Recipe(lars(weight_decay=0.0), not_adapted, WARMED_COSINE))),
    "lamb": Recipe(lamb(), not_adapted, without=(
        Recipe(lamb(), excluded(weight_decay=0.0)), Recipe(lamb(), excluded(adapt=False)),
        Recipe(lamb(correct=False), not_adapted), Recipe(lamb(weight_decay=0.0), not_adapted))),
    "no-decay": Recipe(groups=excluded(weight_decay=0.0), without=(PLAIN,)),
    "no-decay-adamw": Recipe(adamw(), excluded(weight_decay=0.0), without=(DECOUPLED,)),
    "factors": Recipe(groups=factors, without=(PLAIN,)),
    "cosine": Recipe(schedule=behind_warmup(4, cosine(STEPS - 4, eta_min=1e-4)), without=(
        PLAIN, Recipe(schedule=cosine(STEPS, eta_min=1e-4)), Recipe(schedule=WARMED_COSINE))),
    "poly": Recipe(schedule=lambda o: lr_scheduler.PolynomialLR(o, STEPS, 2.0), without=(
        PLAIN, Recipe(schedule=lambda o: lr_scheduler.PolynomialLR(o, STEPS)))),
    "onecycle": Recipe(schedule=one_cycle, without=(PLAIN, Recipe(schedule=cosine(STEPS)))),
    "smoothing": Recipe(smoothing=0.1, without=(PLAIN,)),
    "clip": Recipe(clip=0.5, without=(PLAIN,)),
    "ema": Recipe(ema=0.9),
    "accumulate-2": Recipe(accumulate=2, without=(PLAIN,)),
    "accumulate-4": Recipe(adamw(), accumulate=4, ranks=(1,), without=(DECOUPLED,)),
    "keep-last": Recipe(batch=64, keep_last=True, without=(Recipe(batch=64),)),
    "keep-last-sync-bn": Recipe(batch=64, keep_last=True, sync=True, ranks=(2,), without=(
        Recipe(batch=64, sync=True), Recipe(batch=64, keep_last=True))),
    "sync-bn": Recipe(sync=True, ranks=(2,), without=(PLAIN,)),
    "all": Recipe(adamw(), excluded(weight_decay=0.0), WARMED_COSINE, smoothing=0.1, clip=0.5, ema=0.9, accumulate=2,
                  sync=True, ranks=(2,), without=(Recipe(adamw(), excluded(weight_decay=0.0), WARMED_COSINE),)),
}


def new_model(weights, dtype):
    """Makes a model, with the weights of a file if one is given."""
    model = WideResNet(widths=WIDTHS, dropout=0.0)
    if weights:
        record.load_state(model, weights)
    return model.to(dtype).train()


class Ranks:
    """The models of all ranks, trained synchronously."""

    def __init__(self, recipe, ranks, dtype):
        self.recipe, self.ranks = recipe, ranks
        self.models = []
        for _ in range(1 if recipe.sync else ranks):
            self.models.append(new_model(os.path.join(HERE, "w8-16-24-32", "init.safetensors"), dtype))
        self.model = self.models[0]
        self.optimizer = recipe.optimizer(recipe.groups(self.model))
        self.schedule = recipe.schedule(self.optimizer) if recipe.schedule else None
        if recipe.ema:
            self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema))
        self.samples = record.tensors_of(os.path.join(HERE, "data", "train.bin"), dtype).tensors

    def rank_samples(self, rank, micro_step):
        """Returns the sample indices of a micro-batch as DistributedSampler(shuffle=False, drop_last=True)."""
        batch = self.recipe.batch // self.ranks // self.recipe.accumulate
        count = len(self.samples[0]) // self.ranks
        steps = count // batch + (self.recipe.keep_last and count % batch > 0)
        shard = torch.arange(rank, count * self.ranks, self.ranks)
        return shard[micro_step % steps * batch:][:batch]

    def backward(self, model, pick):
        images, labels = self.samples
        loss = nn.functional.cross_entropy(model(images[pick]), labels[pick], label_smoothing=self.recipe.smoothing)
        (loss / self.recipe.accumulate).backward()
        return loss.item() / self.recipe.accumulate

    def micro_step(self, number):
        picks = [self.rank_samples(rank, number) for rank in range(self.ranks)]
        if self.recipe.sync:
            return self.backward(self.model, torch.cat(picks))
        return sum(self.backward(model, pick) for model, pick in zip(self.models, picks)) / self.ranks

    def each_param(self):
        return zip(*(model.parameters() for model in self.models))

    def step(self, number):
        """Runs step `number`, from 0; returns its loss and learning rate."""
        for model in self.models:
            model.zero_grad()
        k = self.recipe.accumulate
        loss = sum(self.micro_step(number * k + i) for i in range(k))
        for first, *others in self.each_param():
            first.grad = sum((p.grad for p in others), first.grad) / len(self.models)
        if self.recipe.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        lr = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        if self.schedule:
            self.schedule.step()
        if self.recipe.ema:
            self.average.update_parameters(self.model)
        for first, *others in self.each_param():
            for other in others:
                other.data.copy_(first.data)
        return loss, float(lr)


def sample(state):
    """Returns a sample of at most SAMPLE elements of each floating-point tensor."""
    picked = []
    for tensor in state.values():
        if tensor.dtype.is_floating_point:
            flat = tensor.detach().double().flatten()
            picked.append(flat[::math.ceil(len(flat) / SAMPLE) | 1].numpy())
    return picked


def worst(samples, truth):
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in zip(samples, truth))


@functools.cache
def train(recipe, ranks, dtype):
    """Returns losses, learning rates, and samples of the weights and of the EMA weights."""
    run = Ranks(recipe, ranks, dtype)
    losses, lrs = zip(*(run.step(i) for i in range(STEPS)))
    average = sample(run.average.module.state_dict()) if recipe.ema else []
    return np.array(losses), np.array(lrs), sample(run.model.state_dict()), average


def record_case(name, ranks, arrays):
    recipe = CASES[name]
    losses, lrs, weights, average = train(recipe, ranks, torch.float64)
    losses32, _, weights32, average32 = train(recipe, ranks, torch.float32)
    errors = [float(np.max(np.abs(losses32 / losses - 1))), worst(weights32 + average32, weights + average)]
    key = f"{name}.{ranks}"
    arrays[key + ".losses"] = losses
    arrays[key + ".weights"] = np.concatenate(weights).astype(np.float32)
    arrays[key + ".fp32"] = np.array(errors)
    if recipe.ema:
        arrays[key + ".ema"] = np.concatenate(average).astype(np.float32)
    if recipe.schedule:
        arrays[name + ".lr"] = lrs
    apart = [worst(train(other, ranks, torch.float64)[2], weights) for other in recipe.without]
    print(f"{key}: losses {losses[0]:.4f} to {losses[-1]:.4f}; fp32 off by {errors[0]:.1e}, {errors[1]:.1e}; "
          f"others by {', '.join(format(a, '.1e') for a in apart)}", flush=True)
    if apart and min(apart) < 5 * max(BOUND, 2 * errors[1]):
        raise RuntimeError(f"{key}: too close to another recipe")


def main():
    warnings.filterwarnings("ignore", message="The epoch parameter")  # issued by SequentialLR
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    path = os.path.join(HERE, "recipes", "recorded.safetensors")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    arrays = {}
    if sys.argv[1:] and os.path.exists(path):
        arrays = {key: value for key, value in safetensors_io.load(path).items() if key.split(".")[0] in CASES}
    for name in sys.argv[1:] or CASES:
        for ranks in CASES[name].ranks:
            record_case(name, ranks, arrays)
    safetensors_io.save(path, arrays, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
