#!/usr/bin/env python3
"""charts.py: draws the charts of docs/explanation/performance.md, and writes the table of the README, from
docs/explanation/switch.json, which tests/bench/switch_bench.py writes.
"""
import html
import json
import math
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/explanation"
COLORS = {"ddplaunch": "#3f51b5", "bare spawn": "#9e9e9e", "srun": "#00897b", "mpirun": "#fb8c00", "torchrun": "#e53935"}
FOREVER = 50_000  # milliseconds
WIDTH, LEFT, RIGHT, BAR = 760, 130, 110, 26


def milliseconds(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def chart(title: str, values: list[tuple[str, str, float]], path: pathlib.Path) -> None:
    """Horizontal bars on a logarithmic scale. A value is (label, launcher, milliseconds)."""
    low = 10 ** math.floor(math.log10(min(value for _, _, value in values)))
    high = 10 ** math.ceil(math.log10(max(value for _, _, value in values)))
    scale = (WIDTH - LEFT - RIGHT) / math.log10(high / low)
    height = 70 + len(values) * (BAR + 8)
    parts = [f'<text x="16" y="26" font-size="16" font-weight="bold">{html.escape(title)}</text>']
    step = low
    while step <= high:
        x = LEFT + math.log10(step / low) * scale
        parts.append(f'<line x1="{x:.1f}" y1="40" x2="{x:.1f}" y2="{height - 26}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="#666">{milliseconds(step).replace(".00", "").replace(".0", "")}</text>')
        step *= 10
    for i, (label, launcher, value) in enumerate(values):
        y = 44 + i * (BAR + 8)
        width = max(2.0, math.log10(value / low) * scale)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 18}" text-anchor="end">{html.escape(label)}</text>'
                     f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" fill="{COLORS[launcher]}"/>'
                     f'<text x="{LEFT + width + 6:.1f}" y="{y + 18}" font-weight="bold">{milliseconds(value)}</text>')
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
                    f'aria-label="{html.escape(title)}">\n<style>text{{font:13px system-ui,sans-serif;fill:#222}}</style>\n'
                    f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n",
                    encoding="utf-8")


def failure_cell(own: dict) -> str:
    # The other worker of the benchmark sleeps for a minute.
    return "when the other worker exits" if own["failure_ms"] > FOREVER else milliseconds(own["failure_ms"])


def hang_cell(own: dict) -> str:
    if own.get("hang_reported_s") is None:
        return "nothing printed in 30 s"
    return f"named after {own['hang_reported_s']:.0f} s"


STORE = {"writes": "accepted", "refused": "refused"}
ROWS = {
    "start of a job": lambda own: milliseconds(own["start_ms"]),
    "failure to the launcher's exit": failure_cell,
    "exit code of a worker that exits with 3": lambda own: str(own["exit_code"]),
    "a rank that hangs": hang_cell,
    "processes left after `kill -9` of the launcher": lambda own: str(own["orphans"]),
    "torn lines of 6000": lambda own: str(own["torn_lines"]),
    "another user of the node writes to the store": lambda own: STORE.get(own.get("store_for_others"), "has no store"),
}
SEVERAL_NODES = {"torchrun": "same command on each node", "mpirun": "ssh or a scheduler", "srun": "Slurm only",
                 "ddplaunch": "same command, ssh, Slurm, MPI, Kubernetes"}
ORDER = ["torchrun", "mpirun", "srun", "ddplaunch"]


CHINESE = {
    "start of a job": "启动一个任务", "failure to the launcher's exit": "从失败到启动器退出",
    "exit code of a worker that exits with 3": "worker 以退出码 3 退出时，启动器的退出码", "a rank that hangs": "某个 rank 卡死",
    "processes left after `kill -9` of the launcher": "`kill -9` 启动器之后的残留进程", "torn lines of 6000": "6000 行输出中相互混杂的行",
    "another user of the node writes to the store": "同一节点的其他用户写入 store", "several nodes": "多节点",
    "when the other worker exits": "等另一个 worker 退出", "nothing printed in 30 s": "30 秒内无任何提示",
    "accepted": "接受", "refused": "被拒绝", "has no store": "没有 store",
    "same command on each node": "每个节点执行同一命令", "ssh or a scheduler": "ssh 或调度器", "Slurm only": "仅 Slurm",
    "same command, ssh, Slurm, MPI, Kubernetes": "同一命令、ssh、Slurm、MPI、Kubernetes",
}


def in_chinese(text: str) -> str:
    return CHINESE.get(text) or text.replace("named after", "指出该 rank，用时")


def table(switch: dict, translate) -> str:
    rows = [["", *ORDER]]
    rows += [[name, *(cell(switch[each]) for each in ORDER)] for name, cell in ROWS.items()]
    rows.append(["several nodes", *(SEVERAL_NODES[each] for each in ORDER)])
    lines = ["| " + " | ".join(translate(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * (len(ORDER) + 1) + "|", *lines[1:]])


def replace_between(path: pathlib.Path, name: str, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: written by scripts/docs charts -->\n", f"<!-- end of {name} -->"
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    assert tail, f"{path} has no place for {name}"
    path.write_text(head + begin + text + "\n" + end + tail, encoding="utf-8")


def main() -> None:
    switch = json.loads((FOLDER / "switch.json").read_text())
    for name, title in (("start_ms", "A job of two workers that do nothing"), ("failure_ms", "From a worker's failure to the launcher's exit")):
        values = sorted(((each, each, own[name]) for each, own in switch.items() if own[name] < FOREVER), key=lambda value: value[2])
        chart(title, values, FOLDER / f"{name.removesuffix('_ms')}.svg")
    replace_between(ROOT / "README.md", "table", table(switch, str))
    replace_between(ROOT / "README.zh-CN.md", "table", table(switch, in_chinese))


if __name__ == "__main__":
    main()
