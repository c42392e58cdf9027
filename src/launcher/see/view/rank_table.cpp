#include "launcher/see/view/rank_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "launcher/see/view/short_figures.h"
#include "launcher/see/view/styled_line.h"

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

constexpr int kWideTable = 120;  // a terminal with these columns has space for figures beside the bars

// By RankState.
constexpr std::array<Style, kRankStates> kStyles = {Style::dim,     Style::green, Style::blue, Style::yellow,
                                                    Style::magenta, Style::alert, Style::dim};

struct TableCell {
  std::string text;
  Style style = Style::plain;
};

struct TableColumn {
  std::string title;
  int width = 0;
  int importance = 0;  // the columns with the lowest numbers are shown first
  bool is_left = false;
  bool takes_rest = false;
  std::function<TableCell(const RankGroup&)> cell;  // null for a bar
};

Style style_of(RankState state) {
  return kStyles.at(static_cast<std::size_t>(state));
}

std::string ranks_of(const RankGroup& group) {
  return base::short_rank_list(group.ranks);
}

TableCell mark_cell(const RankGroup& group) {
  if (group.is_culprit) return {"!", Style::culprit};
  return is_waited_for(group.figures) ? TableCell{"*", Style::yellow} : TableCell{" "};
}

TableCell state_cell(const RankGroup& group) {
  const RankRow& row = group.figures;
  const bool has_phase = row.state == RankState::phase && !row.phase.empty();
  return {has_phase ? clean_text(row.phase) : std::string(name_of(row.state)),
          group.is_culprit ? Style::red : style_of(row.state)};
}

TableCell awaited_cell(const RankGroup& group) {
  const RankRow& row = group.figures;
  const Style style = group.is_culprit ? Style::alert : is_waited_for(row) ? Style::yellow : Style::plain;
  return {row.waited_for > 0 ? short_percent(row.waited_for) : "-", style};
}

template <typename Value, typename Show>
TableCell optional_cell(const std::optional<Value>& value, Show show) {
  return {value ? show(static_cast<double>(*value)) : "-"};
}

// Returns the width of the widest of these texts, within bounds.
template <typename Text>
int widest(std::span<const RankGroup> groups, int least, int most, Text text) {
  int width = least;
  for (const RankGroup& group : groups) width = std::max(width, std::min(columns_of(text(group)), most));
  return width;
}

template <typename Test>
bool any(std::span<const RankGroup> groups, Test test) {
  return std::ranges::any_of(groups, [&](const RankGroup& group) { return test(group.figures); });
}

TableColumn share_column(const char* title, double RankRow::*share) {
  return {title, 5,     12,
          false, false, [share](const RankGroup& group) {
            return TableCell{short_percent(group.figures.*share)}; }};
}

// Returns all columns that these groups have a value for, in their order.
std::vector<TableColumn> columns_for(std::span<const RankGroup> groups, int columns) {
  const bool is_wide = columns >= kWideTable;
  std::vector<TableColumn> all;
  const auto add = [&](TableColumn column) { all.push_back(std::move(column)); };
  const auto node = [](const RankGroup& group) { return clean_text(group.figures.node); };
  const auto steps = [](const RankGroup& group) { return short_number(static_cast<double>(group.figures.steps)); };
  add({"", 1, 0, true, false, mark_cell});
  add({"RANK", widest(groups, 4, is_wide ? 24 : 12, ranks_of), 0, false, false, [](const RankGroup& group) {
         return TableCell{ranks_of(group), Style::bold};
       }});
  const bool has_nodes =
      !groups.empty() && any(groups, [&](const RankRow& row) { return row.node != groups[0].figures.node; });
  if (has_nodes) {
    add({"NODE", widest(groups, 4, is_wide ? 24 : 12, node), 6, true, false,
         [node](const RankGroup& group) { return TableCell{node(group)}; }});
  }
  const auto state = [](const RankGroup& group) { return state_cell(group).text; };
  add({"STATE", widest(groups, 10, is_wide ? 28 : 12, state), 0, true, false, state_cell});
  add({"STEP", widest(groups, 4, 9, steps), 2, false, false,
       [steps](const RankGroup& group) { return TableCell{steps(group)}; }});
  add({"STEPS/S", 7, 5, false, false,
       [](const RankGroup& group) { return TableCell{short_number(group.figures.steps_per_second)}; }});
  add({"AWAITED", 7, 3, false, false, awaited_cell});
  add({"TIME", is_wide ? 20 : 12, 4, true, false, nullptr});
  add(share_column("COMP", &RankRow::computing));
  add(share_column("COLL", &RankRow::collective));
  add(share_column("WAIT", &RankRow::waiting));
  add(share_column("PHASE", &RankRow::in_phase));
  add({"CALLED", 6, 7, false, false,
       [](const RankGroup& group) { return optional_cell(group.figures.collective_age, short_duration); }});
  add({"CPU", 4, 8, false, false,
       [](const RankGroup& group) { return optional_cell(group.figures.cpus, short_cpus); }});
  add({"RSS", 5, 9, false, false,
       [](const RankGroup& group) { return optional_cell(group.figures.rss_bytes, short_bytes); }});
  if (any(groups, [](const RankRow& row) { return row.gpu_use.has_value(); })) {
    add({"GPU", 4, 6, false, false,
         [](const RankGroup& group) { return optional_cell(group.figures.gpu_use, short_percent); }});
  }
  if (any(groups, [](const RankRow& row) { return row.gpu_memory_bytes.has_value(); })) {
    add({"GPUMEM", 6, 10, false, false,
         [](const RankGroup& group) { return optional_cell(group.figures.gpu_memory_bytes, short_bytes); }});
  }
  add({"OUTPUT", 6, 11, false, false,
       [](const RankGroup& group) { return optional_cell(group.figures.output_age, short_duration); }});
  if (any(groups, [](const RankRow& row) { return row.pid != 0; })) {
    add({"PID", 7, 14, false, false, [](const RankGroup& group) {
           return TableCell{group.figures.pid == 0 ? "-" : std::to_string(group.figures.pid)};
         }});
  }
  if (any(groups, [](const RankRow& row) { return !row.gpu.empty(); })) {
    const auto gpu = [](const RankGroup& group) { return clean_text(group.figures.gpu); };
    add({"ON", widest(groups, 2, 8, gpu), 15, false, false,
         [gpu](const RankGroup& group) { return TableCell{gpu(group)}; }});
  }
  if (any(groups, [](const RankRow& row) { return !row.collective_name.empty(); })) {
    add({"LAST COLLECTIVE", 15, 13, true, true,
         [](const RankGroup& group) { return TableCell{clean_text(group.figures.collective_name)}; }});
  }
  return all;
}

