#include "launcher/run/watchdog/watchdog.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "launcher/run/ranks/shown_ranks.h"
#include "support/catch.h"
#include "support/no_processes.h"
#include "support/recording_channel.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;

namespace {

// Simulates two workers whose pages the test writes.
class Pages : public RankProbe {
 public:
  bool sample(int local_rank, SampleDepth, RankView& view) override {
    const bool is_new = view.version != ranks[static_cast<std::size_t>(local_rank)].version;
    view = ranks[static_cast<std::size_t>(local_rank)];
    return is_new;
  }

  std::vector<RankView> ranks;
};

class Sink : public RankSink {
 public:
  void add(const Picture& picture) override {
    if (picture.has_news) {
      samples.push_back(picture.ranks.size());
    } else {
      ++old_samples;
    }
    if (on_sample) on_sample(picture);
  }
  void add_records(const RankRecords&) override {}
  bool wants_processes() const override { return wants; }
  bool wants_records() const override { return false; }

  std::vector<std::size_t> samples;  // the number of ranks of each
  int old_samples = 0;
  bool wants = false;
  std::function<void(const Picture&)> on_sample;
};

RankView rank(int number, std::uint64_t fingerprint, int size) {
  RankView view;
  view.rank = number;
  view.pid = 100 + number;
  view.version = 1;
  view.page.is_written = true;
  view.page.groups.push_back({"world", number, size, 0, 7, 7, 6, 0, 0});
  view.calls = {{{7, fingerprint, 1, "barrier", "", "train.cpp:" + std::to_string(fingerprint)}}};
  return view;
}

struct Rig {
  explicit Rig(int nodes, bool is_coordinator = true, const HangPlan& hang = {}) : channel(is_coordinator) {
    plan.workers = 2;
    plan.hang = hang;
    place.node_count = nodes;
    place.world_size = 2 * nodes;
    for (int i = 0; i < 2; ++i) probe.ranks.push_back(rank(i, 5, place.world_size));
    channel.on_shown = [this] { loop.stop(); };
    exchange.begin(channel, place);
    const auto news = [this](const HangNews& item) {
      reported.push_back(item);
      loop.stop();
    };
    watchdog =
        make_watchdog({loop, processes, probe, output, plan, exchange, [](const LogLine&) {}, news, &sink}, place);
    for (int i = 0; i < 2; ++i) watchdog->started(i, {});
  }

  // Waits until something is reported or shown.
  void waits() {
    const auto timer = loop.at(std::chrono::steady_clock::now() + 20s, [this] { loop.stop(); });
    loop.run();
  }
  void other_node_shows(const std::vector<RankView>& ranks) {
    exchange.shown({7, "b", 0s, wire::Subject::ranks, show_ranks(ranks, ShownCalls::all)});
  }

  net::EventLoop loop;
  NoProcesses processes;
  Pages probe;
  LaunchPlan plan;
  Sink sink;
  Placement place;
  OutputPump output{loop, {}, {}};
  RecordingChannel channel;
  RankExchange exchange;
  std::vector<HangNews> reported;
  std::unique_ptr<Watchdog> watchdog;
};

}  // namespace

TEST_CASE("the coordinator finds differing calls on two nodes and ends the job once") {
  Rig rig(2);
  rig.watchdog->begin();
  rig.other_node_shows({rank(2, 6, 4), rank(3, 5, 4)});
  rig.waits();
  REQUIRE(rig.reported.size() == 1);
  CHECK(rig.reported[0].kind == Kind::hung);
  CHECK(rig.reported[0].ends_job);
  CHECK(rig.reported[0].verdict.culprits == std::vector{2});
  CHECK(rig.reported[0].judgement.hang_class == HangClass::certain);
}

TEST_CASE("the views get the samples of all nodes, even without hang detection") {
  HangPlan off;
  off.timeout = 0ms;
  Rig rig(2, /*is_coordinator=*/true, off);
  rig.other_node_shows({rank(2, 6, 4), rank(3, 5, 4)});
  rig.sink.on_sample = [&rig](const Picture&) {
    if (rig.sink.old_samples > 0) rig.loop.stop();
  };
  rig.watchdog->begin();
  rig.waits();
  CHECK(rig.sink.samples == std::vector<std::size_t>{4});
  CHECK(rig.sink.old_samples > 0);
  CHECK(rig.reported.empty());
}

TEST_CASE("a rank report is answered at the latest when the ranks have exited") {
  Rig rig(1);
  std::vector<HangNews> seen;
  const auto take_stacks = [&] {
    rig.watchdog->take_stacks([&](const HangNews& news) {
      seen.push_back(news);
      rig.loop.stop();
    });
  };
  rig.watchdog->begin();
  take_stacks();
  rig.waits();
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].ranks.size() == 2);
  CHECK(seen[0].evidence.stacks.size() == 2);
  take_stacks();
  rig.watchdog->finish();
  CHECK(seen.size() == 2);
  take_stacks();
  CHECK(seen.size() == 3);
  CHECK(rig.reported.empty());
}

