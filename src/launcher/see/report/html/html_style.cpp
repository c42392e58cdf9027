#include "launcher/see/report/html/html_sections.h"

namespace ddp::launcher {

// The contrast of texts is at least 4.5 in both themes. The states differ in lightness, too, for readers who see few
// colours.
const char* const kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f5f5f2; --card: #ffffff; --ink: #1d2227; --soft: #57606a; --line: #e1e3e0; --faint: #f0f1ee;
  --link: #0a58b8; --bad: #a8201a; --bad-back: #fbe9e7; --good: #176b34; --good-back: #e4f3e8;
  --warn: #7a4f00; --warn-back: #fdf1d3; --soft-back: #eceeeb;
  --c: #a9d2c6; --p: #b9a9d9; --k: #4f7fd0; --w: #d9612c; --s: #7c2d63; --u: #d9dbd8;
  --l1: #fbdcc9; --l2: #f4b48f; --l3: #e88a5a; --l4: #d9612c; --l5: #a83c10;
  --label: 10.5rem; --zoom: 1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131618; --card: #1b1f22; --ink: #e4e7e9; --soft: #9ba5ae; --line: #2d3338; --faint: #22272b;
    --link: #79b4ff; --bad: #ff9a92; --bad-back: #3c1d1b; --good: #78d394; --good-back: #15301e;
    --warn: #f0c674; --warn-back: #362b12; --soft-back: #2a2f34;
    --c: #2f6b5e; --p: #7d69a8; --k: #6f9bee; --w: #f0834c; --s: #d37fb5; --u: #3a4147;
    --l1: #4a2c1e; --l2: #7d4528; --l3: #b45f33; --l4: #f0834c; --l5: #ffc29e;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3.5rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0 auto; padding: 2rem clamp(1rem, 4vw, 3rem) 4rem; max-width: 86rem; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
}
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; }
h1 { margin: 0 0 1rem; font-size: 1.9rem; overflow-wrap: anywhere; }
h2 { margin: 0 0 .9rem; font-size: 1.2rem; }
h3 { margin: 1.4rem 0 .5rem; font-size: 1rem; }
p { margin: .5rem 0; max-width: 80ch; }
.kicker { margin: 0; color: var(--soft); font-size: .85rem; letter-spacing: .04em; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .86em; }
pre {
  margin: .6rem 0; padding: .8rem 1rem; overflow-x: auto; background: var(--faint); border-radius: 6px; line-height: 1.5;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
.card { margin: 0 0 1.25rem; padding: 1.4rem 1.5rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.soft { color: var(--soft); }
.note { border-left: 4px solid var(--warn); }
dl.facts { display: flex; flex-wrap: wrap; gap: .6rem 2.2rem; margin: 0 0 1.4rem; }
dl.facts dt { color: var(--soft); font-size: .8rem; }
dl.facts dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
nav {
  position: sticky; top: 0; z-index: 5; display: flex; gap: .3rem 1.2rem; margin: 0 0 1.25rem; padding: .6rem 0;
  overflow-x: auto; background: var(--page); border-bottom: 1px solid var(--line); font-size: .88rem; white-space: nowrap;
}
nav a { color: var(--soft); text-decoration: none; }
nav a:hover { color: var(--link); text-decoration: underline; }
.pill {
  display: inline-block; padding: .12em .65em; border-radius: 1em; font-size: .8rem; font-weight: 600; letter-spacing: 0;
  vertical-align: middle; white-space: nowrap; background: var(--soft-back); color: var(--soft);
}
.pill.good { background: var(--good-back); color: var(--good); }
.pill.bad { background: var(--bad-back); color: var(--bad); }
.pill.warn { background: var(--warn-back); color: var(--warn); }
.verdict { border-left: 4px solid var(--soft); }
.verdict.good { border-left-color: var(--good); }
.verdict.bad { border-left-color: var(--bad); }
.verdict.warn { border-left-color: var(--warn); }
.headline { max-width: none; margin: 0 0 .6rem; font-size: 1.12rem; font-weight: 600; overflow-wrap: anywhere; }
details { margin: .7rem 0 0; }
summary { cursor: pointer; padding: .15rem 0; overflow-wrap: anywhere; }
ul { margin: .4rem 0; padding-left: 1.3rem; }
ul.plain { padding: 0; list-style: none; }
ul.plain li { margin: .35rem 0; overflow-wrap: anywhere; }

.scroll { overflow: auto; }
.tall { max-height: 32rem; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .36rem .5rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; }
.tall td { white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.tall thead th { position: sticky; top: 0; z-index: 1; background: var(--card); box-shadow: inset 0 -1px var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
tbody tr:hover { background: var(--faint); }
td.n, th.n { text-align: right; white-space: nowrap; }
tbody tr:target, .row:target .label { background: var(--warn-back); }
table.facts th { width: 12rem; color: var(--soft); font-weight: 400; }
th button {
  margin: -.2rem -.35rem; padding: .2rem .35rem; border: 0; border-radius: 4px; background: none; color: inherit; font: inherit;
  cursor: pointer;
}
th button:hover { background: var(--soft-back); }
th[aria-sort=ascending] button::after { content: " ↑"; }
th[aria-sort=descending] button::after { content: " ↓"; }

.chart { overflow: auto; max-height: 30rem; border: 1px solid var(--line); border-radius: 6px; }
.row {
  display: grid; grid-template-columns: var(--label) 1fr; align-items: center;
  width: calc(var(--label) + (100% - var(--label)) * var(--zoom)); min-width: 100%;
}
.many .row { content-visibility: auto; contain-intrinsic-size: auto 1.5rem; }
.row + .row { border-top: 1px solid var(--line); }
.label {
  position: sticky; left: 0; z-index: 2; height: 100%; padding: .15rem .7rem; overflow: hidden; background: var(--card);
  border-right: 1px solid var(--line); color: var(--soft); font-size: .8rem; line-height: 1.25rem; white-space: nowrap;
  text-overflow: ellipsis; font-variant-numeric: tabular-nums;
}
.label b { color: var(--ink); font-weight: 600; }
.label em { color: var(--bad); font-style: normal; font-weight: 600; }
.track { position: relative; height: 1.4rem; }
.strips .track { height: 1.55rem; padding: 1px 0; }
.axis { position: sticky; top: 0; z-index: 3; background: var(--card); }
.many .axis { content-visibility: visible; }
.axis .track { cursor: crosshair; touch-action: pan-y; user-select: none; overflow: hidden; }
.tick { position: absolute; top: 0; bottom: 0; padding-left: .35rem; border-left: 1px solid var(--line); color: var(--soft);
  font-size: .76rem; line-height: 1.4rem; white-space: nowrap; }
.range { position: absolute; top: 0; bottom: 0; background: var(--link); opacity: .25; }
.track svg { display: block; width: 100%; height: 100%; }
.c { fill: var(--c); background: var(--c); } .p { fill: var(--p); background: var(--p); }
.k { fill: var(--k); background: var(--k); } .w { fill: var(--w); background: var(--w); }
.s { fill: var(--s); background: var(--s); } .u { fill: var(--u); background: var(--u); }
.e { background: var(--card); box-shadow: inset 0 0 0 1px var(--line); }
.l1 { fill: var(--l1); background: var(--l1); } .l2 { fill: var(--l2); } .l3 { fill: var(--l3); background: var(--l3); }
.l4 { fill: var(--l4); } .l5 { fill: var(--l5); background: var(--l5); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.3rem; max-width: none; color: var(--soft); font-size: .84rem; }
.swatch { display: inline-block; width: .85em; height: .85em; margin-right: .45em; border-radius: 2px; vertical-align: -.05em; }
.bar {
  position: absolute; top: .2rem; bottom: .2rem; padding: 0 .5rem; overflow: hidden; border-radius: 4px; font-size: .76rem;
  line-height: 1rem; white-space: nowrap; text-overflow: ellipsis; background: var(--soft-back); color: var(--soft);
  box-shadow: inset 0 0 0 1px color-mix(in srgb, currentColor 25%, transparent);
}
.bar.good { background: var(--good-back); color: var(--good); }
.bar.bad { background: var(--bad-back); color: var(--bad); }
.bar.warn { background: var(--warn-back); color: var(--warn); }
.mark { position: absolute; top: 0; bottom: 0; width: 3px; margin-left: -1px; background: var(--w); border-radius: 1px; }
.stall { position: absolute; top: 1px; bottom: 1px; border-bottom: 3px solid var(--bad); background: color-mix(in srgb, var(--bad) 55%, transparent); }
.stalled { background: var(--bad); }
.tools { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; max-width: none; }
.tools .zoom { margin-left: auto; display: flex; gap: .35rem; }
.js { display: none; }
body.scripted .js { display: flex; }
.tools button, .tools input, .copy {
  padding: .3rem .7rem; border: 1px solid var(--line); border-radius: 6px; background: var(--card); color: var(--ink); font: inherit;
  font-size: .86rem;
}
.tools button, .copy { cursor: pointer; }
.tools button:hover, .copy:hover { background: var(--faint); }
#tip {
  position: fixed; z-index: 9; display: none; max-width: 22rem; padding: .4rem .65rem; border-radius: 6px; background: var(--ink);
  color: var(--page); font-size: .8rem; line-height: 1.4; pointer-events: none; white-space: pre-line;
}
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1.2rem 2rem; }
.plot { margin: 0; min-width: 0; }
.plot figcaption { margin-bottom: .3rem; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.plot .area { position: relative; margin-right: 4.5rem; height: 8rem; border: solid var(--line); border-width: 0 0 1px 1px; }
.plot svg { display: block; width: 100%; height: 100%; overflow: visible; }
.plot .track { margin-right: 4.5rem; overflow: hidden; }
.high, .low { position: absolute; left: 100%; padding-left: .4rem; color: var(--soft); font-size: .76rem; line-height: 1;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.high { top: 0; } .low { bottom: 0; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.band { opacity: .22; }
.curve.line0 { stroke: var(--k); } .band.line0 { fill: var(--k); }
.curve.line1 { stroke: var(--w); } .band.line1 { fill: var(--w); }
.sample0 { background: var(--k); } .sample1 { background: var(--w); }
footer { margin-top: 2rem; color: var(--soft); font-size: .85rem; }
[hidden] { display: none !important; }
@media (max-width: 40rem) { :root { --label: 6.5rem; } .card { padding: 1rem; } }
@media print {
  body { max-width: none; padding: 0; } nav, .tools { display: none !important; }
  .chart, .tall { max-height: none; } .card { break-inside: avoid-page; }
}
)css";

}  // namespace ddp::launcher
