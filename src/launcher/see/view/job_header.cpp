#include "launcher/see/view/job_header.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text.h"
#include "launcher/see/view/short_figures.h"
#include "launcher/see/view/styled_line.h"
#include "launcher/see/view/text_columns.h"
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
  if (job.max_restarts > 0 || job.attempt > 0) {
    // The loss of a node does not count in --max-restarts, so there may be more.
    const std::string of_all = job.attempt <= job.max_restarts ? " of " + std::to_string(job.max_restarts) : "";
    const std::string from = job.restored_step ? ", from step " + std::to_string(*job.restored_step) : "";
    fields.push_back(
        {"restart " + std::to_string(job.attempt) + of_all + from, job.attempt > 0 ? Style::yellow : Style::plain});
  }
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

}  // namespace

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

}  // namespace ddp::launcher
