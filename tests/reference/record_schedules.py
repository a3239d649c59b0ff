#!/usr/bin/env python3
"""Records the learning rates of PyTorch's schedulers in schedules.txt.

Two lines for each case: the number of steps per epoch and starstep's options; the learning rate of every
step, as used by the optimizer's step() before the scheduler's step().
"""
import os
import torch
from torch.optim import lr_scheduler as lr

STEPS = 7  # per epoch


def run(base, make, steps, every=1):
    """Returns the rates of `steps` steps; calls step() of the scheduler make(optimizer) after every `every` steps."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    scheduler, rates = make(optimizer), []
    for k in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (k + 1) % every == 0 and k + 1 < steps:
            scheduler.step()
    return rates


def rise(steps):
    """Returns a linear warm-up from 0."""
    return lambda optimizer: lr.LambdaLR(optimizer, lambda k: min(1, k / steps))


def behind(warmup, make):
    """Returns a scheduler preceded by a warm-up."""
    return lambda o: lr.SequentialLR(o, [rise(warmup)(o), make(o)], milestones=[warmup])


def times(warmup, rates):
    """Multiplies the rates by the warm-up, for a scheduler that counts epochs from the start of the run."""
    return [a * b for a, b in zip(run(1.0, rise(warmup), len(rates)), rates)]


def cases():
    def one_cycle(steps, **more):
        return lambda o: lr.OneCycleLR(o, 0.4, total_steps=steps, cycle_momentum=False, **more)

    yield "--schedule constant --epochs 2 --base-lr 0.3", run(0.3, lambda o: lr.ConstantLR(o, 1), 14)
    yield "--schedule constant --epochs 2 --warmup-steps 5", run(0.01, rise(5), 14)
    step = run(0.1, lambda o: lr.StepLR(o, 2, 0.3), 49, STEPS)
    yield "--epochs 7 --base-lr 0.1 --lr-step 2 --lr-gamma 0.3", step
    yield "--epochs 7 --base-lr 0.1 --lr-step 2 --lr-gamma 0.3 --warmup-epochs 2.5", times(18, step)
    multi = run(0.1, lambda o: lr.MultiStepLR(o, [2, 3, 5], 0.2), 49, STEPS)
    yield "--schedule multistep --epochs 7 --base-lr 0.1 --milestones 2,3,5 --lr-gamma 0.2", multi
    yield ("--schedule multistep --epochs 7 --base-lr 0.1 --milestones 5,2,3 --lr-gamma 0.2 --warmup-epochs 1",
           times(7, multi))
    yield "--schedule cosine --epochs 9 --base-lr 0.2", run(0.2, lambda o: lr.CosineAnnealingLR(o, 63), 63)
    yield ("--schedule cosine --epochs 9 --base-lr 0.2 --min-lr 0.005 --warmup-steps 10",
           run(0.2, behind(10, lambda o: lr.CosineAnnealingLR(o, 53, 0.005)), 63))
    yield ("--schedule cosine --epochs 90 --base-lr 0.2 --warmup-epochs 5",
           run(0.2, behind(35, lambda o: lr.CosineAnnealingLR(o, 595)), 630))
    yield ("--schedule cosine --epochs 9 --max-steps 40 --base-lr 0.2",
           run(0.2, lambda o: lr.CosineAnnealingLR(o, 40), 40))
    yield "--schedule poly --epochs 9 --base-lr 2", run(2.0, lambda o: lr.PolynomialLR(o, 63), 63)
    yield ("--schedule poly --poly-power 2 --epochs 9 --base-lr 2 --warmup-epochs 2",
           run(2.0, behind(14, lambda o: lr.PolynomialLR(o, 49, 2.0)), 63))
    yield "--schedule onecycle --epochs 9 --base-lr 0.4", run(0.4, one_cycle(63), 63)
    yield ("--schedule onecycle --epochs 9 --base-lr 0.4 --pct-start 0.15 --div-factor 10 --final-div-factor 50",
           run(0.4, one_cycle(63, pct_start=0.15, div_factor=10, final_div_factor=50), 63))
    for steps in 1, 2, 3:
        yield f"--schedule onecycle --epochs 1 --max-steps {steps} --base-lr 0.4", run(0.4, one_cycle(steps), steps)
    yield ("--schedule cosine --epochs 2 --base-lr 0.1 --lr-scale linear:256",
           run(0.4, lambda o: lr.CosineAnnealingLR(o, 14), 14))
    yield ("--schedule cosine --epochs 2 --base-lr 0.1 --lr-scale sqrt:256",
           run(0.2, lambda o: lr.CosineAnnealingLR(o, 14), 14))


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedules.txt"), "w", encoding="ascii") as out:
    for options, rates in cases():
        out.write(f"{STEPS} {options}\n{' '.join(repr(float(r)) for r in rates)}\n")
