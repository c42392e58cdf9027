#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"
#include "launcher/see/view/strip_text.h"

namespace ddp::launcher {
namespace {

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
