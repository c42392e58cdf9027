#include "launcher/see/report/html/html_sections.h"

namespace ddp::launcher {

// The report is complete without the script, which sorts tables, filters ranks, zooms the time and shows shares.
const char* const kReportScript = R"js(
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const find = (id) => document.getElementById(id);
  document.body.classList.add("scripted");

  // Sorts a table by a column. The first click sorts numbers with the largest first, and texts from A to Z.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const rows = [...body.rows];
        const is_number = rows.length > 0 && typeof valueOf(rows[0], column) === "number";
        const before = head.getAttribute("aria-sort");
        const up = before ? before === "descending" : !is_number;
        for (const each of heads) each.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.sort((a, b) => compare(valueOf(a, column), valueOf(b, column)) * (up ? 1 : -1));
        body.append(...rows);
      });
    });
  }

  // Shows only some ranks: "3, 8-15, node1".
  const filter = find("filter");
  const wanted = (text) => {
    const tests = text.toLowerCase().split(/[\s,]+/).filter(Boolean).map((word) => {
      const range = word.match(/^(\d+)(?:-(\d+))?$/);
      if (!range) return (rank, node) => node.includes(word);
      const first = Number(range[1]);
      const last = Number(range[2] ?? range[1]);
      return (rank) => rank >= first && rank <= last;
    });
    return (rank, node) => tests.length === 0 || tests.some((test) => test(rank, node));
  };
  const apply = () => {
    const is_wanted = wanted(filter.value);
    const shown = new Set();
    const ranks = new Set();
    for (const row of all("[data-rank]")) {
      const rank = Number(row.dataset.rank);
      row.hidden = !is_wanted(rank, row.dataset.node.toLowerCase());
      ranks.add(rank);
      if (!row.hidden) shown.add(rank);
    }
    find("shown").textContent = shown.size === ranks.size ? "" : `${shown.size} of ${ranks.size} ranks`;
  };
  if (filter) filter.addEventListener("input", apply);
  // A link to a rank shows it, whatever the filter is.
  const show_target = () => {
    const target = location.hash.length > 1 && find(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.hidden && filter) {
      filter.value = "";
      apply();
    }
    target.closest("details")?.setAttribute("open", "");
    target.scrollIntoView({block: "center"});
  };
  addEventListener("hashchange", show_target);

  // Zooms all charts of ranks together.
  const charts = all(".zoomable");
  const unit = (seconds) => {
    if (seconds === 0) return "0 s";
    if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
    if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(4))} ms`;
    if (seconds < 60) return `${Number(seconds.toPrecision(4))} s`;
    const minutes = Math.floor(seconds / 60);
    const rest = Number((seconds % 60).toFixed(1));
    if (minutes < 60) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
    return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  };
  const draw_ticks = (chart) => {
    const track = chart.querySelector(".axis .track");
    const seconds = Number(chart.dataset.seconds);
    const count = Math.min(Math.max(track.clientWidth / 110, 2), 400);
    const power = 10 ** Math.floor(Math.log10(seconds / count));
    const steps = seconds / count > 10 ? [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400]
                                       : [power, 2 * power, 5 * power];
    const step = steps.find((each) => seconds / each <= count) ?? 10 * power;
    track.replaceChildren();
    for (let i = 0; i * step < seconds * 0.99; ++i) {
      const tick = document.createElement("span");
      tick.className = "tick";
      tick.style.left = `${(100 * i * step) / seconds}%`;
      tick.textContent = unit(i * step);
      track.append(tick);
    }
  };
  let zoom = 1;
  const label_width = (chart) => chart.querySelector(".label").offsetWidth;
  const zoom_to = (wanted_zoom, middle) => {
    const next = Math.min(Math.max(wanted_zoom, 1), 200);
    for (const chart of charts) {
      const view = chart.clientWidth - label_width(chart);
      const at = middle ?? (chart.scrollLeft + view / 2) / (view * zoom);
      chart.style.setProperty("--zoom", next);
      draw_ticks(chart);
      chart.scrollLeft = at * view * next - view / 2;
    }
    zoom = next;
  };
  if (find("in")) {
    find("in").addEventListener("click", () => zoom_to(zoom * 2));
    find("out").addEventListener("click", () => zoom_to(zoom / 2));
    find("whole").addEventListener("click", () => zoom_to(1));
  }
  for (const chart of charts) {
    chart.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const track = chart.querySelector(".axis .track").getBoundingClientRect();
      zoom_to(zoom * (event.deltaY < 0 ? 1.5 : 1 / 1.5), (event.clientX - track.left) / track.width);
    }, {passive: false});
    chart.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "=") zoom_to(zoom * 2);
      if (event.key === "-") zoom_to(zoom / 2);
      if (event.key === "0") zoom_to(1);
    });
    // A drag along the axis zooms to that part of the time.
    const axis = chart.querySelector(".axis .track");
    let from = null;
    let range = null;
    const part = (event) => {
      const box = axis.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    };
    axis.addEventListener("pointerdown", (event) => {
      from = part(event);
      range = document.createElement("i");
      range.className = "range";
      axis.append(range);
      axis.setPointerCapture(event.pointerId);
    });
    axis.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = part(event);
      range.style.left = `${100 * Math.min(from, to)}%`;
      range.style.width = `${100 * Math.abs(to - from)}%`;
    });
    const end_drag = (event) => {
      if (from === null) return;
      const to = part(event);
      const width = Math.abs(to - from);
      range.remove();
      const middle = (from + to) / 2;
      from = null;
      if (event.type === "pointerup" && width * axis.clientWidth > 5) zoom_to(1 / width, middle);
    };
    axis.addEventListener("pointerup", end_drag);
    axis.addEventListener("pointercancel", end_drag);
    draw_ticks(chart);
  }

  // Shows the shares below the pointer. They are read from the outlines that are drawn.
  const tip = document.createElement("div");
  tip.id = "tip";
  document.body.append(tip);
  const height_at = (path, column) => {
    let x = 0;
    let height = 0;
    for (const [, command, number] of path.getAttribute("d").matchAll(/([MVh])([\d.]+)/g)) {
      if (command === "V") height = 10 - Number(number);
      if (command === "h") x += Number(number);
      if (command === "h" && column < x) return height;
    }
    return 0;
  };
  const tip_text = (row, svg, part) => {
    const columns = svg.viewBox.baseVal.width;
    const column = Math.min(Math.floor(part * columns), columns - 1);
    const seconds = Number(row.closest(".chart").dataset.seconds);
    const lines = [`rank ${row.dataset.rank}, ${row.dataset.node}`,
                   `${unit((column * seconds) / columns)} to ${unit(((column + 1) * seconds) / columns)}`];
    // The outlines lie above each other, the highest one first.
    const heights = all("path", svg).filter((path) => path.classList[0] !== "u")
        .map((path) => [path.classList[0], height_at(path, column)]);
    heights.forEach(([state, height], i) => {
      const share = height - (heights[i + 1]?.[1] ?? 0);
      if (share > 0) lines.push(`${data.states[state]} ${share * 10} %`);
    });
    return lines.join("\n");
  };
  for (const chart of all(".strips")) {
    chart.addEventListener("pointermove", (event) => {
      const svg = event.target.closest("svg");
      if (!svg) {
        tip.style.display = "none";
        return;
      }
      const box = svg.getBoundingClientRect();
      tip.textContent = tip_text(svg.closest(".row"), svg, (event.clientX - box.left) / box.width);
      tip.style.display = "block";
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
    });
    chart.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  }

  // Copies the line that starts the job again.
  const again = find("again");
  if (again && navigator.clipboard) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(again.textContent);
      button.textContent = "Copied";
    });
    again.after(button);
  }
  if (location.hash) show_target();
})();
)js";

}  // namespace ddp::launcher
