"""Converts weights to the variants that PyTorch users write.

other_weights.py FILE                       print names, dtypes and shapes
other_weights.py FILE PLAIN OTHER FORM...   write OTHER in the given forms, and PLAIN with the same values in fp32, as
                                            starstep writes them

Forms: a prefix of all names, such as "module."; "uncounted" (no num_batches_tracked); I32 (int32 num_batches_tracked);
F16, BF16, F64 or I64 (dtype of the weights; I64 must be refused)."""

import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + length :][slice(*t["data_offsets"])]) for name, t in header.items()}


def write(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def bf16_bits(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # to nearest, ties to even


def packed(values, dtype):
    n = len(values)
    if dtype == "BF16":
        return struct.pack("<%dH" % n, *map(bf16_bits, values))
    if dtype == "I64":
        return struct.pack("<%dq" % n, *map(int, values))
    return struct.pack("<%d%s" % (n, {"F16": "e", "F32": "f", "F64": "d"}[dtype]), *values)


def unpacked(data, dtype):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    size = {"F16": 2, "F32": 4, "F64": 8, "I64": 8}[dtype]
    kind = {"F16": "e", "F32": "f", "F64": "d", "I64": "q"}[dtype]
    return list(struct.unpack("<%d%s" % (len(data) // size, kind), data))


def main(path, plain=None, other=None, *forms):
    tensors = read(path)
    if plain is None:
        for name, (dtype, shape, _) in sorted(tensors.items()):
            print(name, dtype, shape)
        return
    formats = [f for f in forms if f in ("F16", "BF16", "F64", "I64")]
    prefix = "".join(f for f in forms if f.endswith("."))
    plains, others = {}, {}
    for name, (dtype, shape, data) in tensors.items():
        if dtype == "F32" and formats:
            form = packed(unpacked(data, dtype), formats[0])
            plains[name] = dtype, shape, packed(unpacked(form, formats[0]), "F32")
            others[prefix + name] = formats[0], shape, form
            continue
        plains[name] = dtype, shape, data
        if dtype != "I64":
            others[prefix + name] = plains[name]
        elif "I32" in forms:
            others[prefix + name] = "I32", shape, struct.pack("<i", *struct.unpack("<q", data))
        elif "uncounted" not in forms:
            others[prefix + name] = plains[name]
    write(plain, plains)
    write(other, others)


main(*sys.argv[1:])
