"""Reads and writes safetensors files with only numpy: a little-endian uint64 header length, a JSON
header {name: {dtype, shape, data_offsets}}, then the tensors without gaps."""

import json
import struct

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


def save(path, tensors, metadata=None):
    """Writes tensors, {name: array}, in the given order."""
    header = {"__metadata__": metadata} if metadata else {}
    blobs, offset = [], 0
    for name, array in tensors.items():
        array = np.asarray(array)
        dtype = NAMES[array.dtype]
        blob = array.tobytes()  # row-major for any strides; preserves the shape () of a scalar
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # aligns the data to 8 bytes
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(blobs)


def load(path):
    """Returns {name: array}; the arrays own their memory."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = f.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).copy()
    return tensors
