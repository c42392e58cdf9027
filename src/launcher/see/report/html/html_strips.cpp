#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"
#include "launcher/see/view/strip_text.h"

namespace ddp::launcher {
namespace {

// The strips of all attempts together have at most this many columns, so that the report stays small.
constexpr std::size_t kMostStripCells = 240'000;
constexpr int kStripHeight = 10;  // a tenth of the time is one unit

// The states are drawn above each other in this order. The others are shown by the background.
constexpr std::array kDrawnStates = {RankState::computing, RankState::phase, RankState::collective, RankState::waiting,
                                     RankState::stopped};

using Columns = std::vector<StripColumn>;

// Merges neighbours so that at most `most` columns remain.
Columns shortened(const Columns& columns, std::size_t most) {
  const std::size_t factor = (columns.size() + most - 1) / std::max<std::size_t>(most, 1);
  if (factor <= 1) return columns;
  Columns result;
  for (std::size_t begin = 0; begin < columns.size(); begin += factor) {
    const std::size_t end = std::min(begin + factor, columns.size());
    std::array<int, kRankStates> sums{};
    for (std::size_t i = begin; i < end; ++i) {
      for (std::size_t state = 0; state < sums.size(); ++state) sums[state] += columns[i][state];
    }
    StripColumn column{};
    int given = 0;
    for (std::size_t state = 0; state < sums.size(); ++state) {
      column[state] = static_cast<std::uint8_t>(sums[state] / static_cast<int>(end - begin));
      given += column[state];
    }
    // The rounded rest goes to the state with the largest share.
    column[static_cast<std::size_t>(std::ranges::max_element(sums) - sums.begin())] +=
        static_cast<std::uint8_t>(10 - given);
    result.push_back(column);
  }
  return result;
}

// Returns the outline of the area below heights[i], which is the height of column i from the bottom.
std::string area(const std::vector<int>& heights) {
  std::string path = "M0 " + std::to_string(kStripHeight);
  for (std::size_t i = 0; i < heights.size();) {
    std::size_t end = i + 1;
    while (end < heights.size() && heights[end] == heights[i]) ++end;
    path += "V" + std::to_string(kStripHeight - heights[i]) + "h" + std::to_string(end - i);
    i = end;
  }
  return path + "V" + std::to_string(kStripHeight) + "z";
}

std::string strip_svg(const Columns& columns, const std::string& label) {
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(std::max<std::size_t>(columns.size(), 1)) +
                    " 10\" preserveAspectRatio=none role=img aria-label=\"" + html_text(label) + "\">";
  // Each area also covers those below it, so the highest one is drawn first.
  std::vector<int> heights(columns.size());
  std::vector<std::string> areas;
  for (const RankState state : kDrawnStates) {
    bool is_used = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      heights[i] += columns[i][static_cast<std::size_t>(state)];
      is_used = is_used || columns[i][static_cast<std::size_t>(state)] > 0;
    }
    if (is_used) areas.push_back(std::string("<path class=") + letter_of(state) + " d=\"" + area(heights) + "\"/>");
  }
  std::vector<int> unknown(columns.size());
  std::ranges::transform(columns, unknown.begin(), [](const StripColumn& column) { return column[0] > 0 ? 10 : 0; });
  if (std::ranges::any_of(unknown, [](int height) { return height > 0; })) {
    svg += std::string("<path class=u d=\"") + area(unknown) + "\"/>";
  }
  for (auto each = areas.rbegin(); each != areas.rend(); ++each) svg += *each;
  return svg + "</svg>";
}

// Returns text such as "rank 3: computing 60 %, waiting 40 %".
std::string label_of(const RankHistory& rank) {
  std::string label = "rank " + std::to_string(rank.rank) + ":";
  bool is_first = true;
  for (const RankState state : kDrawnStates) {
    const double seconds = rank.seconds[static_cast<std::size_t>(state)];
    if (seconds <= 0) continue;
    label +=
        std::string(is_first ? " " : ", ") + std::string(name_of(state)) + " " + share_text(seconds, seconds_of(rank));
    is_first = false;
  }
  return label;
}

// Returns the columns of each rank of the attempt. Returns nothing if there are too many ranks for `cells`.
std::vector<Columns> columns_of(const AttemptHistory& history, std::size_t cells) {
  constexpr std::size_t kFewestColumns = 12;
  std::vector<Columns> result;
  if (history.ranks.empty() || history.columns == 0 || cells / history.ranks.size() < kFewestColumns) return result;
  for (const RankHistory& rank : history.ranks) {
    result.push_back(
        shortened(read_strip(rank.strip, static_cast<std::size_t>(history.columns)), cells / history.ranks.size()));
  }
  return result;
}

struct Strips {
  const AttemptRecord* attempt;
  std::vector<Columns> columns;  // by index of the rank in the history
};

// Selects the attempts whose strips are shown: the last ones.
std::vector<Strips> strips_of(const RunRecord& run) {
  std::vector<Strips> result;
  std::size_t cells = kMostStripCells;
  for (auto attempt = run.attempts.rbegin(); attempt != run.attempts.rend(); ++attempt) {
    if (!attempt->history) continue;
    Strips strips{&*attempt, columns_of(*attempt->history, cells)};
    if (strips.columns.empty()) continue;
    for (const Columns& columns : strips.columns) cells -= std::min(cells, columns.size());
    result.push_back(std::move(strips));
  }
  return result;
}

// Shows in the row of a culprit when the others were stalled because of it.
std::string stall_marks(const AttemptRecord& attempt, int rank, double length) {
  std::string html;
  for (auto stall = attempt.stalls.begin(); stall != attempt.stalls.end(); ++stall) {
    if (std::ranges::find(stall->culprits, rank) == stall->culprits.end()) continue;
    const auto over = std::find_if(stall, attempt.stalls.end(), [](const StallRecord& later) {
      return later.state == "goes_on" || later.state == "resumed";
    });
    const double end = over != attempt.stalls.end() ? over->time : attempt.end.value_or(attempt.begin + length);
    const double begin = std::clamp(stall->time - stall->age - attempt.begin, 0.0, length);
    const double width = std::clamp(end - attempt.begin, begin, length) - begin;
    html += "<i class=stall style=\"left:" + plain_number(100 * begin / length) +
            "%;width:" + plain_number(100 * width / length) + "%\" title=\"the others wait for this rank\"></i>";
    if (over == attempt.stalls.end()) break;
    stall = over;
  }
  return html;
}

double length_of(const AttemptHistory& history) {
  return std::max(history.column_seconds * history.columns, 1e-6);
}

// Ticks beyond the end of the attempt would mislead, so the axis is as long as the columns.
std::string chart(const Strips& strips, bool is_last) {
  const AttemptHistory& history = *strips.attempt->history;
  const std::string prefix = is_last ? "" : "attempt-" + std::to_string(strips.attempt->number) + "-";
  constexpr std::size_t kMany = 200;  // rows that the browser need not draw before they are visible
  const std::string many = history.ranks.size() > kMany ? " many" : "";
  std::string html = "<div class=\"chart strips zoomable" + many +
                     "\" tabindex=0 role=group aria-label=\"States of the ranks over time\" "
                     "data-attempt=" +
                     std::to_string(strips.attempt->number) + " data-seconds=" + plain_number(length_of(history)) +
                     ">\n<div class=\"row axis\"><div class=label>time</div><div class=track>" +
                     axis_html(length_of(history)) + "</div></div>\n";
  for (std::size_t i = 0; i < history.ranks.size(); ++i) {
    const RankHistory& rank = history.ranks[i];
    const std::string number = std::to_string(rank.rank);
    const bool is_culprit = std::ranges::find(strips.attempt->culprits, rank.rank) != strips.attempt->culprits.end();
    html += "<div class=\"row" + std::string(is_culprit ? " culprit" : "") + "\" id=" + prefix + "rank-" + number +
            " data-rank=" + number + " data-node=\"" + html_text(rank.node) + "\"><div class=label><b>" + number +
            "</b> " + html_text(rank.node) + (is_culprit ? " <em>culprit</em>" : "") + "</div><div class=track>" +
            strip_svg(strips.columns[i], label_of(rank)) + stall_marks(*strips.attempt, rank.rank, length_of(history)) +
            "</div></div>\n";
  }
  return html + "</div>\n";
}

std::string legend() {
  std::string html = "<p class=legend>";
  constexpr std::array<std::pair<RankState, const char*>, 7> kTexts = {
      {{RankState::computing, "computing: runs the program"},
       {RankState::phase, "phase: data loading, evaluation and others"},
       {RankState::collective, "collective: all ranks have called it"},
       {RankState::waiting, "waiting: for ranks that have not called"},
       {RankState::stopped, "stopped: by a signal or a debugger"},
       {RankState::unknown, "unknown: nothing was seen"},
       {RankState::ended, "ended"}}};
  for (const auto& [state, text] : kTexts) {
    html += std::string("<span><i class=\"swatch ") + letter_of(state) + "\"></i>" + text + "</span>";
  }
  html += "<span><i class=\"swatch stalled\"></i>culprit of a stall</span>";
  return html + "</p>\n";
}

constexpr std::size_t kMostRows = 40;
constexpr int kLevels = 5;  // shades of the map

int level_of(std::uint8_t tenths) {
  return (tenths + 1) / 2;
}

// Draws the tenths as a row of shades.
std::string map_svg(const std::vector<std::uint8_t>& tenths, int columns, const std::string& label) {
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(std::max(columns, 1)) +
                    " 1\" preserveAspectRatio=none role=img aria-label=\"" + html_text(label) + "\">";
  for (int level = 1; level <= kLevels; ++level) {
    std::string path;
    for (std::size_t i = 0; i < tenths.size();) {
      std::size_t end = i + 1;
      while (end < tenths.size() && level_of(tenths[end]) == level_of(tenths[i])) ++end;
      if (level_of(tenths[i]) == level) {
        const std::string width = std::to_string(end - i);
        path += "M" + std::to_string(i) + " 0h" + width + "v1h-" + width + "z";
      }
      i = end;
    }
    if (!path.empty()) svg += "<path class=l" + std::to_string(level) + " d=\"" + path + "\"/>";
  }
  return svg + "</svg>";
}

}  // namespace

