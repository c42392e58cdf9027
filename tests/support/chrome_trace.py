"""Reads traces of --trace, and checks that they have the form that Perfetto and Chrome need."""
import collections
import gzip
import json
import pathlib
import re

JOB = 1_000_000_000  # the process of the job; those of the ranks have the ranks' numbers
STEPS, COLLECTIVES, GPU, PHASES, WAITS = range(5)
NUMBER, TEXT, OBJECT = (int, float), (str,), (dict,)

# The members that an event of each kind must and may have, apart from ph, pid and tid.
REQUIRED = {
    "X": {"name": TEXT, "cat": TEXT, "ts": NUMBER, "dur": NUMBER},
    "b": {"name": TEXT, "cat": TEXT, "ts": NUMBER, "id": TEXT},
    "e": {"name": TEXT, "cat": TEXT, "ts": NUMBER, "id": TEXT},
    "s": {"name": TEXT, "cat": TEXT, "ts": NUMBER, "id": TEXT},
    "f": {"name": TEXT, "cat": TEXT, "ts": NUMBER, "id": TEXT, "bp": TEXT},
    "i": {"name": TEXT, "cat": TEXT, "ts": NUMBER, "s": TEXT},
    "C": {"name": TEXT, "ts": NUMBER, "args": OBJECT},
    "M": {"name": TEXT, "args": OBJECT},
}
OPTIONAL = {"X": {"args": OBJECT}, "b": {"args": OBJECT}}
METADATA = {"process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index", "thread_name": "name",
            "thread_sort_index": "sort_index"}


class Trace:
    def __init__(self, path: pathlib.Path | str):
        data = pathlib.Path(path).read_bytes()
        self.document = json.loads(gzip.decompress(data) if str(path).endswith(".gz") else data)
        self.events: list[dict] = self.document["traceEvents"]
        self.other: dict = self.document["otherData"]
        check_form(self.document)
        check_names(self.events)
        check_nesting(self.events)
        check_pairs(self.events)

    def of(self, kind: str, **members: object) -> list[dict]:
        return [event for event in self.events
                if event["ph"] == kind and all(event.get(key) == value for key, value in members.items())]

    def marks(self, category: str) -> list[str]:
        return [event["name"] for event in self.of("i", cat=category)]

    def ranks(self) -> list[int]:
        return sorted({event["pid"] for event in self.events} - {JOB})

    def collectives(self) -> dict[tuple[str, int], list[dict]]:
        """Returns the slices of each collective, by group and number."""
        found = collections.defaultdict(list)
        for event in self.of("X", cat="collective") + self.of("b", cat="collective"):
            found[event["args"]["group"], event["args"]["number"]].append(event)
        return found


def check_form(document: dict) -> None:
    assert set(document) == {"displayTimeUnit", "traceEvents", "otherData"}, set(document)
    assert document["displayTimeUnit"] == "ms"
    assert set(document["otherData"]) == {"version", "run_id", "program", "started", "clock_error_ns", "dropped_records"}
    for event in document["traceEvents"]:
        kind = event["ph"]
        required, optional = REQUIRED[kind], OPTIONAL.get(kind, {})
        members = set(event) - {"ph", "pid", "tid"}
        assert set(required) <= members <= set(required) | set(optional), event
        for key, types in {**required, **optional}.items():
            assert key not in event or isinstance(event[key], types), (key, event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event
        assert kind != "i" or event["s"] == "g", event
        assert kind != "M" or set(event["args"]) == {METADATA[event["name"]]}, event
        assert kind != "C" or all(isinstance(value, NUMBER) for value in event["args"].values()), event
        assert "id" not in event or re.fullmatch("0x[0-9a-f]{16}", event["id"]), event


def check_names(events: list[dict]) -> None:
    """Every row that shows something has a name."""
    names = {(event["pid"], event["tid"]) for event in events if event.get("name") == "thread_name"}
    processes = {event["pid"] for event in events if event.get("name") == "process_name"}
    for event in events:
        if event["ph"] in "Xsfi":
            assert (event["pid"], event["tid"]) in names and event["pid"] in processes, event


def check_nesting(events: list[dict]) -> None:
    """The slices of a row lie apart or within each other."""
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            rows[event["pid"], event["tid"]].append((begin, -begin - round(event["dur"] * 1000), event))
    for row in rows.values():
        row.sort(key=lambda entry: entry[:2])
        open_ends: list[int] = []
        for begin, minus_end, event in row:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or -minus_end <= open_ends[-1], f"crosses another slice: {event}"
            open_ends.append(-minus_end)


def check_pairs(events: list[dict]) -> None:
    """Every arrow has one begin and one end, each in a slice of its row. So do asynchronous slices, without a row."""
    slices = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for first, second in (("s", "f"), ("b", "e")):
        begins = {event["id"]: event for event in events if event["ph"] == first}
        ends = {event["id"]: event for event in events if event["ph"] == second}
        assert begins.keys() == ends.keys(), (first, begins.keys() ^ ends.keys())
        assert len(begins) == sum(event["ph"] == first for event in events), "ids are unique"
        assert len(ends) == sum(event["ph"] == second for event in events), "ids are unique"
        for key, begin in begins.items():
            assert begin["ts"] <= ends[key]["ts"] or first == "s", (begin, ends[key])
            for end in (begin, ends[key]) if first == "s" else ():
                row = slices[end["pid"], end["tid"]]
                assert any(low - 0.001 <= end["ts"] <= high + 0.001 for low, high in row), end
