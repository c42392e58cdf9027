#include "launcher/see/top/top_state.h"

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/made_snapshot.h"

using namespace ddp::launcher;
using Kind = Key::Kind;

namespace {

TopState state_of(JobSnapshot job) {
  TopState state;
  state.snapshot = std::move(job);
  return state;
}

TopEffect type(TopState& state, std::string_view letters) {
  TopEffect last = TopEffect::none;
  for (const char letter : letters) last = press({Kind::text, std::string(1, letter)}, state);
  return last;
}

}  // namespace

TEST_CASE("letter keys quit, pause, sort and choose the layout") {
  TopState state = state_of(ddp::test::training_job(8));
  CHECK(type(state, "q") == TopEffect::quit);
  type(state, "p");
  CHECK(state.view.is_paused);
  type(state, "p");
  CHECK_FALSE(state.view.is_paused);
  type(state, "s");
  CHECK(state.view.order == RankOrder::rank);
  type(state, "SS");
  CHECK(state.view.order == RankOrder::output);
  type(state, "vv");
  CHECK(state.view.layout == RankLayout::groups);
  type(state, "vv");
  CHECK(state.view.layout == RankLayout::automatic);
  type(state, "h");
  CHECK(state.view.is_help_open);
  CHECK(type(state, "q") == TopEffect::quit);
  type(state, "x");
  CHECK_FALSE(state.view.is_help_open);
  CHECK(press({Kind::redraw, ""}, state) == TopEffect::redraw);
}

TEST_CASE("a filter can be typed, corrected and cleared") {
  TopState state = state_of(ddp::test::training_job(8));
  type(state, "/qx");
  CHECK(state.view.is_typing);
  CHECK(state.view.filter == "qx");
  press({Kind::text, "节"}, state);
  press({Kind::backspace, ""}, state);
  press({Kind::backspace, ""}, state);
  CHECK(state.view.filter == "q");
  press({Kind::enter, ""}, state);
  CHECK_FALSE(state.view.is_typing);
  CHECK(state.view.filter == "q");
  press({Kind::escape, ""}, state);
  CHECK(state.view.filter.empty());
  type(state, "/abc");
  press({Kind::escape, ""}, state);
  CHECK(state.view.filter.empty());
  CHECK_FALSE(state.view.is_typing);
  type(state, "/" + std::string(1000, 'x'));
  CHECK(state.view.filter.size() == 80);
}

TEST_CASE("selecting moves through the ranks in the order of the screen") {
  TopState state = state_of(ddp::test::training_job(8));
  ddp::test::stall(state.snapshot, 5);
  const auto selected = [&](Kind kind) {
    press({kind, ""}, state);
    return state.view.selected.value_or(-1);
  };
  CHECK(selected(Kind::down) == 5);
  CHECK(selected(Kind::down) == 0);
  CHECK(selected(Kind::down) == 1);
  CHECK(selected(Kind::up) == 0);
  CHECK(selected(Kind::end) == 7);
  CHECK(selected(Kind::down) == 7);
  CHECK(selected(Kind::home) == 5);
  CHECK(selected(Kind::page_down) == 7);
  CHECK(selected(Kind::page_up) == 5);
  press({Kind::escape, ""}, state);
  CHECK_FALSE(state.view.selected);
}

TEST_CASE("stacks are requested for the selected rank, or for the first one on the screen") {
  TopState state = state_of(ddp::test::training_job(8));
  ddp::test::stall(state.snapshot, 5);
  CHECK(type(state, "t") == TopEffect::take_stacks);
  CHECK(state.pane_rank == 5);
  show_stacks(state, 4, std::vector<std::string>{"another rank"});
  CHECK(state.view.pane->lines.empty());
  show_stacks(state, 5, std::vector<std::string>{"a", "b"});
  CHECK(state.view.pane->lines == std::vector<std::string>{"a", "b"});
  CHECK(state.view.pane->title == "stacks of rank 5");
  CHECK(press({Kind::escape, ""}, state) == TopEffect::none);
  CHECK_FALSE(state.view.pane);

  press({Kind::down, ""}, state);
  press({Kind::down, ""}, state);
  CHECK(press({Kind::enter, ""}, state) == TopEffect::take_stacks);
  CHECK(state.pane_rank == 0);
  show_stacks(state, 0, std::vector<std::string>(ddp::limits::kTopLines + 5, "x"));
  CHECK(state.view.pane->lines.size() == ddp::limits::kTopLines + 1);
  show_stacks(state, 0, {});
  CHECK(state.view.pane->lines == std::vector<std::string>{"no stacks could be taken"});
}

TEST_CASE("output is followed until the pane is closed, and only its last lines are kept") {
  TopState state = state_of(ddp::test::training_job(8));
  state.view.selected = 3;
  CHECK(type(state, "f") == TopEffect::follow_output);
  CHECK(state.pane_rank == 3);
  add_output(state, 2, std::vector<std::string>{"another rank"});
  CHECK(state.view.pane->lines.empty());
  add_output(state, 3, std::vector<std::string>{"one", "two"});
  CHECK(state.view.pane->lines.size() == 2);
  // The user scrolls back, and keeps seeing the same lines.
  press({Kind::up, ""}, state);
  CHECK(state.view.pane->scrolled == 1);
  add_output(state, 3, std::vector<std::string>{"three"});
  CHECK(state.view.pane->scrolled == 2);
  press({Kind::end, ""}, state);
  CHECK(state.view.pane->scrolled == 0);
  add_output(state, 3, std::vector<std::string>(ddp::limits::kTopLines, "more"));
  CHECK(state.view.pane->lines.size() == ddp::limits::kTopLines);
  CHECK(state.view.pane->lines.front() == "more");
  press({Kind::home, ""}, state);
  add_output(state, 3, std::vector<std::string>(100, "more"));
  CHECK(state.view.pane->scrolled <= static_cast<int>(ddp::limits::kTopLines));
  CHECK(press({Kind::escape, ""}, state) == TopEffect::end_output);
  add_output(state, 3, std::vector<std::string>{"late"});
  CHECK_FALSE(state.view.pane);
}

TEST_CASE("keys of ddplaunch top have no effect in a job without ranks") {
  TopState state = state_of({});
  for (const Kind kind : {Kind::up, Kind::down, Kind::page_up, Kind::page_down, Kind::home, Kind::end, Kind::enter}) {
    CHECK(press({kind, ""}, state) == TopEffect::none);
  }
  CHECK(type(state, "tf") == TopEffect::none);
  CHECK_FALSE(state.view.pane);
}
