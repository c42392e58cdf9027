#include "launcher/run/ranks/shown_ranks.h"

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

RankView rank_four() {
  RankView view;
  view.rank = 4;
  view.pid = 4711;
  view.page.is_written = true;
  view.page.writer = 4712;
  view.page.phase = RankPhase::evaluation;
  view.page.phase_name = "validation set";
  view.page.phase_place = "train.cpp:7";
  view.page.phase_since = 9'000'000'000;
  view.page.steps = 12;
  view.page.groups.push_back({"world", 4, 8, 1, 21, 21, 20, 3, 2, true, 5, 4, 3});
  view.page.groups[0].identity = ~std::uint64_t{0};
  view.page.groups[0].transfers = {{true, 3, 5, false, true, 77, "f32[8]", "pipeline.cpp:9"}};
  view.page.waiting_threads = 1;
  view.calls = {{{21, ~std::uint64_t{0}, 8'000'000'000, "all_reduce sum f32[8]", "bucket 0", "train.cpp:88"}}};
  view.process = ProcessSample{'S', 17, 3, "futex_wait"};
  view.activity = RankActivity{70s, 80s, true, Sign::io, 0.25};
  return view;
}

}  // namespace

TEST_CASE("the view of a rank is the same on another node with that node's clock") {
  const std::vector<RankView> ranks = {rank_four()};
  const auto seen = read_ranks(show_ranks(ranks, ShownCalls::all), "b", 2s);
  REQUIRE(seen.size() == 1);
  RankView expected = rank_four();
  expected.page.phase_since = 7'000'000'000;
  CHECK(seen[0].node == "b");
  CHECK(seen[0].rank == 4);
  CHECK(seen[0].pid == 4711);
  CHECK(seen[0].page == expected.page);
  CHECK(seen[0].process == expected.process);
  CHECK(seen[0].activity == expected.activity);
  REQUIRE(seen[0].calls.size() == 1);
  REQUIRE(seen[0].calls[0].size() == 1);
  CHECK(seen[0].calls[0][0].called_at == 6'000'000'000);
  CHECK(seen[0].calls[0][0].what == "all_reduce sum f32[8]");
  CHECK(seen[0].page.more_time_until == 0);  // 0 still means never
}

TEST_CASE("a rank view says whether the counters of a group are current") {
  RankView view = rank_four();
  view.page.groups.assign(3, view.page.groups[0]);
  view.page.groups[1].is_sampled = view.page.groups[2].is_sampled = true;
  view.page.groups[1].is_live = false;
  const auto groups = read_ranks(show_ranks(std::vector{view}, ShownCalls::all), "b", 0s).at(0).page.groups;
  REQUIRE(groups.size() == 3);
  CHECK((!groups[0].is_sampled && groups[0].is_live));
  CHECK((groups[1].is_sampled && !groups[1].is_live));
  CHECK((groups[2].is_sampled && groups[2].is_live));
}

TEST_CASE("a rank of another node is shown with its phase") {
  for (const RankPhase phase :
       {RankPhase::training, RankPhase::first_step, RankPhase::evaluation, RankPhase::unknown}) {
    RankView rank = rank_four();
    rank.page.phase = phase;
    const auto seen = read_ranks(show_ranks(std::vector{rank}, ShownCalls::all), "b", 0s);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].page.phase == phase);
  }
}

TEST_CASE("the waits found in stacks of PyTorch programs are sent, too") {
  RankView rank = rank_four();
  rank.is_torch = true;
  rank.page.groups[0].is_by_stack = true;
  const auto seen = read_ranks(show_ranks(std::vector{rank, rank_four()}, ShownCalls::all), "b", 0s);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].is_torch);
  CHECK(seen[0].page.groups[0].is_by_stack);
  CHECK_FALSE(seen[1].is_torch);
  CHECK_FALSE(seen[1].page.groups[0].is_by_stack);
}

TEST_CASE("the launch counts of NCCL are sent, too") {
  RankView rank = rank_four();
  rank.page.groups[0].is_sampled = true;
  rank.page.groups[0].launches = LaunchView{false, 7, 6, 2, false};
  const auto seen = read_ranks(show_ranks(std::vector{rank, rank_four()}, ShownCalls::all), "b", 0s);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].page.groups[0].launches == LaunchView{false, 7, 6, 2, false});
  CHECK_FALSE(seen[1].page.groups[0].launches);
}

TEST_CASE("times are shifted forward if the clock of the node is behind") {
  const auto seen = read_ranks(show_ranks(std::vector{rank_four()}, ShownCalls::all), "b", -3s);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].page.phase_since == 12'000'000'000);
}

TEST_CASE("a digest contains the numbers and fingerprints of the calls") {
  const auto seen = read_ranks(show_ranks(std::vector{rank_four()}, ShownCalls::digest), "b", 0s);
  REQUIRE(seen.size() == 1);
  REQUIRE(seen[0].calls.at(0).size() == 1);
  CHECK(seen[0].calls[0][0].sequence == 21);
  CHECK(seen[0].calls[0][0].fingerprint == ~std::uint64_t{0});
  CHECK(seen[0].calls[0][0].what.empty());
}

TEST_CASE("text that is not a list of ranks is rejected") {
  for (const std::string text : {"", "{", "7", "{}", "[7]", R"([{"rank":1}])", R"([{"rank":"x","pid":1}])", "null"}) {
    CAPTURE(text);
    CHECK(read_ranks(text, "b", 0s).empty());
    CHECK(read_evidence(text).empty());
  }
}

TEST_CASE("evidence arrives unchanged, and parts that are too long are left out with a note") {
  Evidence evidence;
  evidence.stacks.push_back({4, StackSource::py_spy, {{7, "main", {"f (a.py:1)", "g (a.py:2)"}}}, {"gdb: not found"}});
  evidence.sources.push_back({"flight recorder", "text", {"essence"}, {"missing"}});
  const Evidence seen = read_evidence(show_evidence(evidence, 4 << 20));
  REQUIRE(seen.stacks.size() == 1);
  CHECK(seen.stacks[0].threads == evidence.stacks[0].threads);
  CHECK(seen.stacks[0].source == StackSource::py_spy);
  CHECK(seen.stacks[0].missing == evidence.stacks[0].missing);
  CHECK(seen.sources == evidence.sources);
  evidence.stacks[0].threads[0].frames[0] = std::string(5 << 20, 'x');
  const std::string text = show_evidence(evidence, 4 << 20);
  CHECK(text.size() < 1 << 20);
  CHECK(read_evidence(text).stacks.at(0).missing.back() == "too large to send; the dump on its node has it");
}

TEST_CASE("the resource usage of a node's ranks is converted to the receiver's clock") {
  std::vector<RankView> ranks(3);
  ranks[0].rank = 4;
  ranks[0].usage = RankUsage{1.5, 4096, std::nullopt, 77, 12, 9'000'000'000};
  ranks[1].rank = 5;
  ranks[2].rank = 6;
  ranks[2].usage = RankUsage{};
  RankUsage expected = *ranks[0].usage;
  expected.printed_at = 7'000'000'000;
  CHECK(read_usage(show_usage(ranks), 2s) == std::map<int, RankUsage>{{4, expected}, {6, RankUsage{}}});
}

TEST_CASE("text that is not a usage report is ignored") {
  for (const char* text :
       {"", "x", "{}", "[1]", "[[]]", "[[\"a\",1,1,1,1,1,1]]", "[[4,1,1,1,1,1]]", "[[4,{},1,1,1,1,1]]"}) {
    CAPTURE(text);
    CHECK(read_usage(text, 0s).empty());
  }
}
