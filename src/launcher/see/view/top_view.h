// TopView contains how the user of `ddplaunch top` looks at a job: what is selected, sorted, filtered and opened.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/start/cli/choices.h"

namespace ddp::launcher {

// Says how the ranks are shown. `automatic` chooses the first of the others that fits on the screen.
enum class RankLayout : std::uint8_t { automatic, ranks, groups, map };

// Holds lines about one rank, which are shown instead of the table.
struct TextPane {
  std::string title;
  std::vector<std::string> lines;
  int scrolled = 0;          // lines from the shown part to the end (if `from_end`) or to the beginning
  bool is_from_end = false;  // the newest lines are shown
};

struct TopView {
  RankOrder order = RankOrder::automatic;
  RankLayout layout = RankLayout::automatic;
  std::string filter;      // text that a shown rank has in its node, state, GPU or collective, or a list of ranks
  bool is_typing = false;  // the user types the filter
  std::optional<int> selected;
  bool is_help_open = false;
  bool is_paused = false;
  std::string message;  // shown instead of the keys
  double age = 0;       // seconds since the snapshot was taken
  std::optional<TextPane> pane;
};

struct FrameSize {
  int columns = 80;
  int rows = 24;
};

// Says what the terminal can show. Without colours, marks and letters have the same meaning.
struct FrameStyle {
  bool has_colours = true;
  bool has_unicode = true;

  friend bool operator==(const FrameStyle&, const FrameStyle&) = default;
};

}  // namespace ddp::launcher
