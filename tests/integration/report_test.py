#!/usr/bin/env python3
"""Makes reports of real jobs, and looks at them in Chromium: with and without scripts, in both themes. argv[1]: the
directory of the programs. Without Chromium only the text of the reports is checked.

With DDP_SCREENSHOTS=DIR, pictures of the reports are written there.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from chromium import Page, find_chromium  # noqa: E402  (it is in another folder)
from ports import free_port  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
PATIENCE = 120  # seconds
PICTURES = os.environ.get("DDP_SCREENSHOTS")


def launch(folder: pathlib.Path, *words: object, code: int = 0, wait: bool = True, **variables: str):
    """Runs a job with an event log and a report. Returns the report's text, or the process if it should go on."""
    process = subprocess.Popen([str(word) for word in (BIN / "ddplaunch", "--event-log=run.jsonl", "--report=run.html", *words)],
                               cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, "TMPDIR": str(folder), **variables})
    if not wait:
        return process
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == code, (process.returncode, output)
    return (folder / "run.html").read_text(encoding="utf-8")


def made_from_log(folder: pathlib.Path, *words: object) -> str:
    """Returns the report that is made from the event log alone."""
    done = subprocess.run([str(word) for word in (BIN / "ddplaunch", "report", "run.jsonl", "-o", "again.html", *words)],
                          cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done
    assert "the report is in again.html" in done.stderr, done
    return (folder / "again.html").read_text(encoding="utf-8")


def text_of(html: str) -> str:
    return re.sub(r"<[^>]+>", "", re.sub(r"<(style|script).*?</\1>", "", html, flags=re.DOTALL))


def shell(script: str, workers: int = 2) -> list[str]:
    return [f"--nproc-per-node={workers}", "sh", "-c", script]


def take_picture(page: Page, name: str) -> None:
    if PICTURES:
        pathlib.Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(pathlib.Path(PICTURES) / f"{name}.png")


def check_quiet(page: Page, file: pathlib.Path) -> None:
    assert not page.errors, page.errors
    assert set(page.requests) == {file.resolve().as_uri()}, page.requests


def success(folder: pathlib.Path) -> None:
    html = launch(folder, *shell("echo done"))
    assert "The job succeeded." in html and "Culprit" not in html, html
    assert 'class="pill good">succeeded' in html
    # Both reports come from the same events. The file has been written before the report's own time is known.
    assert made_from_log(folder) == html


def crash(folder: pathlib.Path) -> None:
    html = launch(folder, "--core=off", *shell('[ $RANK = 1 ] || exec sleep 1000; echo "last words <b>" >&2; kill -SEGV $$'),
                  code=139, HF_TOKEN="hidden7", NCCL_DEBUG="WARN")
    text = text_of(html)
    assert re.search(r"rank 1 \(pid \d+\) failed: killed by SIGSEGV", text), text
    assert "last words &lt;b&gt;" in html and "last words <b>" not in html
    assert "Culprit: rank 1 on node" in text and "NCCL_DEBUG=WARN" in text
    assert "hidden7" not in html
    assert f"cd {folder} &amp;&amp; " in html and "--report=run.html" in html


def restart(folder: pathlib.Path) -> None:
    html = launch(folder, "--max-restarts=1", *shell("exit $((TORCHELASTIC_RESTART_COUNT == 0 ? 5 : 0))"))
    text = text_of(html)
    assert "The job succeeded." in text and "restart 1 of 1" in text and "attempt 1" in text, text
    assert html.count('class="bar bad"') >= 1 and html.count('class="bar good"') >= 1


def hang(folder: pathlib.Path) -> pathlib.Path:
    html = launch(folder, "--hang-timeout=5", "--record=all", "--nproc-per-node=3", BIN / "hanging_worker", "phase", code=124)
    text = text_of(html)
    assert "DDP-H03" in text and "validation set" in text, text
    assert "main (hanging_worker.cpp" in text or "main" in text, text
    assert 'id=rank-2' in html and "Ranks that others waited for" in text and "waiting" in html
    waited = re.search(r"others waited for rank 1 for ([\d.]+) s", html)
    assert waited and float(waited[1]) > 2, text
    return folder / "run.html"


def several_nodes(folder: pathlib.Path) -> None:
    words = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--nproc-per-node=2", "--hang-timeout=5"]
    worker = [BIN / "hanging_worker", "phase"]
    first = launch(folder, *words, "--node-rank=0", *worker, wait=False, NCCL_DEBUG="WARN")
    other = subprocess.run([str(word) for word in (BIN / "ddplaunch", *words, "--node-rank=1", "--report=other.html", *worker)],
                           cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    output = first.communicate(timeout=PATIENCE)[0]
    assert first.returncode == other.returncode == 124, (output, other)
    # The first node writes the report, with the ranks of both nodes.
    assert not (folder / "other.html").exists()
    html = (folder / "run.html").read_text(encoding="utf-8")
    nodes = dict(re.findall(r'id=rank-(\d) data-rank=\d data-node="([^"]+)"', html))
    assert nodes.keys() == {"0", "1", "2", "3"} and nodes["0"] == nodes["1"] != nodes["2"] == nodes["3"], nodes
    assert "nodes differ: NCCL_DEBUG is " in text_of(html), text_of(html)
    assert re.search(r"Culprit: rank 1", text_of(html)) and "ranks 2-3" in text_of(html), text_of(html)


def killed_launcher(folder: pathlib.Path) -> None:
    job = launch(folder, *shell("echo $PPID > ppid; exec sleep 1000", 1), wait=False)
    end = time.monotonic() + PATIENCE
    while not (folder / "ppid").exists() or not (folder / "ppid").read_text().strip():
        assert time.monotonic() < end and job.poll() is None
        time.sleep(0.02)
    # Both processes of the launcher are killed, so that none can write the end. The kernel kills the worker.
    supervisor = int((folder / "ppid").read_text())
    os.kill(job.pid, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    os.kill(job.pid, signal.SIGKILL)
    job.communicate(timeout=PATIENCE)
    with (folder / "run.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"time":"2026-11')
    html = made_from_log(folder)
    text = text_of(html)
    assert "The event log ends before the job" in text and "1 line of the event log is no event." in text, text
    assert 'class="pill soft">incomplete' in html


def several_runs(folder: pathlib.Path) -> None:
    launch(folder, "--rdzv-id=first", *shell("exit 4", 1), code=4)
    launch(folder, "--rdzv-id=second", *shell("exit 0", 1))
    assert "The job succeeded." in made_from_log(folder)
    assert "exit code 4" in text_of(made_from_log(folder, "--run-id=first"))
    done = subprocess.run([BIN / "ddplaunch", "report", "run.jsonl", "--run-id=third"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 125 and "contains no event of the run third" in done.stderr, done


def in_a_browser(file: pathlib.Path) -> None:
    with Page(file) as page:
        assert page.text("h1").startswith("hanging_worker hung"), page.text("h1")
        assert page.run("[...document.querySelectorAll('.row[data-rank]')].every((row) => row.offsetHeight > 10)")
        take_picture(page, "hang_light")

        # Tables are sorted by a click, numbers as numbers.
        ranks = "[...document.querySelectorAll('#numbers tbody tr')].map((row) => Number(row.dataset.rank))"
        assert page.run(ranks) == [0, 1, 2]
        page.click("#numbers th:first-child button")
        assert page.run(ranks) == [2, 1, 0]
        assert page.run("document.querySelector('#numbers th').getAttribute('aria-sort')") == "descending"
        page.click("#numbers th:first-child button")
        assert page.run(ranks) == [0, 1, 2]
        longest = "#numbers th:nth-child(12) button"  # waited for
        assert page.text(longest) == "waited for"
        page.click(longest)
        assert page.run(ranks)[0] == 1

        # The filter hides rows everywhere.
        visible = "[...document.querySelectorAll('#ranks .row[data-rank]')].filter((row) => row.offsetHeight).map((row) => Number(row.dataset.rank))"
        for words, expected in {"1": [1], "0-1": [0, 1], "2, 0": [0, 2], "no-such-node": [], "": [0, 1, 2]}.items():
            page.run(f"(() => {{ const filter = document.getElementById('filter'); filter.value = {json.dumps(words)};"
                     " filter.dispatchEvent(new Event('input')); })()")
            assert page.run(visible) == expected, (words, page.run(visible))
        assert page.text("#shown") == ""

        # The time axis is zoomed by buttons, and by a drag.
        width = "document.querySelector('#ranks .row[data-rank] svg').getBoundingClientRect().width"
        whole = page.run(width)
        page.click("#in")
        assert abs(page.run(width) / whole - 2) < 0.05
        assert page.run("document.querySelector('#ranks .chart').scrollLeft") > 0
        page.click("#whole")
        assert abs(page.run(width) - whole) < 2
        axis = page.run("(() => { const box = document.querySelector('#ranks .axis .track').getBoundingClientRect();"
                        " return [box.left, box.top + box.height / 2, box.width]; })()")
        page.mouse("mousePressed", axis[0] + axis[2] * 0.25, axis[1])
        page.mouse("mouseMoved", axis[0] + axis[2] * 0.5, axis[1])
        page.mouse("mouseReleased", axis[0] + axis[2] * 0.5, axis[1])
        assert abs(page.run(width) / whole - 4) < 0.1, page.run(width) / whole
        page.click("#whole")

        # The pointer shows the shares of a column, which the strip of rank 0 has: it waits at the end.
        strip = page.run("(() => { const svg = document.querySelector('#rank-0 svg'); svg.scrollIntoView({block: 'center', behavior: 'instant'});"
                         " const box = svg.getBoundingClientRect(); return [box.left, box.top + box.height / 2, box.width]; })()")
        page.mouse("mouseMoved", strip[0] + strip[2] * 0.7, strip[1], "none")
        tip = page.text("#tip")
        assert tip.startswith("rank 0, ") and "waiting" in tip, tip
        page.mouse("mouseMoved", 2, 2, "none")

        # A link to a rank leads to its row, even if the filter hides it.
        page.run("(() => { const filter = document.getElementById('filter'); filter.value = '0'; filter.dispatchEvent(new Event('input')); })()")
        page.click("#verdict a[href='#rank-1']")
        page.wait_until("location.hash === '#rank-1'")
        page.wait_until(f"{visible}.length === 3")
        check_quiet(page, file)

        # Headings, table headers and labels are there for readers who hear the page.
        assert page.run("document.querySelectorAll('th:not([scope])').length") == 0
        assert page.run("[...document.querySelectorAll('svg')].every((svg) => svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label'))")
        assert page.run("[...document.querySelectorAll('section')].every((each) => each.querySelector('h2'))")
        assert page.run("[...document.querySelectorAll('a[href^=\"#\"]')].every((each) => document.getElementById(each.hash.slice(1)))")
        assert page.run("new Set([...document.querySelectorAll('[id]')].map((each) => each.id)).size ==="
                        " document.querySelectorAll('[id]').length")
    with Page(file, dark=True) as page:
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(19, 22, 24)"
        take_picture(page, "hang_dark")
        for theme_page in (page,):
            check_contrast(theme_page)
    with Page(file) as page:
        check_contrast(page)
    with Page(file, scripts=False, width=700) as page:
        dom = page.dom()
        for text in ("DDP-H03", "id=\"rank-2\"", "How it was started", "Ranks that others waited for"):
            assert text in dom, text
        assert "<button type=\"button\" id=\"in\"" in dom and "class=\"scripted\"" not in dom
        take_picture(page, "hang_without_scripts")
        check_quiet(page, file)


def check_contrast(page: Page) -> None:
    """All visible texts have a contrast of at least 4.5 to what is behind them (WCAG 2, level AA)."""
    low = page.run("""(() => {
        const parts = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = (color) => {
            const [r, g, b] = parts(color).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
            for (let each = element; each; each = each.parentElement) {
                const color = getComputedStyle(each).backgroundColor;
                const alpha = parts(color)[3];
                if (alpha === undefined || alpha === 1) return color;
            }
            return 'rgb(255, 255, 255)';
        };
        const low = [];
        for (const element of document.querySelectorAll('body *')) {
            const has_text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
            if (!has_text || !element.offsetHeight || element.closest('script, style, svg, #tip')) continue;
            const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
            const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
            if (contrast < 4.5) low.push(`${element.tagName}.${element.className}: ${contrast.toFixed(2)} ${element.textContent.slice(0, 40)}`);
        }
        return low;
    })()""")
    assert low == [], low


def main() -> int:
    for job in (success, crash, restart, several_nodes, killed_launcher, several_runs):
        with tempfile.TemporaryDirectory() as name:
            job(pathlib.Path(name))
            print("ok:", job.__name__, flush=True)
    with tempfile.TemporaryDirectory() as name:
        file = hang(pathlib.Path(name))
        print("ok: hang", flush=True)
        if find_chromium() is None:
            print("skipped: Chromium is missing, so no report was looked at. Run: apt-get install chromium")
            return 0
        in_a_browser(file)
        print("ok: in_a_browser", flush=True)
    return 0


sys.exit(main())
