#!/usr/bin/env python3
"""page_layout.py [--check]: writes the layout of the status page and of the record ring into the bindings of C and
Python, between marked lines. The layout is that of the structures in src/wire/status_page_layout.h and
src/wire/record_ring_layout.h, as a C++ compiler (CXX, by default c++) computes it. With --check, nothing is written,
and the script fails if a binding differs."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADERS = ["src/wire/status_page_layout.h", "src/wire/record_ring_layout.h", "src/wire/worker_env.h"]
# The prefix of each structure's constants, and what its offsets count from. A page has one worker block.
STRUCTS = {"StatusPageLayout": ("PAGE", "the status page"), "PageWorker": ("WORKER", "the status page"),
           "PageGroup": ("GROUP", "a group block"), "PageCall": ("CALL", "a call block"),
           "PageTransfer": ("TRANSFER", "a transfer block, which describes a send or a receive"),
           "RecordRingLayout": ("RING", "the record ring"), "RingValue": ("VALUE", "a value block"),
           "RingName": ("NAME", "a name block"), "RingRecord": ("RECORD", "a record block")}
VALUES = {"PAGE_MAGIC": '"0x" << std::hex << kPageMagic << std::dec', "PAGE_VERSION": "kPageVersion",
          "PAGE_VARIABLE": "'\"' << env::kStatusPage << '\"'", "PAGE_NO_RANK_LOST": "'(' << kNoRankLost << ')'",
          "RING_MAGIC": '"0x" << std::hex << kRingMagic << std::dec', "RING_VERSION": "kRingVersion",
          "RING_VARIABLE": "'\"' << env::kRecordRing << '\"'", "NAME_IS_WRITTEN": "kNameIsWritten",
          "RECORD_NO_GROUP": "+kNoRingGroup"}
ENUMS = {"Phase": ("ddp_page_phase", "PHASE"), "RecordMode": ("ddp_ring_mode", "RING"),
         "RecordKind": ("ddp_record_kind", "RECORD")}
# The names of the types in comments, and their letters in Python's module struct.
TYPES = {"std::uint8_t": ("u8", "B"), "RecordKind": ("u8", "B"), "std::uint32_t": ("u32", "I"),
         "RecordMode": ("u32", "I"), "std::int32_t": ("i32", "i"), "std::uint64_t": ("u64", "Q"),
         "double": ("f64", "d")}


def body_of(source: str, head: str) -> str:
    return re.search(rf"^{head}\b[^{{;]*{{(.*?)}};$", source, re.M | re.S)[1]


def members_of(source: str, struct: str) -> list[tuple[str, str]]:
    """Returns type and name of each member that is used."""
    body = body_of(source, rf"struct (?:alignas\(\d+\) )?{struct}")
    found = re.findall(r"^  (?:alignas\(\d+\) )?(\S.*) (\w+); *$", body, re.M)
    return [(kind, name) for kind, name in found if name not in ("unused", "more")]


def computed(expressions: dict[str, str]) -> dict[str, str]:
    """Returns the values of C++ expressions, as text."""
    prints = "".join(f'  std::cout << "{name} " << {value} << "\\n";\n' for name, value in expressions.items())
    program = "#include <iostream>\n" + "".join(f'#include "{ROOT / header}"\n' for header in HEADERS)
    program += f"using namespace ddp::wire;\nint main() {{\n{prints}}}\n"
    with tempfile.TemporaryDirectory() as folder:
        command = [os.environ.get("CXX", "c++"), "-std=c++20", "-x", "c++", "-", "-o", f"{folder}/layout"]
        subprocess.run(command, input=program.encode(), check=True)
        out = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in out.splitlines())


def constants_of(struct: str, members: list, values: dict[str, str]) -> list[tuple[str, str, str]]:
    """Returns name, value and type of each constant of a structure. Offsets have a type."""
    prefix = STRUCTS[struct][0]
    base = int(values["StatusPageLayout.worker"]) if struct == "PageWorker" else 0
    result = [(f"{prefix}_BYTES", values[struct], "")]
    result += [(name, values[name], "") for name in VALUES if name.startswith(prefix + "_")]
    for kind, name in members:
        number = TYPES.get(re.sub("std::atomic<(.*)>", r"\1", kind))
        array = re.match(r"std::array<([\w:]+),", kind)
        block = array[1] if array and array[1] in STRUCTS else None
        shown = number[0] if number else "text" if "char" in kind else "blocks" if block else "bytes"
        shown += ", atomic" if "atomic" in kind else ""
        result.append((f"{prefix}_AT_{name.upper()}", str(base + int(values[f"{struct}.{name}"])), shown))
        size = int(values[f"{struct}.{name}.size"])
        if block:
            result.append((f"{prefix}_{name.upper()}", str(size // int(values[block])), ""))
        elif array:
            result.append((f"{prefix}_{name.upper()}_BYTES", str(size), ""))
    return result


def format_of(struct: str, members: list, values: dict[str, str]) -> str:
    """Returns the structure in the notation of Python's module struct."""
    kinds = [(re.sub("std::atomic<(.*)>", r"\1", kind), values[f"{struct}.{name}.size"]) for kind, name in members]
    return "=" + "".join(TYPES[kind][1] if kind in TYPES else f"{size}s" for kind, size in kinds)