// Leaves the columns that fit, and gives the rest of the width to the column that can use it.
std::vector<TableColumn> fitting(std::vector<TableColumn> all, int columns, int gap) {
  std::vector<const TableColumn*> by_importance;
  for (const TableColumn& column : all) by_importance.push_back(&column);
  std::ranges::stable_sort(by_importance, {}, &TableColumn::importance);
  int left = columns + gap;
  std::vector<const TableColumn*> kept;
  for (const TableColumn* column : by_importance) {
    const bool is_needed = column->importance == 0;
    if (!is_needed && column->width + gap > left) continue;
    left -= column->width + gap;
    kept.push_back(column);
  }
  std::vector<TableColumn> result;
  for (const TableColumn& column : all) {
    if (std::ranges::find(kept, &column) == kept.end()) continue;
    result.push_back(column);
    if (column.takes_rest) result.back().width += std::max(left, 0);
  }
  return result;
}

// The whole bar of a culprit is red: what it does is the cause of the stall.
void add_bar(const RankGroup& group, int width, FrameStyle frame_style, StyledLine& line) {
  const RankRow& row = group.figures;
  struct Part {
    RankState state;
    char letter;  // shown without colours
    double share;
  };
  const std::array parts = {Part{RankState::computing, 'c', row.computing},
                            Part{RankState::collective, 'r', row.collective},
                            Part{RankState::waiting, 'w', row.waiting}, Part{RankState::phase, 'p', row.in_phase}};
  double sum = 0;
  int drawn = 0;
  for (const auto& [state, letter, share] : parts) {
    sum += std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
    const int end = std::min(static_cast<int>(std::round(sum * width)), width);
    std::string cells;
    for (; drawn < end; ++drawn)
      cells += frame_style.has_colours && frame_style.has_unicode ? "█" : std::string(1, letter);
    line.add(cells, group.is_culprit ? Style::red : style_of(state));
  }
  line.spaces(width - drawn);
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

std::vector<std::string> rank_table(std::span<const RankGroup> groups, std::optional<int> selected, int columns,
                                    FrameStyle frame_style) {
  const int gap = columns >= kWideTable ? 2 : 1;
  const std::vector<TableColumn> shown_columns = fitting(columns_for(groups, columns), columns - 1, gap);
  std::vector<std::string> lines;
  StyledLine titles(columns, frame_style);
  titles.spaces(1);
  for (const TableColumn& column : shown_columns) {
    const auto aligned = column.is_left ? left_aligned : right_aligned;
    if (&column != shown_columns.data()) titles.spaces(gap);
    titles.add(aligned(column.title, column.width), Style::dim);
  }
  lines.push_back(titles.text());
  for (const RankGroup& group : groups) {
    const bool is_selected = selected && std::ranges::binary_search(group.ranks, *selected);
    StyledLine line(columns, frame_style);
    line.add(is_selected ? ">" : " ");
    for (const TableColumn& column : shown_columns) {
      if (&column != shown_columns.data()) line.spaces(gap);
      if (!column.cell) {
        // In a selected line, all cells have the same colour.
        add_bar(group, column.width, {frame_style.has_colours, frame_style.has_unicode && !is_selected}, line);
        continue;
      }
      const TableCell cell = column.cell(group);
      const auto aligned = column.is_left ? left_aligned : right_aligned;
      line.add(aligned(cell.text, column.width), cell.style);
    }
    lines.push_back(is_selected ? line.selected() : line.text());
  }
  return lines;
}

}  // namespace ddp::launcher
