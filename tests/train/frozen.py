"""Writes model files with frozen parameters for test_frozen.sh and compares the trained weights.

frozen.py make OUT [NAME...]             write a model file in which these parameters are frozen
frozen.py same FILE OTHER                check that all tensors of two safetensors files are bit-identical
frozen.py trained FOLDER FIRST NAME...   check that only these parameters of a checkpoint differ from the initial
                                         weights, and that only these have optimizer states
"""
import json
import struct
import sys

LAYERS = [
    {"id": "c1", "kind": "conv2d", "inputs": ["input"], "out_channels": 16, "kernel": 3, "padding": 1, "bias": False},
    {"id": "n1", "kind": "batchnorm2d", "inputs": ["c1"]},
    {"id": "r1", "kind": "relu", "inputs": ["n1"]},
    {"id": "c2", "kind": "conv2d", "inputs": ["r1"], "out_channels": 16, "kernel": 3, "padding": 1},
    {"id": "n2", "kind": "batchnorm2d", "inputs": ["c2"]},
    {"id": "r2", "kind": "relu", "inputs": ["n2"]},
    {"id": "sum", "kind": "add", "inputs": ["r2", "r1"]},
    {"id": "c3", "kind": "conv2d", "inputs": ["sum"], "out_channels": 16, "kernel": 1},
    {"id": "r3", "kind": "silu", "inputs": ["c3"]},
    {"id": "both", "kind": "concat", "inputs": ["r3", "sum"]},
    {"id": "c4", "kind": "conv2d", "inputs": ["both"], "out_channels": 32, "kernel": 3, "stride": 2, "bias": False},
    {"id": "n4", "kind": "groupnorm", "inputs": ["c4"], "groups": 4},
    {"id": "pool", "kind": "global_avgpool2d", "inputs": ["n4"]},
    {"id": "fc", "kind": "linear", "inputs": ["pool"], "out_features": 100},
]
PARAMS = {"conv2d": ("weight", "bias"), "batchnorm2d": ("weight", "bias"), "groupnorm": ("weight", "bias"),
          "linear": ("weight", "bias")}


def make(out, *frozen):
    layers = []
    for layer in LAYERS:
        layer = dict(layer)
        params = [p for p in PARAMS.get(layer["kind"], ()) if p != "bias" or layer.get("bias", True)]
        if params:
            layer["name"] = layer["id"]
        kept = [p for p in params if f"{layer['id']}.{p}" in frozen]
        if kept:
            layer["frozen"] = kept
        layers.append(layer)
    if "detach" in frozen:  # the input of c4
        layers[10]["inputs"] = ["cut"]
        layers.insert(10, {"id": "cut", "kind": "detach", "inputs": ["both"]})
    with open(out, "w") as f:
        json.dump({"format": "starstep-model", "version": 1, "input": {"channels": 3, "height": 32, "width": 32},
                   "layers": layers, "output": "fc"}, f)


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for name, t in header.items()}


def same(path, other):
    a, b = read(path), read(other)
    different = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    if different:
        sys.exit(f"different: {' '.join(sorted(different))}")


def trained(folder, first, *names):
    was, now = read(first), read(folder + "/model.safetensors")
    changed = {name for name in now if now[name] != was[name] and name.split(".")[1] in ("weight", "bias")}
    if changed != set(names):
        sys.exit(f"trained: {sorted(changed)}, not {sorted(names)}")
    states = {name.split(".", 1)[1] for name in read(folder + "/training.safetensors")}
    if states != set(names):
        sys.exit(f"states of {sorted(states)}, not of {sorted(names)}")
    for name in now:
        if "running" in name and now[name] == was[name]:
            sys.exit(f"{name} is unchanged")


{f.__name__: f for f in (make, same, trained)}[sys.argv[1]](*sys.argv[2:])
