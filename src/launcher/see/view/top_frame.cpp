#include "launcher/see/view/top_frame.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "base/text.h"
#include "launcher/see/view/rank_table.h"
#include "launcher/see/view/short_figures.h"
#include "launcher/see/view/styled_line.h"
#include "launcher/see/view/training_curves.h"

namespace ddp::launcher {
namespace {

constexpr int kStallLines = 3;
constexpr int kBarColumns = 20;

struct JobField {
  std::string text;
  Style style = Style::plain;
};

std::string job_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const double whole = std::clamp(seconds, 0.0, 1e9);
  return base::human_duration(std::chrono::seconds(static_cast<std::int64_t>(whole)));
}

JobField steps_field(const JobSnapshot& job, FrameSize most, FrameStyle frame_style) {
  const std::string step = "step " + std::to_string(job.step);
  if (!job.total_steps || *job.total_steps == 0) return {step, Style::bold};
  const double share = std::min(static_cast<double>(job.step) / static_cast<double>(*job.total_steps), 1.0);
  std::string bar;
  if (most.columns >= 60) {
    const int full = static_cast<int>(share * kBarColumns);
    for (int i = 0; i < kBarColumns; ++i)
      bar += frame_style.has_unicode ? (i < full ? "█" : "░") : (i < full ? "#" : ".");
    bar += " ";
  }
  return {bar + step + "/" + std::to_string(*job.total_steps) + " (" + short_percent(share) + ")", Style::bold};
}

std::string nodes_text(const JobSnapshot& job) {
  const auto spares = std::ranges::count_if(job.nodes, [](const NodeRow& node) { return node.workers == 0; });
  std::string text = base::counted(job.world_size, "rank");
  const auto used = std::ssize(job.nodes) - spares;
  if (used > 1 || spares > 0) text += " on " + base::counted(used, "node");
  if (spares > 0) text += " + " + base::counted(spares, "spare");
  return job.has_all_ranks ? text : text + ", those of this node are shown";
}

// Returns a space and the curve with this name, or an empty text if there is none or no space for it.
std::string curve_text(const JobSnapshot& job, std::string_view name, FrameSize most, FrameStyle frame_style) {
  const auto curve = std::ranges::find(job.curves, name, &Curve::name);
  if (most.columns < 60 || curve == job.curves.end()) return "";
  const std::string line = sparkline(curve->mean, most.columns < 120 ? 12 : 24, frame_style.has_unicode);
  return line.empty() ? "" : " " + line;
}

JobField restart_field(const JobSnapshot& job) {
  // The loss of a node does not count in --max-restarts, so there may be more.
  const std::string of_all = job.attempt <= job.max_restarts ? " of " + std::to_string(job.max_restarts) : "";
  const std::string from = job.restored_step ? ", from step " + std::to_string(*job.restored_step) : "";
  return {"restart " + std::to_string(job.attempt) + of_all + from, job.attempt > 0 ? Style::yellow : Style::plain};
}

// Returns the figures of the job, the most important ones first.
std::vector<JobField> fields_of(const JobSnapshot& job, FrameSize most, FrameStyle frame_style) {
  std::vector<JobField> fields;
  if (job.step > 0 || job.total_steps) fields.push_back(steps_field(job, most, frame_style));
  if (job.steps_per_second > 0) {
    fields.push_back(
        {short_number(job.steps_per_second) + " steps/s" + curve_text(job, kStepsCurve, most, frame_style)});
  }
  if (job.eta) fields.push_back({"eta " + job_duration(*job.eta)});
  for (const ProgressValue& value : job.values) {
    const std::string number = std::isfinite(value.value) ? short_number(value.value) : "not finite";
    fields.push_back(
        {clean_text(value.name) + " " + number + curve_text(job, value.name, most, frame_style), Style::cyan});
  }
  if (job.stalls > 0) fields.push_back({base::counted(job.stalls, "stall"), Style::yellow});
  for (const std::string_view name : {kMemoryCurve, kGpuMemoryCurve}) {
    const auto curve = std::ranges::find(job.curves, name, &Curve::name);
    if (reports(job.values, name) || curve == job.curves.end()) continue;
    if (curve->mean.empty() || !curve->mean.back()) continue;
    fields.push_back(
        {std::string(name) + " " + short_bytes(*curve->mean.back()) + curve_text(job, name, most, frame_style)});
  }
  fields.push_back({nodes_text(job)});
  fields.push_back({"up " + job_duration(job.uptime)});
  if (job.max_restarts > 0 || job.attempt > 0) fields.push_back(restart_field(job));
  if (job.preloader_pid != 0) fields.push_back({"forked from pid " + std::to_string(job.preloader_pid)});
  if (job.attempt > 0) fields.push_back({"this attempt " + job_duration(job.attempt_uptime)});
  if (job.bytes_per_second > 0)
    fields.push_back(
        {base::human_bytes(static_cast<std::uint64_t>(std::min(job.bytes_per_second, 1e18))) + "/s in collectives"});
  return fields;
}

// Fills lines with the fields, in their order. A field that does not fit any more is left out.
std::vector<std::string> flowed_fields(const std::vector<JobField>& fields, FrameSize most, FrameStyle frame_style) {
  constexpr int kGap = 3;
  std::vector<StyledLine> lines(1, StyledLine(most.columns, frame_style));
  bool is_first = true;
  for (const JobField& field : fields) {
    const int width = columns_of(field.text);
    if (!is_first && width + kGap > lines.back().left()) {
      if (static_cast<int>(lines.size()) == most.rows) continue;
      lines.emplace_back(most.columns, frame_style);
      is_first = true;
    }
    lines.back().spaces(is_first ? 1 : kGap).add(field.text, field.style);
    is_first = false;
  }
  std::vector<std::string> result;
  for (const StyledLine& line : lines) result.push_back(line.text());
  return result;
}

// Breaks a text into lines between its words.
std::vector<std::string> broken_text(const std::string& text, int columns, int most) {
  std::vector<std::string> lines(1);
  for (const std::string& word : base::words(text)) {
    const bool fits = lines.back().empty() || columns_of(lines.back()) + 1 + columns_of(word) <= columns;
    if (!fits && static_cast<int>(lines.size()) < most) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string stall_text_of(const JobSnapshot& job) {
  if (!job.stall.empty()) return "STALL for " + job_duration(job.stall_seconds) + ": " + clean_text(job.stall);
  if (job.culprits.empty()) return "";
  return "culprit: " + base::ranks_text(job.culprits);
}

constexpr std::size_t kWorstRanks = 20;
constexpr std::size_t kRanksForMap = 64;  // fewer ranks are shown as groups if they do not fit
constexpr int kLeastForMap = 8;           // lines that a map and the ranks below it need
constexpr double kOldSnapshot = 3;        // seconds

using FrameLines = std::vector<std::string>;

// Returns at most `most.rows` lines. Figures that do not fit are left out, the least important first.
std::vector<std::string> job_header(const JobSnapshot& job, FrameSize most, FrameStyle frame_style) {
  std::vector<std::string> lines;
  if (most.rows <= 0) return lines;
  const std::string stall = stall_text_of(job);
  const int stall_lines = stall.empty() || most.rows < 2 ? 0 : std::clamp(most.rows - 2, 1, kStallLines);
  StyledLine title(most.columns, frame_style);
  title.add(" ").add(job.run_id.empty() ? "ddplaunch" : clean_text(job.run_id), Style::bold).add("  ");
  title.add(clean_text(job.program));
  lines.push_back(title.text());
  std::vector<std::string> stall_text;
  if (stall_lines > 0) stall_text = broken_text(stall, most.columns - 2, stall_lines);
  const int field_lines = most.rows - 1 - static_cast<int>(stall_text.size());
  if (field_lines > 0) {
    for (std::string& line :
         flowed_fields(fields_of(job, most, frame_style), {most.columns, field_lines}, frame_style)) {
      lines.push_back(std::move(line));
    }
  }
  for (const std::string& line : stall_text) {
    lines.push_back(StyledLine(most.columns, frame_style).add(" " + line, Style::alert).text());
  }
  return lines;
}

// Returns the most lines of the header in a frame with these rows.
int header_rows(int rows) {
  return rows < 6 ? 1 : rows < 12 ? 3 : rows < 30 ? 5 : 7;
}

constexpr const char* kHelp[] = {
    "Up, Down, PgUp, PgDn, Home, End   select a rank",
    "Enter or t   stacks of the selected rank    f   follow its output    Esc   back",
    "s   sort by the next column                 S   by the previous one",
    "v   show ranks, groups of equal ranks, or a map of all ranks",
    "/   show only ranks with this text in node, state, phase, GPU or collective, or a list: 3,8-15",
    "p   pause    h   this text    q   quit; the job continues",
    "",
    "!  the rank that causes the stall     *  a rank that the others often wait for",
    "AWAITED   share of the last 10 s in which other ranks waited for this one",
    "TIME      shares of the last 10 s: c computing, r in a collective, w waiting for ranks, p in a phase",
    "CALLED    time since the last call of a collective     OUTPUT   time since the last output",
    "CPU       processors in use     RSS   memory     GPU   time in which a kernel ran",
};

FrameLines help_lines(int columns, FrameStyle frame_style) {
  FrameLines lines;
  for (const char* line : kHelp) lines.push_back(StyledLine(columns, frame_style).spaces(1).add(line).text());
  return lines;
}

FrameLines pane_lines(const TextPane& pane, FrameSize size, FrameStyle frame_style) {
  FrameLines lines;
  lines.push_back(StyledLine(size.columns, frame_style).spaces(1).add(clean_text(pane.title), Style::bold).text());
  const int rows = std::max(size.rows - 1, 0);
  const int count = static_cast<int>(pane.lines.size());
  const int last = std::max(count - rows, 0);
  const int first = std::clamp(pane.is_from_end ? last - pane.scrolled : pane.scrolled, 0, last);
  for (int i = first; i < std::min(first + rows, count); ++i) {
    const std::string text = clean_text(pane.lines[static_cast<std::size_t>(i)]);
    lines.push_back(StyledLine(size.columns, frame_style).spaces(1).add(text).text());
  }
  return lines;
}

// Returns the part of `rows` that fits, with the selected rank in it.
std::span<const RankGroup> visible_part(const std::vector<RankGroup>& rows, std::optional<int> selected, int most) {
  const auto count = static_cast<int>(rows.size());
  const auto at = std::ranges::find_if(
      rows, [&](const RankGroup& row) { return selected && std::ranges::binary_search(row.ranks, *selected); });
  const int chosen = at == rows.end() ? 0 : static_cast<int>(at - rows.begin());
  const int first = std::clamp(chosen - most / 2, 0, std::max(count - most, 0));
  return std::span(rows).subspan(static_cast<std::size_t>(first),
                                 static_cast<std::size_t>(std::clamp(count - first, 0, std::max(most, 0))));
}

// Chooses the layout for `most` lines: the titles of the table take the first one. An automatic layout depends on the
// number of ranks alone, and not on figures that change all the time.
RankLayout layout_for(const TopView& view, std::size_t ranks, int most) {
  if (view.layout != RankLayout::automatic) return view.layout;
  if (static_cast<int>(ranks) < most) return RankLayout::ranks;
  return ranks > kRanksForMap && most >= kLeastForMap ? RankLayout::map : RankLayout::groups;
}

ShownRanks choose_rows(const JobSnapshot& snapshot, const TopView& view, int most) {
  auto singles = single_ranks(snapshot, view.filter, view.order);
  const RankLayout layout = layout_for(view, singles.size(), most);
  if (layout == RankLayout::map) return {layout, worst_of(std::move(singles), kWorstRanks)};
  if (layout == RankLayout::ranks) return {layout, std::move(singles)};
  auto groups = joined(singles);
  sort_ranks(groups, view.order, has_stall(snapshot));
  return {layout, std::move(groups)};
}

FrameLines rank_lines(const JobSnapshot& snapshot, const TopView& view, FrameSize most, FrameStyle frame_style) {
  if (most.rows <= 0) return {};
  const ShownRanks shown = choose_rows(snapshot, view, most.rows);
  FrameLines lines;
  if (shown.layout == RankLayout::map && most.rows >= 4) {
    const auto all = single_ranks(snapshot, view.filter, RankOrder::rank);
    lines = heat_map(all, {most.columns, std::max((most.rows - 1) / 2, 2)}, frame_style);
  }
  const int left = most.rows - static_cast<int>(lines.size());
  if (left <= 0) return lines;
  if (shown.rows.empty()) {
    const std::string why = snapshot.ranks.empty() ? "no rank is running" : "no rank matches the filter";
    lines.push_back(StyledLine(most.columns, frame_style).spaces(1).add(why, Style::dim).text());
    return lines;
  }
  for (std::string& line :
       rank_table(visible_part(shown.rows, view.selected, left - 1), view.selected, most.columns, frame_style)) {
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string key_line(const TopView& view, int columns, FrameStyle frame_style) {
  StyledLine line(columns, frame_style);
  if (view.is_typing) return line.add("/" + clean_text(view.filter), Style::bold).add("_").text();
  if (view.is_paused) line.add(" PAUSED ", Style::alert);
  if (view.age >= kOldSnapshot) {
    line.add(" no news for " + short_duration(view.age) + " ", Style::yellow);
  }
  if (!view.message.empty()) return line.spaces(1).add(clean_text(view.message), Style::yellow).text();
  struct Key {
    const char* key;
    std::string action;
  };
  const std::string filter = view.filter.empty() ? "filter" : "filter: " + clean_text(view.filter);
  const bool is_closed = !view.pane && !view.is_help_open;
  const std::vector<Key> keys =
      is_closed ? std::vector<Key>{{"q", "quit"},   {"s", "sort: " + std::string(name_of(view.order))},
                                   {"/", filter},   {"t", "stacks"},
                                   {"f", "output"}, {"v", "layout"},
                                   {"p", "pause"},  {"h", "help"}}
                : std::vector<Key>{{"Esc", "back"}, {"q", "quit"}};
  for (const Key& key : keys) {
    if (columns_of(key.key) + columns_of(key.action) + 3 > line.left()) continue;
    line.spaces(1).add(key.key, Style::bold).add(" " + key.action + " ", Style::dim);
  }
  return line.text();
}

// Returns the rows between the header and the keys, of which large terminals leave one empty.
int body_rows(const JobSnapshot& snapshot, FrameSize size) {
  const int keys = size.rows >= 20 ? 2 : size.rows >= 4 ? 1 : 0;
  // The lines of the header do not depend on the look.
  const auto header = job_header(snapshot, {size.columns, std::min(header_rows(size.rows), size.rows)}, {});
  return std::max(size.rows - keys - static_cast<int>(header.size()), 0);
}

}  // namespace

ShownRanks shown_ranks_of(const JobSnapshot& snapshot, const TopView& view, FrameSize size) {
  return choose_rows(snapshot, view, body_rows(snapshot, size));
}

int page_of(const JobSnapshot& snapshot, FrameSize size) {
  return std::max(body_rows(snapshot, size) - 1, 1);
}

std::vector<std::string> top_frame(const JobSnapshot& snapshot, const TopView& view, FrameSize size,
                                   FrameStyle frame_style) {
  FrameLines lines = job_header(snapshot, {size.columns, std::min(header_rows(size.rows), size.rows)}, frame_style);
  const FrameSize body{size.columns, body_rows(snapshot, size)};
  FrameLines shown;
  if (view.is_help_open) {
    shown = help_lines(size.columns, frame_style);
  } else if (view.pane) {
    shown = pane_lines(*view.pane, body, frame_style);
  } else {
    shown = rank_lines(snapshot, view, body, frame_style);
  }
  shown.resize(static_cast<std::size_t>(body.rows));
  if (size.rows >= 20) lines.emplace_back();
  for (std::string& line : shown) lines.push_back(std::move(line));
  if (static_cast<int>(lines.size()) < size.rows) lines.push_back(key_line(view, size.columns, frame_style));
  return lines;
}

std::vector<std::string> job_lines(const JobSnapshot& snapshot, const TopView& view, FrameSize most,
                                   FrameStyle frame_style) {
  FrameLines lines = job_header(snapshot, {most.columns, std::min(header_rows(most.rows), most.rows)}, frame_style);
  const int left = most.rows - static_cast<int>(lines.size());
  for (std::string& line : rank_lines(snapshot, view, {most.columns, left}, frame_style))
    lines.push_back(std::move(line));
  return lines;
}

}  // namespace ddp::launcher
