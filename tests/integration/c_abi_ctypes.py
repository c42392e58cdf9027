"""c_abi_ctypes.py LIBRARY HEADER: runs one of two ranks that call the C interface through ctypes, for c_abi_test.py."""
import ctypes
import pathlib
import re
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])
HEADER = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
F32, I64, SUM, MAX = 2, 7, 0, 4
OK, MISMATCH = 0, 4


class CallOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("timeout_ms", ctypes.c_int64), ("name", ctypes.c_char_p),
                ("stream", ctypes.c_void_p), ("factor", ctypes.c_double), ("has_stream", ctypes.c_int32),
                ("device", ctypes.c_int32)]


def function(name: str, *types, result=ctypes.c_int):
    found = getattr(LIBRARY, name)
    found.argtypes, found.restype = types, result
    return found


pointer, count, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
init = function("ddp_init", pointer, ctypes.POINTER(pointer))
rank_of = function("ddp_group_rank", pointer, ctypes.POINTER(number))
all_reduce = function("ddp_all_reduce", pointer, pointer, count, number, number, ctypes.POINTER(CallOptions), pointer)
work_wait = function("ddp_work_wait", pointer)
work_destroy = function("ddp_work_destroy", pointer)
group_destroy = function("ddp_group_destroy", pointer)
called_from = function("ddp_called_from", ctypes.c_char_p, ctypes.c_int, result=None)
last_error = function("ddp_last_error", result=ctypes.c_char_p)


def check(status: int) -> None:
    assert status == OK, (status, last_error())


# The library exports every function that the header declares.
declared = re.findall(r"^DDP_C_API .*?\b(ddp_\w+)\(", HEADER, re.MULTILINE)
assert len(declared) > 45 and len(set(declared)) == len(declared), declared
for name in declared:
    getattr(LIBRARY, name)

world, rank = pointer(), number()
check(init(None, ctypes.byref(world)))
check(rank_of(world, ctypes.byref(rank)))

values = (ctypes.c_float * 4)(*[rank.value + 1] * 4)
options = CallOptions(struct_size=ctypes.sizeof(CallOptions), name=b"weights")
check(all_reduce(world, values, 4, F32, SUM, options, None))
assert list(values) == [3, 3, 3, 3], list(values)

largest, work = ctypes.c_int64(rank.value), pointer()
check(all_reduce(world, ctypes.byref(largest), 1, I64, MAX, None, ctypes.byref(work)))
check(work_wait(work))
check(work_destroy(work))
assert largest.value == 1, largest

# The error shows the place in the script, although the strings that named it are freed by then.
called_from(b"train_" + b"model.py", 42)
status = all_reduce(world, values, 3 + rank.value, F32, SUM, options, None)
text = last_error().decode()
assert status == MISMATCH, (status, text)
for word in (f"rank {rank.value}: all_reduce sum #3 of f32[{3 + rank.value}] ('weights')", "f32[3]", "f32[4]", "train_model.py:42"):
    assert word in text, (word, text)
check(group_destroy(world))
print(f"rank {rank.value} through ctypes: all is well", flush=True)
