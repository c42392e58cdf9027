#include "launcher/run/watchdog/hang_evidence.h"

#include <chrono>
#include <string>
#include <vector>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;

namespace {

// Simulates two workers that have ended. Their stacks are gone, which takes a moment to find out.
class Gone : public RankProbe {
 public:
  StackRequest ask_for_stacks(int, StackMeans means) override {
    asked.push_back(means);
    return {"it has exited", 0, {}, 0};
  }

  std::vector<StackMeans> asked;
};

struct Rig {
  explicit Rig(HangAction action = HangAction::kill)
      : evidence({loop, probe, 2, 4, action, nullptr,
                  [this](const HangNews& news) {
                    reported.push_back(news);
                    loop.stop();
                  },
                  [] {
                    HangNews news;
                    news.kind = Kind::asked;
                    return news;
                  },
                  [this] { ++disturbed; }}) {}

  void considers(Kind kind, VerdictKind verdict = VerdictKind::not_called) {
    HangNews news;
    news.kind = kind;
    news.verdict.kind = verdict;
    evidence.consider(news);
  }
  // Waits until `count` news have been reported.
  void waits(std::size_t count) {
    if (reported.size() >= count) return;
    const auto timer = loop.at(std::chrono::steady_clock::now() + 20s, [this] { loop.stop(); });
    loop.run();
  }
  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds;
    for (const HangNews& news : reported) kinds.push_back(news.kind);
    return kinds;
  }

  net::EventLoop loop;
  Gone probe;
  std::vector<HangNews> reported;
  int disturbed = 0;
  HangEvidence evidence;
};

}  // namespace

TEST_CASE("a note has stacks taken without disturbance, and the final report has all evidence") {
  Rig rig;
  rig.considers(Kind::stalled);
  CHECK(rig.reported.empty());
  rig.waits(1);
  REQUIRE(rig.kinds() == std::vector{Kind::stalled});
  REQUIRE(rig.reported[0].evidence.stacks.size() == 2);
  CHECK(rig.reported[0].evidence.stacks[1].rank == 5);
  CHECK(rig.disturbed == 0);
  rig.considers(Kind::hung);
  rig.waits(2);
  CHECK(rig.reported.back().kind == Kind::hung);
  CHECK(rig.probe.asked == std::vector{StackMeans::gentle, StackMeans::gentle, StackMeans::any, StackMeans::any});
  CHECK(rig.disturbed == 1);
  // Nothing has changed since then.
  rig.considers(Kind::hung);
  REQUIRE(rig.reported.size() == 3);
  CHECK(rig.reported[2].evidence.stacks.size() == 2);
  CHECK(rig.probe.asked.size() == 4);
}

TEST_CASE("a status request takes stacks without disturbing the program") {
  Rig rig;
  rig.evidence.asked(wire::Subject::stacks);
  CHECK(rig.evidence.is_taking());
  rig.waits(1);
  CHECK_FALSE(rig.evidence.is_taking());
  REQUIRE(rig.kinds() == std::vector{Kind::asked});
  CHECK(rig.reported[0].evidence.stacks.size() == 2);
  CHECK(rig.probe.asked == std::vector{StackMeans::gentle, StackMeans::gentle});
  CHECK(rig.disturbed == 0);
}

TEST_CASE("a stall that was never reported needs no end message") {
  Rig rig;
  rig.considers(Kind::stalled);
  rig.considers(Kind::goes_on);
  CHECK(rig.reported.empty());
  rig.considers(Kind::stalled);
  rig.waits(1);
  rig.considers(Kind::warned);
  rig.considers(Kind::goes_on);
  CHECK(rig.kinds() == std::vector{Kind::stalled, Kind::goes_on});
}

TEST_CASE("the final report replaces a waiting note and has all evidence") {
  Rig rig;
  rig.considers(Kind::stalled);
  rig.considers(Kind::hung);
  rig.waits(1);
  CHECK(rig.kinds() == std::vector{Kind::hung});
  CHECK(rig.probe.asked.back() == StackMeans::any);
}

TEST_CASE("a requested report is given even if another one waits") {
  Rig rig;
  rig.considers(Kind::stalled);
  rig.evidence.asked();
  rig.considers(Kind::stalled);  // this is another stall, so it is reported immediately
  rig.waits(2);
  CHECK(rig.kinds() == std::vector{Kind::stalled, Kind::asked});
  rig.considers(Kind::stalled);
  rig.evidence.asked();
  rig.evidence.end();
  REQUIRE(rig.reported.size() == 3);
  CHECK(rig.reported[2].kind == Kind::asked);
  CHECK(rig.reported[2].evidence.empty());
}

TEST_CASE("no evidence is taken for warnings alone or for a stopped rank") {
  Rig rig(HangAction::warn);
  for (const Kind kind : {Kind::stalled, Kind::warned, Kind::hung}) rig.considers(kind);
  CHECK(rig.reported.size() == 3);
  Rig other;
  other.considers(Kind::stalled, VerdictKind::stopped);
  CHECK(other.reported.size() == 1);
  CHECK(other.probe.asked.empty());
}
