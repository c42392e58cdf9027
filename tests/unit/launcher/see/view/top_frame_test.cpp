#include "launcher/see/view/top_frame.h"

#include <limits>
#include <sstream>

#include "base/text.h"
#include "launcher/see/view/styled_line.h"
#include "support/catch.h"
#include "support/golden.h"
#include "support/made_snapshot.h"

using namespace ddp::launcher;
using ddp::test::stall;
using ddp::test::training_job;

namespace {

constexpr FrameStyle kPlain{false, false};
constexpr FrameStyle kColours{true, true};

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Shows the escape character, so that a golden file can be read.
std::string visible(std::string text) {
  for (std::size_t at = 0; (at = text.find('\x1b', at)) != std::string::npos;) text.replace(at, 1, "^");
  return text;
}

// Returns the line without colours.
std::string without_colours(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain += line[i];
      continue;
    }
    i = line.find('m', i);
    REQUIRE(i != std::string::npos);
  }
  return plain;
}

JobSnapshot hanging_nodes() {
  JobSnapshot job = training_job(8, 4);
  stall(job, 5);
  return job;
}

// Makes a large job in which some ranks are slow in different ways, and one of them hangs.
JobSnapshot large_job(int ranks) {
  JobSnapshot job = training_job(ranks);
  stall(job, ranks / 2 + 1);
  for (RankRow& row : job.ranks) {
    if (row.rank % 97 == 5) row.waited_for = 0.05 + 0.009 * (row.rank % 89);
    if (row.rank % 7 == 0) row.waiting = 0.8;
  }
  job.ranks[17].state = RankState::stopped;
  for (int rank = 64; rank < 72; ++rank) job.ranks[static_cast<std::size_t>(rank)].state = RankState::ended;
  return job;
}

}  // namespace

TEST_CASE("the screens of a job on two nodes equal the golden files") {
  const JobSnapshot job = training_job(8, 4);
  check_golden("top_80x24.txt", text_of(top_frame(job, {}, {80, 24}, kPlain)));
  check_golden("top_200x60.txt", text_of(top_frame(job, {}, {200, 60}, kPlain)));
  check_golden("top_40x12.txt", text_of(top_frame(job, {}, {40, 12}, kPlain)));
  check_golden("top_20x5.txt", text_of(top_frame(job, {}, {20, 5}, kPlain)));
  check_golden("top_colours.txt", visible(text_of(top_frame(job, {}, {100, 16}, kColours))));
}

TEST_CASE("the screen shows from which process the workers are forked") {
  JobSnapshot job = training_job(2);
  const auto shows = [&] {
    return text_of(top_frame(job, {}, {200, 20}, kPlain)).find("forked from pid 4711") != std::string::npos;
  };
  CHECK_FALSE(shows());
  job.preloader_pid = 4711;
  CHECK(shows());
}

TEST_CASE("the screen shows the restart and the step from which it continues") {
  JobSnapshot job = training_job(2);
  const auto shows = [&](const std::string& text) {
    return text_of(top_frame(job, {}, {200, 60}, kPlain)).find(text) != std::string::npos;
  };
  job.attempt = 2;
  CHECK(shows("restart 2 of 3   "));
  job.restored_step = 1043;
  CHECK(shows("restart 2 of 3, from step 1043   "));
  job.attempt = 5;  // nodes were lost, which does not count
  CHECK(shows("restart 5, from step 1043   "));
}

TEST_CASE("the screens of a hanging job equal the golden files") {
  const JobSnapshot job = hanging_nodes();
  check_golden("top_stall_80x24.txt", text_of(top_frame(job, {}, {80, 24}, kPlain)));
  check_golden("top_stall_120x30.txt", text_of(top_frame(job, {}, {120, 30}, kPlain)));
  check_golden("top_stall_colours.txt", visible(text_of(top_frame(job, {}, {80, 24}, kColours))));
}

TEST_CASE("many ranks are shown in groups, or as a map with the worst ranks below it") {
  check_golden("top_groups_80x24.txt", text_of(top_frame(training_job(64), {}, {80, 24}, kPlain)));
  check_golden("top_map_80x24.txt", text_of(top_frame(large_job(4096), {}, {80, 24}, kPlain)));
  check_golden("top_map_200x60.txt", text_of(top_frame(large_job(4096), {}, {200, 60}, {false, true})));
  check_golden("top_map_colours.txt", visible(text_of(top_frame(large_job(1024), {}, {100, 30}, kColours))));
}

