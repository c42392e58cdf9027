"""Hangs of NCCL in the formats of PyTorch's source, with the answer that is expected.

The texts are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, TraceUtils.h and FlightRecorderDetail.hpp of the
named versions.
"""
import json
import pickle

CASES = {}
LINES = "ProcessGroupNCCL.cpp and TraceUtils.h"
DUMPS = "TraceUtils.h and FlightRecorderDetail.hpp"
STOPPED = ("Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU "
           "operations might run on corrupted/incomplete data.")
DOWN = "To avoid data inconsistency, we are taking the entire process down."
LIKELY = ("This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of "
          "collectives is not same for all ranks or the scheduled collective, for some reason, didn't run. ")


def add(name, version, world, kind, files, culprits=(), source=LINES, **more):
    CASES["nccl_" + name] = {"version": version, "world": world, "kind": kind, "culprits": list(culprits), "files": files,
                             "source": source, **more}


def log(*lines):
    return {"log.txt": "\n".join(["step 40: loss 2.31", *lines, ""])}


def work(number, operation="ALLREDUCE", numel=1024):
    return (f"WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for "
            "600012 milliseconds before timing out.")


def head(rank, line, version):
    """What PyTorch's logging puts in front of each message."""
    if version == "2.1":
        return f"[E ProcessGroupNCCL.cpp:{line}] "
    if version in ("2.2", "2.3"):
        return f"[rank{rank}]:[E ProcessGroupNCCL.cpp:{line}] "
    return f"[rank{rank}]:[E1104 12:00:00.426415540 ProcessGroupNCCL.cpp:{line}] "


def caught(rank, number, version, of_group=None, operation="ALLREDUCE", numel=1024, prefix=None):
    of_group = rank if of_group is None else of_group
    text = f"{prefix or f'[Rank {of_group}] '}Watchdog caught collective operation timeout: {work(number, operation, numel)}"
    return head(rank, 629, version) + text


def died(rank, version, number, prefix="", of_group=None):
    of_group = rank if of_group is None else of_group
    return [head(rank, 681, version) + f"[Rank {of_group}] {STOPPED}", head(rank, 695, version) + f"[Rank {of_group}] {DOWN}",
            head(rank, 1901, version) + f"{prefix}Process group watchdog thread terminated with exception: [Rank {of_group}] "
            f"Watchdog caught collective operation timeout: {work(number)}"]


# PyTorch 2.1 and 2.2 do not print the group of a call.
add("2_1", "2.1", 4, "cannot_be_decided", log(
    *(line for rank in (0, 2, 3) for line in (caught(rank, 5, "2.1"), head(rank, 488, "2.1") + STOPPED,
                                              head(rank, 494, "2.1") + DOWN))), operation="all_reduce", number=5)
SNAPSHOT = ["\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
            "\t     [1] finished collective #4, but didn't join collective #5 (count from 1)",
            "\t - Snapshot of ranks' latest states:", "\t   #4 finished ranks:", "\t     [1] finished ALLREDUCE",
            "\t   #5 started ranks:", "\t     [0, 2, 3] started ALLREDUCE"]
add("2_1_desync", "2.1", 4, "not_called", log(
    caught(0, 5, "2.1"), "\t - [0] Timeout at collective: ALLREDUCE, #5", *SNAPSHOT, head(0, 488, "2.1") + STOPPED),
    [1], operation="all_reduce", number=5, ranks_of_group=False)
add("2_2", "2.2", 4, "cannot_be_decided", log(
    *(caught(rank, 7, "2.2") for rank in range(4)),
    *(head(rank, 1182, "2.2") + f"[Rank {rank}] NCCL watchdog thread terminated with exception: [Rank {rank}] Watchdog caught "
      f"collective operation timeout: {work(7)}" for rank in range(4))), operation="all_reduce", number=7)
add("2_2_never_joined", "2.2", 4, "not_called", log(
    caught(0, 1, "2.2", operation="BROADCAST"), "\t - [0] Timeout at collective: BROADCAST, #1",
    "\t - To our best knowledge, ranks [2] are the lagging ranks that caused this timeout. They never joined any collectives"),
    [2], operation="broadcast", number=1, ranks_of_group=True)


def entry(record, number, name="nccl:all_reduce", state="completed", sizes=((8, 4),), group="0", pg_id=0, p2p=0, description=None,
          version="2.10"):
    sizes = [list(one) for one in sizes]
    one = {"record_id": record, "pg_id": pg_id, "profiling_name": name, "input_sizes": sizes, "output_sizes": sizes,
           "state": state, "retired": state == "completed"}
    if version == "2.2":
        del one["record_id"]
        return one | {"seq_id": number, "time_created_us": 1730721600000000 + record, "frames": []}
    one |= {"op_id": record + 1, "time_created_ns": 1730721600000000000 + record, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "frames": []}
    if version == "1.4":
        return one | {"seq_id": number}
    return one | {"process_group": (group, description or ("default_pg" if group == "0" else "undefined")),
                  "collective_seq_id": number, "p2p_seq_id": p2p, "is_p2p": p2p > 0, "timeout_ms": 600000,
                  "input_dtypes": ["BFloat16"], "output_dtypes": ["BFloat16"], "thread_id": "1", "thread_name": "pt_main_thread"}


