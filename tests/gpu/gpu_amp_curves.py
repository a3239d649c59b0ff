#!/usr/bin/env python3
"""Compares training curves and loss scales of starstep with PyTorch on the same GPU.

    tests/gpu/gpu_amp_curves.py [--starstep PROGRAM] [--precisions fp32,fp16,bf16]

Both train from the same weights on the same samples in file order, without augmentation and
dropout. PyTorch uses autocast, and in fp16 a GradScaler. TF32 is disabled. Checks:

fp32      The relative difference of 20 losses is at most 1e-4.
fp16,bf16 The smoothed losses of 160 steps differ by at most three times PyTorch's own spread: the
          largest difference between any two of its runs in this precision whose initial weights
          differ by one rounding, and its fp32 run. The spread must be small compared with the
          progress of training, or the comparison would be meaningless.
fp16      Initial scale so large that every step overflows: the scales equal GradScaler's, and
          skipped steps do not change the weights. Growth: the scales equal GradScaler's. Initial
          scale that is only too large: the scales follow GradScaler's rules in each step, down to a
          scale close to PyTorch's. (Not equal, because the two store different intermediate results
          in fp16, which may overflow.)
each      The losses of both --gpu-mode values are bit-identical.

Environment: STARSTEP (default ./starstep). Exit code 77: no PyTorch with a GPU, or no starstep with
CUDA.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "reference"))
try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import cifar100  # noqa: E402
import record  # noqa: E402
import safetensors_io  # noqa: E402
from wideresnet import WideResNet  # noqa: E402

WIDTHS = (16, 32, 48, 64)
BATCH, BATCHES = 64, 8  # of the training set, which is read repeatedly
EXACT_STEPS, EXACT_BOUND = 20, 1e-4
CURVE_STEPS, SMOOTHED = 160, 16
CURVE_SGD = {**record.SGD, "lr": 0.02, "weight_decay": 5e-4}
PERTURBED = 4  # runs
SPREADS = 3
ROUNDING = {"fp16": 2.0**-11, "bf16": 2.0**-8}
SPREAD_OF_PROGRESS = 0.25
AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}
MODES = ["ordered", "async"]
DEADLINE = 600  # seconds for one run


def pick_device(name):
    """Return and configure PyTorch's device. cpu is for trying this script."""
    device = torch.device(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            print("skipped: no GPU is visible to PyTorch")
            sys.exit(77)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.deterministic = True
    return device


class Case:
    """Data, initial weights and both programs."""

    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.device = pick_device(args.device)
        self.data_dir = os.path.join(directory, "data")
        self.init = os.path.join(directory, "init.safetensors")
        cifar100.write_synthetic_dir(self.data_dir, BATCH * BATCHES, BATCH)
        samples = record.tensors_of(os.path.join(self.data_dir, "train.bin"), torch.float32)
        self.images, self.labels = (t.to(self.device) for t in samples.tensors)
        self.state = self.warm_state()
        safetensors_io.save(self.init, self.state)
        self.runs = 0

    def warm_state(self):
        """Return weights after some steps of training on other samples (see record.py)."""
        path = os.path.join(self.directory, "warm-up.bin")
        cifar100.write_synthetic(path, record.WARM_UP_SAMPLES, seed=11)
        images, labels = (t.to(self.device)
                          for t in record.tensors_of(path, torch.float32).tensors)
        torch.manual_seed(record.SEED)
        model = WideResNet(widths=WIDTHS, dropout=0.0).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), **record.WARM_UP)
        model.train()
        for _ in range(self.args.warm_up_steps):
            index = torch.randint(0, len(images), (record.BATCH,))
            loss = nn.functional.cross_entropy(model(images[index]), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()}

    def perturbed(self, precision, seed):
        """Return the initial weights with random changes of up to half of the format's spacing."""
        rng = np.random.RandomState(seed)
        state = dict(self.state)
        for name, array in state.items():
            if name.endswith((".weight", ".bias")):
                noise = rng.uniform(-1, 1, size=array.shape) * ROUNDING[precision]
                state[name] = (array * (1 + noise)).astype(np.float32)
        return state

    def pytorch(self, precision, steps, sgd, state=None, **scaling):
        """Return the losses and loss scales of all steps."""
        model = WideResNet(widths=WIDTHS, dropout=0.0)
        model.load_state_dict({name: torch.from_numpy(array)
                               for name, array in (state or self.state).items()}, strict=True)
        model.to(self.device).train()
        optimizer = torch.optim.SGD(model.parameters(), **sgd)
        amp = AUTOCAST.get(precision)
        make_scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        scaler = make_scaler(**scaling) if precision == "fp16" else None
        losses, scales = [], []
        for step in range(steps):
            at = step % BATCHES * BATCH
            images, labels = self.images[at:at + BATCH], self.labels[at:at + BATCH]
            with torch.autocast(self.device.type, dtype=amp) if amp else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            if scaler:
                scales.append(scaler.get_scale())
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            else:
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        return losses, scales

    def starstep(self, precision, steps, sgd, mode="ordered", options=()):
        """Return the losses and loss scales of all steps."""
        self.runs += 1
        out = os.path.join(self.directory, f"run{self.runs}")
        log = out + ".json"
        command = [self.args.starstep, "train", "--model", "wideresnet",
                   "--device", self.args.starstep_device, "--precision", precision,
                   "--width", ",".join(map(str, WIDTHS)), "--data-dir", self.data_dir,
                   "--batch-size", str(BATCH), "--epochs", str(-(-steps // BATCHES)),
                   "--max-steps", str(steps), "--base-lr", str(sgd["lr"]),
                   "--momentum", str(sgd["momentum"]), "--weight-decay", str(sgd["weight_decay"]),
                   "--seed", "1", "--no-shuffle", "--no-augment", "--dropout", "0",
                   "--target-accuracy", "2", "--init", self.init, "--checkpoint-dir", out,
                   "--log-json", log, *options]
        if self.args.starstep_device == "cuda":
            command += ["--gpu-mode", mode, "--gpu-cache", os.path.join(self.directory, "cache")]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"timeout after {DEADLINE} s: {' '.join(command)}") from error
        if run.returncode != 0:
            raise RuntimeError(f"exit code {run.returncode} of: {' '.join(command)}\n"
                               + run.stderr[-2000:])
        with open(log) as f:
            events = [e for e in map(json.loads, f) if e.get("event") == "step"]
        losses = [float("nan") if e["loss"] is None else e["loss"] for e in events]
        if [e["step"] for e in events] != list(range(1, steps + 1)):
            raise RuntimeError(f"{log}: {len(events)} steps, not steps 1 to {steps} in order")
        return losses, [e.get("scale") for e in events]


class Results:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def check(self, good, text):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print(f"{'ok' if good else 'FAILED'}: {text}", flush=True)


def relative_error(losses, reference):
    return max(abs(a - b) / abs(b) if a == a else float("inf") for a, b in zip(losses, reference))


def smooth(losses):
    return np.convolve(losses, np.ones(SMOOTHED) / SMOOTHED, mode="valid")


def distance(a, b):
    """Return the largest difference of the smoothed curves, or infinity if a loss is not finite."""
    difference = np.abs(smooth(a) - smooth(b))
    return float(difference.max()) if np.isfinite(difference).all() else float("inf")


def check_exact(case, results):
    reference, _ = case.pytorch("fp32", EXACT_STEPS, record.SGD)
    losses, _ = case.starstep("fp32", EXACT_STEPS, record.SGD)
    error = relative_error(losses, reference)
    results.check(error <= EXACT_BOUND, f"fp32: {EXACT_STEPS} losses {reference[0]:.4f} .. "
                  f"{reference[-1]:.4f} differ by {error:.1e} (bound {EXACT_BOUND:.0e})")


def check_curve(case, results, precision):
    steps, sgd = CURVE_STEPS, CURVE_SGD
    reference, _ = case.pytorch(precision, steps, sgd)
    family = [reference, case.pytorch("fp32", steps, sgd)[0]]
    family += [case.pytorch(precision, steps, sgd, case.perturbed(precision, seed))[0]
               for seed in range(1, PERTURBED + 1)]
    spread = max(distance(a, b) for i, a in enumerate(family) for b in family[:i])
    curve = smooth(reference)
    progress = float(curve[0] - curve[-1])
    results.check(spread <= SPREAD_OF_PROGRESS * progress,
                  f"{precision}: PyTorch's curve falls from {curve[0]:.4f} to {curve[-1]:.4f}, its "
                  f"spread is {spread:.1e} (bound {SPREAD_OF_PROGRESS * progress:.1e})")
    losses, _ = case.starstep(precision, steps, sgd)
    off = distance(losses, reference)
    results.check(off <= SPREADS * spread, f"{precision}: smoothed losses of {steps} steps differ by "
                  f"{off:.1e} (bound {SPREADS * spread:.1e})")


def check_modes(case, results, precision):
    losses = [case.starstep(precision, EXACT_STEPS, record.SGD, mode)[0] for mode in MODES]
    results.check(losses[0] == losses[1],
                  f"{precision}: --gpu-mode {' and '.join(MODES)} give the same losses")


def check_overflow(case, results):
    """With a scale too large for finite gradients, every step is skipped and halves the scale."""
    steps, scale = 2 * BATCHES, 2.0**100
    reference, scales = case.pytorch("fp16", steps, record.SGD, init_scale=scale)
    losses, ours = case.starstep("fp16", steps, record.SGD,
                                 options=["--init-scale", repr(scale)])
    results.check(ours == scales, f"fp16: overflow from 2^100: scales {ours[0]:.3g}, {ours[1]:.3g} "
                  f".. {ours[-1]:.3g} are GradScaler's, down to {scales[-1]:.3g}")
    results.check(losses[:BATCHES] == losses[BATCHES:],
                  "fp16: skipped steps do not change the weights: a second pass has the same "
                  "losses")
    exact, _ = case.pytorch("fp32", steps, {**record.SGD, "lr": 0.0})
    bound = 3 * relative_error(reference, exact) + 1e-3
    error = relative_error(losses, reference)
    results.check(error <= bound, f"fp16: losses of skipped steps differ by {error:.1e} (bound "
                  f"{bound:.1e}: difference of PyTorch's fp16 and fp32)")


def check_growth(case, results):
    steps, interval = 14, 4
    _, scales = case.pytorch("fp16", steps, record.SGD, init_scale=8.0, growth_interval=interval)
    _, ours = case.starstep("fp16", steps, record.SGD,
                            options=["--init-scale", "8", "--scale-interval", str(interval)])
    results.check(ours == scales, f"fp16: growth every {interval} steps: scales {ours[0]:g} .. "
                  f"{ours[-1]:g} are GradScaler's, up to {scales[-1]:g}")


def first_broken_rule(scales, interval):
    """Return the first step after which the scale is neither halved nor follows GradScaler's growth
    rule, or None."""
    good = 0
    for step, (now, after) in enumerate(zip(scales, scales[1:]), 1):
        if after == now / 2:
            good = 0
            continue
        good = (good + 1) % interval
        if after != (now if good else 2 * now):
            return step
    return None


def check_backoff(case, results):
    steps, interval, scale = 80, 10, 2.0**40
    _, scales = case.pytorch("fp16", steps, record.SGD, init_scale=scale, growth_interval=interval)
    losses, ours = case.starstep("fp16", steps, record.SGD,
                                 options=["--init-scale", repr(scale),
                                          "--scale-interval", str(interval)])
    broken = first_broken_rule(ours, interval)
    results.check(broken is None, "fp16: scales from 2^40 follow GradScaler's rules"
                  + (f", but not after step {broken}" if broken else ""))
    mine, theirs = max(ours[-2 * interval:]), max(scales[-2 * interval:])
    results.check(theirs / 4 <= mine <= theirs * 64 and np.isfinite(losses).all(),
                  f"fp16: scales settle at up to {mine:g}, PyTorch's up to {theirs:g} (bounds 1/4 "
                  "and 64 times that), losses stay finite")


def check_starstep(args):
    try:
        info = subprocess.run([args.starstep, "info"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"skipped: {args.starstep} cannot be run ({error})")
        sys.exit(77)
    devices = [line for line in info.stdout.splitlines() if line.startswith("devices:")]
    if args.starstep_device == "cuda" and not any("cuda (" in line for line in devices):
        print(f"skipped: {args.starstep} is built without CUDA")
        sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--starstep", default=os.environ.get("STARSTEP", "./starstep"))
    parser.add_argument("--precisions", default="fp32,fp16,bf16", help="(%(default)s)")
    parser.add_argument("--device", default="cuda", help="PyTorch's device; cpu to try this script")
    parser.add_argument("--starstep-device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--warm-up-steps", type=int, default=record.WARM_UP_STEPS,
                        help="training steps of the initial weights (%(default)s)")
    args = parser.parse_args()
    check_starstep(args)
    results = Results()
    with tempfile.TemporaryDirectory() as directory:
        case = Case(args, directory)
        checks = []
        for precision in args.precisions.split(","):
            if precision == "fp32":
                checks.append(lambda: check_exact(case, results))
            else:
                checks.append(lambda p=precision: check_curve(case, results, p))
            if args.starstep_device == "cuda":
                checks.append(lambda p=precision: check_modes(case, results, p))
            if precision == "fp16":
                checks += [lambda f=f: f(case, results)
                           for f in (check_overflow, check_growth, check_backoff)]
        for check in checks:
            try:
                check()
            except RuntimeError as error:
                results.check(False, str(error))
    print(f"{results.passed} passed, {results.failed} failed")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