TEST_CASE("hangs are not judged while the workers are being terminated") {
  Rig rig(2);
  rig.watchdog->begin();
  rig.watchdog->end();
  rig.other_node_shows({rank(2, 6, 4), rank(3, 5, 4)});
  const auto timer =
      rig.loop.at(std::chrono::steady_clock::now() + 4 * limits::kHangSampleInterval, [&] { rig.loop.stop(); });
  rig.loop.run();
  CHECK(rig.reported.empty());
}

TEST_CASE("the calls of ranks are compared again after all have exited if the plan ends jobs for mismatches") {
  Rig rig(2);
  rig.watchdog->finish();
  CHECK_FALSE(rig.watchdog->late_difference());
  rig.other_node_shows({rank(2, 6, 4), rank(3, 5, 4)});
  REQUIRE(rig.watchdog->late_difference());
  CHECK(rig.watchdog->late_difference()->verdict.culprits == std::vector{2});
  rig.plan.hang.action = HangAction::warn;
  CHECK_FALSE(rig.watchdog->late_difference());
}

TEST_CASE("other nodes send their ranks to the coordinator and do not search for mismatches") {
  Rig rig(2, /*is_coordinator=*/false);
  rig.watchdog->begin();
  rig.waits();
  REQUIRE(rig.channel.shown.size() == 1);
  CHECK(rig.channel.shown[0].first == wire::Subject::ranks);
  CHECK_FALSE(rig.watchdog->late_difference());
  rig.watchdog->show_calls();
  CHECK(rig.channel.shown.size() == 2);
  rig.exchange.on_asked(wire::Subject::ranks);
  CHECK(rig.channel.shown.size() == 3);
  rig.watchdog->finish();
  CHECK_FALSE(rig.exchange.on_asked);
}

TEST_CASE("a request for the state of the ranks is answered at the latest at the end of the job") {
  Rig rig(1);
  rig.watchdog->begin();
  rig.watchdog->asked();
  rig.watchdog->end();
  REQUIRE(rig.reported.size() == 1);
  CHECK(rig.reported[0].kind == Kind::asked);
  CHECK(rig.reported[0].ranks.size() == 2);
}

TEST_CASE("the watchdog's last sample of the ranks decides whether the attempt made progress") {
  Rig rig(1);
  CHECK(rig.watchdog->finish().progress == wire::Progress::none);
  Rig other(1);
  other.probe.ranks[1].page.steps = 3;
  CHECK(other.watchdog->finish().progress == wire::Progress::some);
}

TEST_CASE("a worker that was not started in this attempt has made no progress in it") {
  Rig rig(1);
  rig.probe.ranks[1].page.steps = 3;  // this page is of the previous attempt
  const auto next =
      make_watchdog({rig.loop, rig.processes, rig.probe, rig.output, rig.plan, rig.exchange, {}, {}}, rig.place);
  next->started(0, {});
  CHECK(next->finish().progress == wire::Progress::none);
}

TEST_CASE("a view gets the resource usage of all ranks even if nothing else has changed") {
  Rig rig(2);
  rig.sink.wants = true;
  rig.sink.on_sample = [&](const Picture& picture) {
    if (!picture.has_news || picture.ranks.size() < 4 || rig.sink.old_samples == 0) return;
    if (picture.ranks[0].usage && picture.ranks[3].usage) rig.loop.stop();
  };
  rig.watchdog->begin();
  std::vector<RankView> others = {rank(2, 5, 4), rank(3, 5, 4)};
  rig.other_node_shows(others);
  others[1].usage.emplace().rss_bytes = 4096;
  rig.exchange.shown({7, "b", 0s, wire::Subject::usage, show_usage(others)});
  rig.waits();
  CHECK(rig.sink.old_samples > 0);
  CHECK(rig.channel.asked == std::vector{wire::Subject::usage});
}

TEST_CASE("resource usage is not measured without a view") {
  Rig rig(2);
  bool has_usage = false;
  rig.sink.on_sample = [&](const Picture& picture) {
    for (const RankView& view : picture.ranks) has_usage = has_usage || view.usage;
    if (rig.sink.old_samples > 3) rig.loop.stop();
  };
  rig.watchdog->begin();
  rig.waits();
  CHECK_FALSE(has_usage);
  CHECK(std::ranges::find(rig.channel.asked, wire::Subject::usage) == rig.channel.asked.end());
}

TEST_CASE("another node sends its ranks' resource usage on request") {
  Rig rig(2, /*is_coordinator=*/false);
  rig.watchdog->begin();
  rig.exchange.on_asked(wire::Subject::usage);
  REQUIRE(rig.channel.shown.size() == 1);
  CHECK(rig.channel.shown[0].first == wire::Subject::usage);
  CHECK(read_usage(rig.channel.shown[0].second, 0s).size() == 2);
}
