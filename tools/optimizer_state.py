#!/usr/bin/env python3
"""Convert the optimizer state of a checkpoint to PyTorch and back: SGD, Adam and AdamW.

    optimizer_state.py to-torch CHECKPOINT MODEL.pt OPTIMIZER.pt
    optimizer_state.py from-torch CHECKPOINT MODEL.pt OPTIMIZER.pt NEW [--steps N]

CHECKPOINT is a folder in a run's --checkpoint-dir. MODEL.pt is written by torch.save(model.state_dict()) for a
PyTorch model with the same layers. It is needed because PyTorch's optimizers identify parameters by their order,
which a checkpoint does not contain.

to-torch writes OPTIMIZER.pt for an optimizer of model.parameters(), or with --no-decay of two groups, the
second of which contains the parameters without weight decay:

    model.load_state_dict(safetensors.torch.load_file("CHECKPOINT/model.safetensors"))
    optimizer.load_state_dict(torch.load("OPTIMIZER.pt"))

Its learning rate is --base-lr.

from-torch creates the checkpoint NEW from weights and optimizer state written by PyTorch, for --resume NEW: a run
with the options of CHECKPOINT resumes after N further steps in PyTorch. Needs PyTorch and NumPy; takes about 10 s
for 100 MB, for the checksums.
"""

import argparse
import json
import os
import shutil
import struct
import sys

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64}
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
FORMER = {"momentum": "momentum_buffer"}  # names of states in checkpoints of earlier versions
# Class, states and options of each optimizer, with --option: (argument, index, default)
BETAS = {"--beta1": ("betas", 0, 0.9), "--beta2": ("betas", 1, 0.999), "--eps": ("eps", None, 1e-8)}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, ["momentum_buffer"],
            {"--momentum": ("momentum", None, 0.9), "--dampening": ("dampening", None, 0.0),
             "--nesterov": ("nesterov", None, False), "--weight-decay": ("weight_decay", None, 5e-4)}),
    "adam": (torch.optim.Adam, ["exp_avg", "exp_avg_sq"],
             {**BETAS, "--weight-decay": ("weight_decay", None, 0.0)}),
    "adamw": (torch.optim.AdamW, ["exp_avg", "exp_avg_sq"],
              {**BETAS, "--weight-decay": ("weight_decay", None, 0.01)}),
}


def load_file(path):
    """Returns the tensors and metadata of a safetensors file, both in the order of the file."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(length)), bytearray(f.read())
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]]).view(entry["shape"])
    return tensors, metadata


def bytes_of(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def save_file(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    names = {dtype: name for name, dtype in DTYPES.items()}
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            f.write(bytes_of(tensor))


def crc32c(parts):
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 * (value & 1)
        table.append(value)
    crc = 0xFFFFFFFF
    for part in parts:
        for byte in part:
            crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return f"{crc ^ 0xFFFFFFFF:08x}"


class Checkpoint:
    def __init__(self, folder):
        self.model, self.model_notes = load_file(os.path.join(folder, "model.safetensors"))
        self.states, self.notes = load_file(os.path.join(folder, "training.safetensors"))
        self.name = self.notes.get("--optimizer", "sgd")
        if self.name not in OPTIMIZERS:
            raise ValueError(f"{folder}: --optimizer {self.name}: PyTorch has no such optimizer")
        if self.notes.get("--lr-factor", "(none)") != "(none)":
            raise ValueError(f"{folder}: --lr-factor was given; groups of learning rates are not converted")
        self.kind, self.kept, self.options = OPTIMIZERS[self.name]

    def value(self, option):
        """Returns the value of an option, or its default if the checkpoint has none or -1."""
        default = self.options[option][2]
        text = self.notes.get(option, "-1")
        if isinstance(default, bool):
            return text == "given"
        return default if text == "-1" else float(text)

    def arguments(self):
        """Returns the arguments of the optimizer's class."""
        found = {"lr": float(self.notes["--base-lr"])}
        for option, (argument, index, _) in self.options.items():
            value = self.value(option)
            found[argument] = value if index is None else (*found.get(argument, ()), value)
        return found

    def updates(self):
        """Returns the number of updates, which excludes steps with overflowed gradients."""
        return int(self.notes["step"]) - int(self.notes["loss_scale_skipped"])

    def check_names(self, names):
        known = {name for name in self.model if name.rsplit(".", 1)[-1] not in BUFFERS}
        if set(names) != known:
            odd = sorted(set(names) ^ known)[0]
            raise ValueError(f"{odd}: this parameter is only in the model or only in the checkpoint")


def params_of(state_dict):
    return [name for name in state_dict if name.rsplit(".", 1)[-1] not in BUFFERS]


def groups_of(checkpoint, names):
    """Returns the names by group; parameters without weight decay are in the last group."""
    kept = checkpoint.notes.get("--no-decay", "")
    norms = {name.rsplit(".", 1)[0] for name in checkpoint.model if name.endswith(".running_mean")}
    still = [name for name in names if ("bn" in kept and name.rsplit(".", 1)[0] in norms)
             or ("bias" in kept and name.endswith(".bias"))]
    groups = [[name for name in names if name not in still], still]
    return [group for group in groups if group]


