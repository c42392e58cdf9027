// TopState contains what `ddplaunch top` shows, and press() says what a key does to it. They are pure.
#pragma once

#include <span>
#include <string>

#include "launcher/see/top/keys.h"
#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

struct TopState {
  JobSnapshot snapshot;
  TopView view;
  FrameSize size;
  int pane_rank = -1;  // rank that the pane is about; -1 if there is no pane
};

// Says what the caller has to do after a key.
enum class TopEffect : std::uint8_t {
  none,
  quit,
  take_stacks,    // of state.pane_rank
  follow_output,  // of state.pane_rank
  end_output,
  redraw,  // the terminal may show something else
};

TopEffect press(const Key& key, TopState& state);

// Shows the stacks, or more lines of the output, of a rank. Does nothing if the pane is about another one.
void show_stacks(TopState& state, int rank, std::span<const std::string> lines);
void add_output(TopState& state, int rank, std::span<const std::string> lines);

}  // namespace ddp::launcher