def layout() -> tuple[dict, dict, dict]:
    """Returns the constants of each structure, the names of each enumeration, and the formats of structures."""
    source = "".join((ROOT / header).read_text() for header in [*HEADERS, "include/ddp/progress.h"])
    source = re.sub(" *//.*", "", source)
    members = {struct: members_of(source, struct) for struct in STRUCTS}
    asked = VALUES | {struct: f"sizeof({struct})" for struct in STRUCTS}
    for struct, name in ((struct, name) for struct, found in members.items() for _, name in found):
        asked[f"{struct}.{name}"] = f"offsetof({struct}, {name})"
        asked[f"{struct}.{name}.size"] = f"sizeof({struct}::{name})"
    values = computed(asked)
    return ({struct: constants_of(struct, found, values) for struct, found in members.items()},
            {enum: re.findall(r"\w+", body_of(source, f"enum class {enum}")) for enum in ENUMS},
            {struct: format_of(struct, members[struct], values) for struct in ("RingValue", "RingRecord")})


def c_lines(constants: dict, enums: dict, *_) -> list[str]:
    lines = []
    for struct, found in constants.items():
        lines.append(f"// These offsets are in bytes from the start of {STRUCTS[struct][1]}.")
        defines = (f"#define DDP_{name} {value}".ljust(45 if kind else 0) + kind for name, value, kind in
                   ((name, value, kind and f"// {kind}") for name, value, kind in found))
        lines += [*defines, ""]
    for enum, names in enums.items():
        values = [f"DDP_{ENUMS[enum][1]}_{name.upper()} = {number}" for number, name in enumerate(names)]
        lines += [f"enum {ENUMS[enum][0]} {{", "  " + ",\n  ".join(values), "};"]
    return lines


def python_lines(constants: dict, enums: dict, formats: dict, module: str) -> list[str]:
    """Returns only what the module uses. Positions of numbers are indices of an array of such numbers."""
    lines = []
    for struct, found in constants.items():
        for name, value, kind in found:
            lines.append(f"_{name} = {value}" + (f" // {int(kind[1:3]) // 8}" if kind[1:3] in ("32", "64") else ""))
        if struct in formats:
            lines.append(f'_{STRUCTS[struct][0]}_FORMAT = "{formats[struct]}"')
    for enum, names in enums.items():
        lines += [f"_{ENUMS[enum][1]}_{name.upper()} = {number}" for number, name in enumerate(names)]
    used = set(re.findall(r"\b_[A-Z_]+\b", module))
    phases = ", ".join(f'"{name}"' for name in enums["Phase"])
    return [line for line in lines if line.split()[0] in used] + textwrap.wrap(
        f"PHASES = ({phases})", 120, subsequent_indent=10 * " ")


FILES = {"bindings/c/ddp_page.h": ("// clang-format off\n", "// clang-format on\n", c_lines),
         "bindings/python/ddp_page.py": ("# Generated by scripts/page_layout.py:\n", "# End of the generated lines.\n",
                                         python_lines)}
found, differ = layout(), []
for path, (begin, end, lines_of) in FILES.items():
    text = (ROOT / path).read_text()
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    new = before + begin + "\n".join(lines_of(*found, before + after)) + "\n" + end + after
    if new != text:
        differ.append(path)
        if "--check" not in sys.argv:
            (ROOT / path).write_text(new)
if differ and "--check" in sys.argv:
    sys.exit(f"page layout: {', '.join(differ)}: not as src/wire has it; run scripts/page_layout.py")
print("page layout: " + (f"{', '.join(differ)} written" if differ else "the bindings are as src/wire has it"))