def to_torch(args):
    checkpoint = Checkpoint(args.checkpoint)
    names = params_of(torch.load(args.model, weights_only=True))
    checkpoint.check_names(names)
    params = {name: torch.nn.Parameter(checkpoint.model[name]) for name in names}
    groups = [{"params": [params[name] for name in group]} for group in groups_of(checkpoint, names)]
    optimizer = checkpoint.kind(groups, **checkpoint.arguments())
    if len(groups) > 1:
        optimizer.param_groups[-1]["weight_decay"] = 0.0
    for full, tensor in checkpoint.states.items():
        state, name = full.split(".", 1)
        state = FORMER.get(state, state)
        if state in checkpoint.kept:
            optimizer.state[params[name]][state] = tensor
            if "exp_avg" in checkpoint.kept:
                optimizer.state[params[name]]["step"] = torch.tensor(float(checkpoint.updates()))
    torch.save(optimizer.state_dict(), args.optimizer)


def check_arguments(checkpoint, group):
    for option, (argument, index, _) in checkpoint.options.items():
        if argument not in group:
            raise ValueError(f"the states are not those of PyTorch's {checkpoint.kind.__name__}: {argument} is missing")
        value = group[argument] if index is None else group[argument][index]
        if option != "--weight-decay" and value != checkpoint.value(option):
            raise ValueError(f"{option} is {checkpoint.value(option)} in the checkpoint, {argument} {value} in PyTorch's")


def move(notes, steps):
    """Advance the run's position by this number of steps."""
    at, epoch = int(notes["batches_of_epoch"]) + steps, int(notes["training_images"]) // int(notes["global_batch"])
    if at >= epoch:  # the sums belong to a completed epoch
        notes.update({key: "0" for key in ("steps_summed", "loss_sum", "train_loss", "train_correct", "train_count",
                                           "train_bad", "epoch_seconds")})
    notes["step"] = str(int(notes["step"]) + steps)
    notes["epoch"] = str(int(notes["epoch"]) + at // epoch)
    notes["batches_of_epoch"] = str(at % epoch)


def take_states(checkpoint, names, saved):
    """Replace the states of the checkpoint with those of an optimizer's state_dict."""
    order = [index for group in saved["param_groups"] for index in group["params"]]
    by_group = [name for group in groups_of(checkpoint, names) for name in group]
    if len(order) != len(by_group):
        raise ValueError(f"the optimizer has {len(order)} parameters, the model {len(by_group)}")
    state_of = {name: saved["state"].get(index, {}) for name, index in zip(by_group, order)}
    for full, tensor in checkpoint.states.items():
        state, name = full.split(".", 1)
        state = FORMER.get(state, state)
        if state not in checkpoint.kept:
            raise ValueError(f"{full}: PyTorch's {checkpoint.kind.__name__} has no such state")
        if state not in state_of[name] or state_of[name][state].shape != tensor.shape:
            raise ValueError(f"{full}: PyTorch's state is missing or has another shape")
        if float(state_of[name].get("step", checkpoint.updates())) != checkpoint.updates():
            raise ValueError(f"{full}: PyTorch made {state_of[name]['step']:g} steps, the checkpoint with --steps "
                             f"{checkpoint.updates()}")
        checkpoint.states[full] = state_of[name][state].float()


def from_torch(args):
    checkpoint = Checkpoint(args.checkpoint)
    weights = torch.load(args.model, weights_only=True)
    saved = torch.load(args.optimizer, weights_only=True)
    names = params_of(weights)
    checkpoint.check_names(names)
    check_arguments(checkpoint, saved["param_groups"][0])
    move(checkpoint.notes, args.steps)
    take_states(checkpoint, names, saved)
    for name, tensor in checkpoint.model.items():
        if weights[name].shape != tensor.shape:
            raise ValueError(f"{name}: has another shape in {args.model}")
        checkpoint.model[name] = weights[name].to(tensor.dtype)
        if name.endswith("num_batches_tracked"):
            checkpoint.notes["num_batches_tracked"] = str(int(weights[name]))
    os.makedirs(args.new)
    path = os.path.join(args.new, "model.safetensors")
    save_file(path, checkpoint.model, checkpoint.model_notes)
    with open(path, "rb") as f:
        checkpoint.notes["model_crc32c"] = crc32c([f.read()])
    values = [value for key, value in checkpoint.notes.items() if key not in ("crc32c", "model_crc32c")]
    checkpoint.notes["crc32c"] = crc32c(
        [checkpoint.notes["model_crc32c"].encode(), *(value.encode() + b"\0" for value in values),
         *map(bytes_of, checkpoint.states.values())])
    save_file(os.path.join(args.new, "training.safetensors"), checkpoint.states, checkpoint.notes)
    for name in ("model.json", "data.json"):
        file = os.path.join(args.checkpoint, name)
        if os.path.exists(file):  # a checkpoint of an earlier version has none
            shutil.copyfile(file, os.path.join(args.new, name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in ("to-torch", to_torch), ("from-torch", from_torch):
        command = commands.add_parser(name)
        command.add_argument("checkpoint", help="folder of model.safetensors and training.safetensors")
        command.add_argument("model", help="state_dict of the PyTorch model")
        command.add_argument("optimizer", help="state_dict of the optimizer")
        command.set_defaults(function=function)
    command.add_argument("new", help="folder of the new checkpoint")
    command.add_argument("--steps", type=int, default=0, help="steps made in PyTorch after the checkpoint")
    args = parser.parse_args()
    try:
        args.function(args)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        print(f"optimizer_state.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