std::string axis_html(double seconds, bool is_narrow) {
  const int most_ticks = is_narrow ? 4 : 8;
  const double last = is_narrow ? 0.86 : 0.97;  // share of the axis, so that the text fits
  const double least = std::max(seconds, 1e-6) / most_ticks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  std::vector<double> steps = {power, 2 * power, 5 * power, 10 * power};
  // Longer steps are round in minutes and hours.
  if (least > 10) steps = {15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14'400, 28'800, 86'400};
  const auto found = std::ranges::lower_bound(steps, least);
  const double step = found == steps.end() ? power * 10 : *found;
  std::string html;
  for (int i = 0; i <= most_ticks && step * i < seconds * last; ++i) {
    html += "<span class=tick style=\"left:" + plain_number(100 * step * i / seconds) + "%\">" +
            seconds_text(step * i) + "</span>";
  }
  return html;
}

std::string strips_section(const RunRecord& run) {
  const std::vector<Strips> all = strips_of(run);
  if (all.empty()) return "";
  std::string html = "<section id=ranks class=card>\n<h2>What each rank did</h2>\n" + legend();
  html +=
      "<p class=\"tools js\"><label>Ranks <input id=filter type=search placeholder=\"0-7, node1\" "
      "aria-label=\"Show only these ranks or nodes\"></label> <output id=shown></output> <span class=zoom>"
      "<button type=button id=out aria-label=\"Zoom out\">−</button><button type=button id=in aria-label=\"Zoom in\">+"
      "</button><button type=button id=whole>Whole time</button></span></p>\n";
  for (const Strips& strips : all) {
    const bool is_last = &strips == &all.front();
    const bool is_only = run.attempts.size() == 1;
    const std::string title = "Attempt " + std::to_string(strips.attempt->number) + ", " +
                              seconds_text(strips.attempt->history->seconds) + ", " + result_text(*strips.attempt);
    if (is_only) {
      html += chart(strips, true);
    } else {
      html += std::string("<details") + (is_last ? " open" : "") + "><summary>" + html_text(title) + "</summary>\n" +
              chart(strips, is_last) + "</details>\n";
    }
    if (const int left_out = strips.attempt->history->left_out; left_out > 0) {
      html += "<p class=soft>" + base::counted(left_out, "more rank") + " not shown.</p>\n";
    }
  }
  const auto with_history =
      std::ranges::count_if(run.attempts, [](const auto& attempt) { return attempt.history.has_value(); });
  if (const auto left_out = with_history - static_cast<std::ptrdiff_t>(all.size()); left_out > 0) {
    html += "<p class=soft>Earlier attempts are left out, because the report would become too large.</p>\n";
  }
  return html + "</section>\n";
}

std::string waits_section(const RunRecord& run) {
  const AttemptRecord* const last = last_with_history(run);
  if (last == nullptr) return "";
  const AttemptHistory& history = *last->history;
  std::vector<const RankHistory*> ranks;
  for (const RankHistory& rank : history.ranks) {
    if (rank.waited_for_seconds > 0) ranks.push_back(&rank);
  }
  std::string html = "<section id=waits class=card>\n<h2>Ranks that others waited for</h2>\n";
  if (ranks.empty()) return html + "<p>No rank was seen that others waited for.</p>\n</section>\n";
  std::ranges::stable_sort(ranks,
                           [](const auto* a, const auto* b) { return a->waited_for_seconds > b->waited_for_seconds; });
  const double seconds = std::max(history.waited_for_column_seconds * history.waited_for_columns, 1e-6);
  html +=
      "<p class=legend>Other ranks had called a collective that this rank had not called. Share of the time: "
      "<span><i class=\"swatch l1\"></i>a little</span><span><i class=\"swatch l3\"></i>half</span><span><i "
      "class=\"swatch l5\">"
      "</i>all of it</span></p>\n<div class=\"chart waits zoomable\" tabindex=0 role=group aria-label=\"Ranks that "
      "others waited "
      "for, over time\" data-seconds=" +
      plain_number(seconds) + ">\n<div class=\"row axis\"><div class=label>time</div><div class=track>" +
      axis_html(seconds) + "</div></div>\n";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostRows); ++i) {
    const RankHistory& rank = *ranks[i];
    const std::string number = std::to_string(rank.rank);
    const std::string label = "others waited for rank " + number + " for " + seconds_text(rank.waited_for_seconds);
    html += "<div class=row data-rank=" + number + " data-node=\"" + html_text(rank.node) +
            "\"><div class=label><a href=\"#rank-" + number + "\"><b>" + number + "</b></a> " +
            seconds_text(rank.waited_for_seconds) + ", " + share_text(rank.waited_for_seconds, history.seconds) +
            "</div><div class=track>" +
            map_svg(read_tenths(rank.waited_for, static_cast<std::size_t>(history.waited_for_columns)),
                    history.waited_for_columns, label) +
            "</div></div>\n";
  }
  html += "</div>\n";
  if (ranks.size() > kMostRows) {
    html += "<p class=soft>" + base::counted(static_cast<std::int64_t>(ranks.size() - kMostRows), "rank") +
            " with shorter times: see <a href=\"#numbers\">the ranks in numbers</a>.</p>\n";
  }
  return html + "</section>\n";
}

}  // namespace ddp::launcher
