#!/usr/bin/env python3
"""bench_test.py DDPLAUNCH: `ddplaunch bench` measures what it reports, and detects wrong usage."""
import json
import subprocess
import sys

OPERATIONS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"]


def bench(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.argv[1], "bench", *words], capture_output=True, text=True, timeout=120)


def every_operation_and_backend_is_measured_and_right() -> None:
    for backend in ["cpu", "gloo"]:
        for buffers in [[], ["--own-buffers"]]:
            done = bench("--nproc-per-node=3", f"--backend={backend}", "--sizes", "4,1K,300K", "--iterations", "3", "--json",
                         *buffers)
            assert done.returncode == 0, done
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            assert [line["operation"] for line in lines] == [name for name in OPERATIONS for _ in range(3)], done.stdout
            for line in lines:
                assert line["wrong"] == 0 and line["backend"] == backend and line["ranks"] == 3, line
                assert line["runtime_buffers"] == (not buffers) and line["iterations"] == 3, line
                assert 0 < line["least_microseconds"] <= line["microseconds"], line
                factor = {"all_reduce": 4 / 3, "broadcast": 1}.get(line["operation"], 2 / 3)
                assert abs(line["busbw_gbs"] / (line["algbw_gbs"] * factor) - 1) < 1e-4, line
                assert abs(line["algbw_gbs"] * line["microseconds"] * 1e3 / line["bytes"] - 1) < 1e-2, line


def the_table_has_the_columns_of_nccl_tests() -> None:
    done = bench("--nproc-per-node=2", "all_reduce", "--sizes", "4K", "--iterations", "2")
    header = done.stdout.splitlines()[1].split()
    assert header == ["#", "size(B)", "count", "type", "redop", "root", "time(us)", "least(us)", "algbw", "busbw", "#wrong",
                      "iters"], done
    assert done.stdout.splitlines()[2].split()[:5] == ["4096", "1024", "float", "sum", "-1"], done


def a_mistake_is_reported() -> None:
    done = bench("--nproc-per-node=1", "--sizes", "4X")
    assert done.returncode == 2 and "'4X' is not a size" in done.stderr, done
    for words, said in ((["--sizes", "abc"], "'abc' is not a size"), (["--sizes", "4,,5"], "'' is not a size"),
                        (["--sizes", "99999999999999999999"], "is not a size"), (["--sizes", "-5"], "'-5' is not a size"),
                        (["--min-bytes", "8", "--max-bytes", "4"], "--min-bytes 8 is more than --max-bytes 4"),
                        (["--seconds", "-1"], "--seconds: '-1' is not a time"), (["--iterations", "0"], "from 1 up"),
                        (["--step-factor", "1"], "from 2 up")):
        done = bench("--nproc-per-node=1", *words)
        assert done.returncode == 2 and said in done.stderr, (words, done)
    done = bench("--nproc-per-nod=1")
    assert done.returncode == 2 and "Did you mean --nproc-per-node?" in done.stderr, done
    assert "Usage: ddplaunch bench" in bench("--help").stdout


if __name__ == "__main__":
    for check in [every_operation_and_backend_is_measured_and_right, the_table_has_the_columns_of_nccl_tests,
                  a_mistake_is_reported]:
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}")
