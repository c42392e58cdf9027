#include "launcher/see/top/top_state.h"

#include <algorithm>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/see/view/top_frame.h"

namespace ddp::launcher {
namespace {

using Kind = Key::Kind;

constexpr std::size_t kLongestFilter = 80;

template <typename Choice>
void step_through(Choice& choice, int count, int by) {
  choice = static_cast<Choice>((static_cast<int>(choice) + by + count) % count);
}

int count_of_orders() {
  return static_cast<int>(base::split(kNamesOf<RankOrder>, ' ').size());
}

void remove_last_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

void type_filter(const Key& key, TopView& view) {
  if (key.kind == Kind::text && view.filter.size() < kLongestFilter) view.filter += key.text;
  if (key.kind == Kind::backspace) remove_last_character(view.filter);
  if (key.kind == Kind::escape) view.filter.clear();
  if (key.kind == Kind::enter || key.kind == Kind::escape) view.is_typing = false;
}

struct Movement {
  Kind key;
  int lines;
  int pages;
};
constexpr int kEverything = 1 << 24;  // lines
constexpr Movement kMovements[] = {{Kind::up, -1, 0},
                                   {Kind::down, 1, 0},
                                   {Kind::page_up, 0, -1},
                                   {Kind::page_down, 0, 1},
                                   {Kind::home, -kEverything, 0},
                                   {Kind::end, kEverything, 0}};

// Returns by how many lines a key moves, or 0 if it is no key of movement.
int movement_of(Kind kind, int page) {
  const auto* movement = std::ranges::find(kMovements, kind, &Movement::key);
  return movement == std::end(kMovements) ? 0 : movement->lines + movement->pages * page;
}

void scroll(TextPane& pane, int lines) {
  const int most = static_cast<int>(pane.lines.size());
  pane.scrolled = std::clamp(pane.scrolled + (pane.is_from_end ? -lines : lines), 0, most);
}

// Returns the place of the selected rank, or -1.
int place_of_selected(const ShownRanks& shown, const TopView& view) {
  const auto at = std::ranges::find_if(shown.rows, [&](const RankGroup& row) {
    return view.selected && std::ranges::binary_search(row.ranks, *view.selected);
  });
  return at == shown.rows.end() ? -1 : static_cast<int>(at - shown.rows.begin());
}

void select(TopState& state, int lines) {
  const ShownRanks shown = shown_ranks_of(state.snapshot, state.view, state.size);
  if (shown.rows.empty()) return;
  const int place = place_of_selected(shown, state.view);
  // The first step of a user selects the first row.
  const int wanted = place < 0 && lines == 1 ? 0 : std::max(place, 0) + lines;
  const int last = static_cast<int>(shown.rows.size()) - 1;
  state.view.selected = shown.rows[static_cast<std::size_t>(std::clamp(wanted, 0, last))].ranks.front();
}

// Opens a pane about the selected rank, or about the first one that is shown.
TopEffect open_pane(TopState& state, TopEffect effect) {
  const ShownRanks shown = shown_ranks_of(state.snapshot, state.view, state.size);
  if (shown.rows.empty()) return TopEffect::none;
  const int place = std::max(place_of_selected(shown, state.view), 0);
  const auto& ranks = shown.rows[static_cast<std::size_t>(place)].ranks;
  const bool has_selected = state.view.selected && std::ranges::binary_search(ranks, *state.view.selected);
  state.pane_rank = has_selected ? *state.view.selected : ranks.front();
  const bool is_output = effect == TopEffect::follow_output;
  const std::string rank = "rank " + std::to_string(state.pane_rank);
  state.view.pane = TextPane{
      (is_output ? "output of " : "stacks of ") + rank + (is_output ? "" : ": taking them ..."), {}, 0, is_output};
  return effect;
}

TopEffect close_pane(TopState& state) {
  const bool was_output = state.view.pane && state.view.pane->is_from_end;
  state.view.pane.reset();
  state.view.is_help_open = false;
  state.pane_rank = -1;
  return was_output ? TopEffect::end_output : TopEffect::none;
}

TopEffect press_letter(char letter, TopState& state) {
  TopView& view = state.view;
  if (letter == 's') step_through(view.order, count_of_orders(), 1);
  if (letter == 'S') step_through(view.order, count_of_orders(), -1);
  if (letter == 'v') step_through(view.layout, 4, 1);
  if (letter == 'p') view.is_paused = !view.is_paused;
  if (letter == 'h' || letter == '?') view.is_help_open = true;
  if (letter == '/') view.is_typing = true;
  if (letter == 't') return open_pane(state, TopEffect::take_stacks);
  return letter == 'f' ? open_pane(state, TopEffect::follow_output) : TopEffect::none;
}

}  // namespace

TopEffect press(const Key& key, TopState& state) {
  TopView& view = state.view;
  view.message.clear();
  if (key.kind == Kind::redraw) return TopEffect::redraw;
  if (view.is_typing) {
    type_filter(key, view);
    return TopEffect::none;
  }
  if (key.kind == Kind::text && key.text == "q") return TopEffect::quit;
  const bool is_open = view.pane || view.is_help_open;
  if (key.kind == Kind::escape || (key.kind == Kind::backspace && is_open)) {
    if (is_open) return close_pane(state);
    view.filter.clear();
    view.selected.reset();
    return TopEffect::none;
  }
  if (const int lines = movement_of(key.kind, page_of(state.snapshot, state.size)); lines != 0) {
    if (view.pane) {
      scroll(*view.pane, lines);
    } else {
      select(state, lines);
    }
    return TopEffect::none;
  }
  if (is_open) return view.is_help_open ? close_pane(state) : TopEffect::none;
  if (key.kind == Kind::enter) return open_pane(state, TopEffect::take_stacks);
  return key.kind == Kind::text && key.text.size() == 1 ? press_letter(key.text[0], state) : TopEffect::none;
}

void show_stacks(TopState& state, int rank, std::span<const std::string> lines) {
  if (!state.view.pane || state.view.pane->is_from_end || state.pane_rank != rank) return;
  TextPane& pane = *state.view.pane;
  pane.title = "stacks of rank " + std::to_string(rank);
  pane.lines.assign(lines.begin(),
                    lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), limits::kTopLines)));
  if (lines.size() > limits::kTopLines) pane.lines.emplace_back("... (more lines are not shown)");
  if (lines.empty()) pane.lines.emplace_back("no stacks could be taken");
}

void add_output(TopState& state, int rank, std::span<const std::string> lines) {
  if (!state.view.pane || !state.view.pane->is_from_end || state.pane_rank != rank) return;
  TextPane& pane = *state.view.pane;
  for (const std::string& line : lines) pane.lines.push_back(base::printable(line, limits::kViewRequestBytes));
  // A user who has scrolled back keeps seeing the same lines.
  if (pane.scrolled > 0) pane.scrolled += static_cast<int>(lines.size());
  if (pane.lines.size() > limits::kTopLines) {
    pane.lines.erase(pane.lines.begin(), pane.lines.end() - static_cast<std::ptrdiff_t>(limits::kTopLines));
  }
  pane.scrolled = std::min(pane.scrolled, static_cast<int>(pane.lines.size()));
}

}  // namespace ddp::launcher
