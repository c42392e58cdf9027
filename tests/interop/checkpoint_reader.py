"""Reads a checkpoint of train_charlm (argv[1]) as any reader of the safetensors format would, without ddplaunch's
code."""
import json
import struct
import sys

import numpy

with open(sys.argv[1], "rb") as file:
    length, = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()
metadata = header.pop("__metadata__")
assert metadata["step"] == sys.argv[2], metadata
assert {"embedding", "weight1", "bias1", "weight2", "bias2", "adam.m.bias2", "adam.v.bias2"} <= set(header)
end = 0
for name, entry in header.items():
    first, last = entry["data_offsets"]
    assert first == end, name
    end = last
    tensor = numpy.frombuffer(data[first:last], dtype={"F64": numpy.float64}[entry["dtype"]]).reshape(entry["shape"])
    assert numpy.isfinite(tensor).all(), name
assert end == len(data)
print(f"{len(header)} tensors at step {metadata['step']}")