def calls(ended, *others, version="2.10", **more):
    """Calls of all_reduce that have ended, and then the others: entries without their record number."""
    entries = [entry(i, i + 1, version=version, **more) for i in range(ended)]
    for other in others:
        entries.append(entry(len(entries), version=version, **(more | other)))
    return entries


def dumps(version, entries_of_rank, groups, name="nccl_trace_rank_", as_json=False):
    """The dumps of ranks. `groups` has the ranks of each group by name."""
    files = {}
    for rank, entries in entries_of_rank.items():
        config = {group: {"name": group, "desc": "default_pg" if group == "0" else "undefined",
                          "ranks": "[" + ", ".join(map(str, ranks)) + "]"} for group, ranks in groups.items() if rank in ranks}
        status = {str(pg_id): {"last_enqueued_collective": max(one["collective_seq_id"] for one in entries if one["pg_id"] == pg_id),
                               "last_started_collective": -1, "last_completed_collective": -1}
                  for pg_id in {one["pg_id"] for one in entries}} if version >= "2.2" else {}
        dump = {"version": version, "pg_config": config, "pg_status": status, "entries": entries}
        if as_json:
            files[f"{name}{rank}.json"] = json.dumps(dump)
        else:
            files[f"{name}{rank}"] = pickle.dumps(dump, protocol=2)
    return files


OPEN = {"number": 5, "state": "started"}
add("2_2_dump", "2.2", 3, "not_called", {f"nccl_trace_rank_{rank}": pickle.dumps(
    calls(4, *([] if rank == 2 else [OPEN]), version="2.2"), protocol=2) for rank in range(3)}, [2], DUMPS,
    operation="all_reduce", number=5, group="0")


def timeout_2_3(rank, number, enqueued, completed, group=0, of_group=None):
    of_group = rank if of_group is None else of_group
    return [caught(rank, number, "2.3", of_group), head(rank, 1537, "2.3") + f"[PG {group} Rank {of_group}] Timeout at NCCL work: "
            f"{number}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.",
            *died(rank, "2.3", number, f"[PG {group} Rank {of_group}] ", of_group)]


add("2_3", "2.3", 4, "not_called", log(
    *(line for rank in (0, 2, 3) for line in timeout_2_3(rank, 5, 6, 4)),
    head(1, 1316, "2.3") + "[PG 0 Rank 1] Received a global timeout from another rank and will start to dump the debug info. "
    "Last enqueued NCCL work: 4, last completed NCCL work: 4."), [1], operation="all_reduce", number=5, group="0")
# "PG 1" is a number of each process: ranks 0 and 2 may be in two groups.
add("2_3_subgroup", "2.3", 4, "cannot_be_decided", log(*timeout_2_3(0, 9, 9, 8, 1, 0), *timeout_2_3(2, 9, 9, 8, 1, 0)))
GROUPS_2_3 = {0: {0: [0, 1, 2, 3], 1: [0, 2]}, 1: {0: [0, 1, 2, 3], 1: [1, 3]}, 2: {0: [0, 1, 2, 3], 1: [0, 2]},
              3: {0: [0, 1, 2, 3], 1: [1, 3]}}
add("2_3_dump", "2.3", 4, "not_called", {f"nccl_trace_rank_{rank}": pickle.dumps({
    "version": "1.4", "pg_config": GROUPS_2_3[rank],
    "entries": calls(4, *([OPEN] if rank in (0,) else []), version="1.4", pg_id=1)}, protocol=2) for rank in range(4)},
    [2], DUMPS, operation="all_reduce", number=5)


def failed_2_4(rank, number, enqueued, completed, prefix, version):
    return [caught(rank, number, version),
            head(rank, 1664, version) + f"{prefix}Exception (either an error or timeout) detected by watchdog at work: {number}, last "
            f"enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.",
            head(rank, 1709, version) + f"{prefix}Timeout at NCCL work: {number}, last enqueued NCCL work: {enqueued}, last completed "
            f"NCCL work: {completed}.", *died(rank, version, number, prefix)]


add("2_4", "2.4", 3, "not_called", log(
    *(line for rank in (0, 1) for line in failed_2_4(rank, 6463, 6463, 6462, f"[PG 0 (default_pg) Rank {rank}] ", "2.4")),
    head(2, 1375, "2.4") + "[PG 0 (default_pg) Rank 2] Received a global dump signal from rank 0, and will start to dump the debug "
    "info. Last enqueued NCCL work: 6462, last completed NCCL work: 6462."), [2], operation="all_reduce", number=6463, group="0")
add("2_4_dump", "2.4", 2, "all_called", dumps("2.1", {0: calls(4, OPEN), 1: calls(4, OPEN)}, {"0": [0, 1]}), source=DUMPS,
    operation="all_reduce", number=5)
