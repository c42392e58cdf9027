#include "launcher/see/view/heat_map.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/text.h"
#include "launcher/see/view/styled_line.h"
#include "launcher/see/view/text_columns.h"

namespace ddp::launcher {
namespace {

// Cells with at least this share have this look.
struct HeatLevel {
  double least;
  std::string_view unicode;
  std::string_view ascii;
  Style style;
  std::string_view name;
};

constexpr std::array kHeatLevels = {
    HeatLevel{0.50, "█", "#", Style::red, "50%"},   HeatLevel{0.25, "▓", "+", Style::yellow, "25%"},
    HeatLevel{0.10, "▒", "=", Style::green, "10%"}, HeatLevel{0.02, "░", "-", Style::plain, "2%"},
    HeatLevel{-1.0, "·", ".", Style::dim, "less"},
};

std::string_view glyph_of(const HeatLevel& level, FrameStyle frame_style) {
  return frame_style.has_unicode ? level.unicode : level.ascii;
}

struct HeatCell {
  std::string_view text;
  Style style;
};

HeatCell heat_cell_of(std::span<const RankGroup> block, FrameStyle frame_style) {
  double share = 0;
  bool has_stopped = false;
  bool has_running = false;
  for (const RankGroup& group : block) {
    if (group.is_culprit) return {"!", Style::culprit};
    has_stopped = has_stopped || group.figures.state == RankState::stopped;
    has_running = has_running || group.figures.state != RankState::ended;
    share = std::max(share, group.figures.waited_for);
  }
  if (has_stopped) return {"T", Style::alert};
  if (!has_running) return {"e", Style::dim};
  const auto* level = std::ranges::find_if(kHeatLevels, [&](const HeatLevel& each) { return share >= each.least; });
  return {glyph_of(*level, frame_style), level->style};
}

// Returns as much of the legend as fits.
std::string heat_legend(std::size_t block, int columns, FrameStyle frame_style) {
  StyledLine line(columns, frame_style);
  line.add(" a cell is " + (block == 1 ? "a rank" : std::to_string(block) + " ranks") + "; awaited:", Style::dim);
  int gap = 1;
  const auto add = [&](std::string_view glyph, Style style, std::string_view name) {
    if (gap + 2 + columns_of(name) > line.left()) return;
    line.spaces(gap).add(glyph, style).add(std::string(" ").append(name), Style::dim);
    gap = 2;
  };
  for (const HeatLevel& level : kHeatLevels) add(glyph_of(level, frame_style), level.style, level.name);
  add("!", Style::culprit, "culprit");
  add("T", Style::alert, "stopped");
  add("e", Style::dim, "ended");
  return line.text();
}

}  // namespace

std::vector<std::string> heat_map(std::span<const RankGroup> singles, FrameSize most, FrameStyle frame_style) {
  if (singles.empty() || most.rows < 2) return {};
  const int label = static_cast<int>(std::to_string(singles.back().ranks.front()).size());
  const auto space = static_cast<unsigned>(std::max(most.columns - label - 2, 1));
  const std::size_t per_line = std::bit_floor(space);
  const auto lines = static_cast<std::size_t>(most.rows - 1);
  std::size_t block = 1;
  while ((singles.size() + block - 1) / block > per_line * lines) block *= 2;

  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < singles.size(); begin += per_line * block) {
    StyledLine line(most.columns, frame_style);
    line.add(right_aligned(std::to_string(singles[begin].ranks.front()), label + 1), Style::dim).spaces(1);
    const std::size_t end = std::min(begin + per_line * block, singles.size());
    // Cells of the same look share one sequence of colours.
    std::string run;
    Style style = Style::plain;
    for (std::size_t at = begin; at < end; at += block) {
      const HeatCell cell = heat_cell_of(singles.subspan(at, std::min(block, end - at)), frame_style);
      if (cell.style != style) {
        line.add(run, style);
        run.clear();
        style = cell.style;
      }
      run += cell.text;
    }
    line.add(run, style);
    result.push_back(line.text());
  }
  result.push_back(heat_legend(block, most.columns, frame_style));
  return result;
}

}  // namespace ddp::launcher