TEST_CASE("a screen fills its terminal and never exceeds it") {
  std::vector<TopView> views(5);
  views[1].is_help_open = true;
  views[2].pane = TextPane{"stacks of rank 3", std::vector<std::string>(100, std::string(300, 'x')), 0, true};
  views[3].is_typing = true;
  views[3].filter = std::string(100, 'f');
  views[4].is_paused = true;
  views[4].selected = 3;
  views[4].layout = RankLayout::map;
  JobSnapshot wide = hanging_nodes();
  wide.program = "训练.py --数据 " + std::string(300, 'y');
  wide.stall += std::string(300, 'z');
  for (RankRow& row : wide.ranks) {
    row.node = "节点" + std::to_string(row.rank);
    row.state = RankState::phase;
    row.phase = "评估评估评估评估评估评估";
    row.steps = UINT64_MAX;
    row.steps_per_second = 1e300;
  }
  for (const JobSnapshot& job : {JobSnapshot{}, hanging_nodes(), wide, large_job(300)}) {
    for (const TopView& view : views) {
      for (const FrameSize size :
           {FrameSize{80, 24}, {200, 60}, {40, 10}, {13, 5}, {1, 1}, {2, 3}, {500, 2}, {80, 8}, {81, 100}}) {
        for (const FrameStyle frame_style : {kPlain, kColours, FrameStyle{true, false}}) {
          CAPTURE(job.ranks.size(), size.columns, size.rows, frame_style.has_colours, view.is_help_open,
                  view.is_typing);
          const auto lines = top_frame(job, view, size, frame_style);
          REQUIRE(static_cast<int>(lines.size()) == size.rows);
          for (const std::string& line : lines) {
            const std::string plain = without_colours(line);
            CAPTURE(plain);
            REQUIRE(columns_of(plain) <= size.columns);
            REQUIRE(clean_text(plain) == plain);
          }
          const auto few = job_lines(job, view, size, frame_style);
          REQUIRE(static_cast<int>(few.size()) <= size.rows);
        }
      }
    }
  }
}

TEST_CASE("names from outside cannot act on the terminal") {
  JobSnapshot job = hanging_nodes();
  const std::string evil = "\x1b[2J\x1b]0;title\x07\r\n\t\xff";
  job.run_id = job.program = job.stall = evil;
  job.values = {{evil, 1}};
  for (RankRow& row : job.ranks) {
    row.node = evil + std::to_string(row.rank);
    row.state = RankState::phase;
    row.phase = row.gpu = row.collective_name = evil;
  }
  TopView view;
  view.filter = view.message = "";
  for (const std::string& line : top_frame(job, view, {200, 60}, kPlain)) CHECK(clean_text(line) == line);
  view.pane = TextPane{evil, {evil}, 0, false};
  for (const std::string& line : top_frame(job, view, {200, 60}, kPlain)) CHECK(clean_text(line) == line);
}

TEST_CASE("a loss that is not finite is shown as such and not as unknown") {
  JobSnapshot job = hanging_nodes();
  job.values = {{"loss", std::numeric_limits<double>::quiet_NaN()}};
  CHECK_THAT(text_of(top_frame(job, {}, {100, 24}, kPlain)), Catch::Contains("loss not finite"));
}

TEST_CASE("the culprit is listed first and marked, with and without colours") {
  JobSnapshot job = hanging_nodes();
  const auto shown = shown_ranks_of(job, {}, {80, 24});
  REQUIRE(shown.rows.size() == 8);
  CHECK(shown.rows[0].ranks == std::vector<int>{5});
  const auto plain = top_frame(job, {}, {80, 24}, kPlain);
  CHECK(std::ranges::count_if(plain, [](const std::string& line) { return line.starts_with(" ! "); }) == 1);
  const auto coloured = top_frame(job, {}, {80, 24}, kColours);
  CHECK(std::ranges::count_if(coloured, [](const std::string& line) { return line.starts_with(" \x1b[1;37;41m!"); }) ==
        1);
  for (const int rows : {4, 5, 6, 8, 24}) {
    CAPTURE(rows);
    CHECK_THAT(text_of(top_frame(job, {}, {60, rows}, kPlain)), Catch::Contains("! ") && Catch::Contains("5"));
  }
}

TEST_CASE("the culprit is in the map and in the first row below it") {
  const JobSnapshot job = large_job(4096);
  const auto shown = shown_ranks_of(job, {}, {80, 24});
  CHECK(shown.layout == RankLayout::map);
  REQUIRE(shown.rows.size() == 20);
  CHECK(shown.rows[0].ranks == std::vector<int>{2049});
  CHECK(shown.rows[1].ranks == std::vector<int>{17});  // it is stopped
}

TEST_CASE("the selected rank is always on the screen") {
  const JobSnapshot job = training_job(60);
  TopView view;
  view.layout = RankLayout::ranks;
  for (int rank = 0; rank < 60; ++rank) {
    view.selected = rank;
    const std::string text = text_of(top_frame(job, view, {80, 24}, kPlain));
    CAPTURE(text);
    CHECK_THAT(text, Catch::Contains("\n>" + std::string(rank < 10 ? 5 : 4, ' ') + std::to_string(rank) + " "));
  }
}

TEST_CASE("the last lines of the followed output are shown") {
  TopView view;
  view.pane = TextPane{"output of rank 3", {}, 0, true};
  for (int i = 0; i < 100; ++i) view.pane->lines.push_back("line " + std::to_string(i));
  std::string text = text_of(top_frame(training_job(8), view, {80, 24}, kPlain));
  CHECK_THAT(text, Catch::Contains("output of rank 3") && Catch::Contains("line 99\n"));
  view.pane->scrolled = 50;
  text = text_of(top_frame(training_job(8), view, {80, 24}, kPlain));
  CHECK_THAT(text, Catch::Contains("line 49\n") && !Catch::Contains("line 50\n"));
  view.pane->scrolled = 5000;
  text = text_of(top_frame(training_job(8), view, {80, 24}, kPlain));
  CHECK_THAT(text, Catch::Contains("line 0\n"));
}

TEST_CASE("a few lines below the output show the job and its worst ranks") {
  check_golden("top_live.txt", text_of(job_lines(large_job(512), {}, {80, 14}, kPlain)) + "---\n" +
                                   text_of(job_lines(training_job(4), {}, {80, 10}, kPlain)));
}