# Rank 5 of the job is rank 1 of group 3, and nothing is known about rank 0 of that group.
add("2_5_subgroup", "2.5", 8, "cannot_be_decided", log(
    *failed_2_4(5, 31, 58, 30, "[PG ID 2 PG GUID 3 Rank 1] ", "2.5")), number=31, group="3")
P2P = {"number": 4, "state": "started", "name": "nccl:recv 1<-0", "p2p": 1}
add("2_5_dump", "2.5", 8, "not_called", dumps("2.4", {
    4: calls(4, group="7", pg_id=1), 6: calls(4, P2P, group="7", pg_id=1)}, {"7": [4, 6]}), [4], DUMPS,
    operation="send 0->1", group="7")


def failed_2_6(rank, number, enqueued, completed, version, prefix=None, started=None, caught_prefix=None, **more):
    prefix = prefix or f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    started = "" if started is None else f", last started work: {started}"
    return [caught(rank, number, version, prefix=caught_prefix, **more),
            head(rank, 2168, version) + f"{prefix} failure detected by watchdog at work sequence id: {number} PG status: last enqueued "
            f"work: {enqueued}{started}, last completed work: {completed}",
            head(rank, 667, version) + "Stack trace of the failed collective not found, potentially because FlightRecorder is "
            "disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
            *died(rank, version, number, prefix)]


def signal(rank, enqueued, completed, version, source="  rank 0"):
    return (head(rank, 1987, version) + f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective "
            f"timeout from{source} and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last "
            f"completed NCCL work: {completed}.{LIKELY}")


add("2_6", "2.6", 4, "all_called", log(*(line for rank in range(4) for line in failed_2_6(rank, 78, 79, 77, "2.6"))),
    operation="all_reduce", number=78, group="0")
add("2_7_mismatch", "2.7", 3, "mismatch", log(
    *failed_2_6(0, 12, 12, 11, "2.7"), *failed_2_6(1, 12, 12, 11, "2.7", operation="BROADCAST"),
    *failed_2_6(2, 12, 13, 11, "2.7")), [1], number=12, group="0")
add("2_8_dump", "2.8", 4, "not_called", dumps("2.9", {
    0: calls(3, {"number": 4, "state": "started"}, group="1", pg_id=1),
    1: calls(3, group="1", pg_id=1) + [entry(i + 3, i + 1, group="3", pg_id=2, state="completed" if i < 2 else "started")
                                       for i in range(3)],
    3: calls(2, group="3", pg_id=2)}, {"1": [0, 1], "3": [1, 3]}, as_json=True), [3], DUMPS,
    operation="all_reduce", number=3, group="3")
add("2_9_p2p", "2.9", 2, "cannot_be_decided", log(
    *failed_2_6(0, 7, 7, 6, "2.9", operation="SEND"), signal(1, 3, 3, "2.9")))
add("2_10_dump", "2.10", 3, "not_called", dumps("2.10", {
    rank: [entry(100 + i, 101 + i, state="completed" if i < 9 else "scheduled") for i in range(9 if rank == 0 else 10)]
    for rank in range(3)}, {"0": [0, 1, 2]}, as_json=True), [0], DUMPS, operation="all_reduce", number=110)
add("2_11", "2.11", 4, "not_called", log(
    *failed_2_6(0, 5, 8, 4, "2.11"), head(0, 2106, "2.11") + "[PG ID 0 PG GUID 0(default_pg) Rank 0] First PG on this rank to signal "
    "dumping.", signal(0, 8, 4, "2.11", " this local rank"),
    head(2, 1922, "2.11") + "[PG ID 0 PG GUID 0(default_pg) Rank 2] Observed flight recorder dump signal from another rank via TCPStore.",
    signal(2, 8, 4, "2.11"), signal(3, 4, 4, "2.11")), [3], operation="all_reduce", number=5, group="0",
    known_world=None)
add("2_12_desync", "2.12", 4, "not_called", log(
    head(2, 2399, "2.12") + "Rank 2", "\t - [2] Timeout at collective: ALLREDUCE, #5", *SNAPSHOT,
    *failed_2_6(2, 5, 5, 4, "2.12")), [1], operation="all_reduce", number=5, ranks_of_group=False)
add("2_13_dump", "2.13", 3, "mismatch", dumps("2.10", {
    rank: calls(4, OPEN | ({"sizes": ((9, 4),)} if rank == 1 else {})) for rank in range(3)}, {"0": [0, 1, 2]},
    "comm_lib_trace_rank_"), [1], DUMPS, number=5)
add("2_14", "2.14", 4, "not_called", log(
    *(line for rank in (0, 1, 2) for line in failed_2_6(
        rank, 5, 8, 4, "2.14", started=5, caught_prefix=f"[PG GUID 0(default_pg) Rank {rank}] ")),
    signal(3, 4, 4, "2.14")), [3], operation="all_reduce", number=5, group="0")
