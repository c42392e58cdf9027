// HangDetector: when a job that does not go on has waited long enough. Looks and times in, news out; no clock.
// docs/decisions/0019-what-counts-as-a-hang.md
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "launcher/evidence/evidence_taker.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/supervise/straggler_table.h"
#include "launcher/supervise/verdict.h"

namespace ddp::launcher {

// One rank, for the report.
struct RankEvidence {
  RankView view;
  std::optional<double> cpu_share;  // of one processor, since it was last seen to go on; nothing: not measured
};

struct HangNews {
  enum class Kind : std::uint8_t {
    stalled,    // for a quarter of the limit
    half_over,  // half of the limit is over: stacks are taken
    goes_on,    // after it was told that it does not
    stopped,    // a rank: nobody's clock runs meanwhile
    resumed,
    hung,   // the limit is over
    asked,  // by SIGQUIT: the verdict is `silent` where nobody waits
  };
  Kind kind = Kind::stalled;
  Verdict verdict;  // of stopped and resumed: the ranks are the culprits
  std::chrono::nanoseconds age{0};
  std::chrono::nanoseconds limit{0};
  std::string why_limit;  // "20 times the longest pause so far"
  bool ends_job = false;  // else nothing but words will follow
  std::vector<RankEvidence> ranks;
  Evidence evidence;           // where it was taken
  StragglerReport stragglers;  // of `asked`
};

class HangDetector {
 public:
  // `others_judge`: somebody sees more ranks than this, and is to be the first to name one.
  explicit HangDetector(const HangPlan& plan, bool others_judge = false) : plan_(plan), others_judge_(others_judge) {}

  // `elapsed`: since the last look, at most limits::kHangLongestLook counts: a suspended machine and a stopped launcher
  // have seen nothing. `now`: CLOCK_MONOTONIC in nanoseconds, as on the boards. It should be as deep as depth()
  // says.
  std::vector<HangNews> look(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed, std::uint64_t now);

  // What all ranks are at now, for somebody who asks.
  HangNews describe(std::span<const RankView> ranks) const;

  // As a look at boards in which nothing has changed.
  void nothing_new(std::chrono::nanoseconds elapsed);

  // Stacks were taken, for which the ranks had to work: that is no sign of life.
  void looked_into();

  // How deep the next look should be: once a second deeper than the boards, and all where something seems to wait.
  LookDepth depth() const;

  // The worker printed something: a sign of life.
  void output_seen() {
    if (!they_beat_) silence_ = std::chrono::nanoseconds(0);
  }

 private:
  using Nanoseconds = std::chrono::nanoseconds;
  using GroupKey = std::pair<std::string, int>;
  struct GroupClock {
    std::vector<GroupView> seen;
    Nanoseconds age{0};
    bool is_warm = false;
    bool somebody_waits = false;
  };
  struct RankClock {
    BoardView seen;
    Nanoseconds age{0};
    // The first deep look after it was last seen to go on, and how long ago that was.
    std::optional<RankView> before;
    Nanoseconds before_age{0};
  };
  struct Limit {
    Nanoseconds time;
    std::string why;
  };

  void follow(std::span<const RankView> ranks, Nanoseconds elapsed, LookDepth depth);
  Nanoseconds longest_wait() const;
  Nanoseconds longest_silence(std::span<const RankView> ranks) const;
  void follow_stops(std::span<const RankView> ranks, std::vector<HangNews>& news);
  Limit limit_of(const Verdict& verdict, std::span<const RankView> ranks, std::uint64_t now) const;
  std::optional<double> cpu_share(const RankView& rank) const;
  bool is_idle(const RankView& rank) const;
  std::vector<RankEvidence> evidence(std::span<const RankView> ranks) const;
  std::optional<Verdict> silent(std::span<const RankView> ranks);
  std::optional<Verdict> behind(std::span<const RankView> ranks) const;

  const HangPlan plan_;
  const bool others_judge_;
  std::map<GroupKey, GroupClock> groups_;
  std::map<int, RankClock> ranks_;
  Nanoseconds longest_pause_{0};
  Nanoseconds silence_{0};
  bool silence_concerns_us_ = false;
  bool they_beat_ = false;  // all ranks that run show heartbeats, and no collectives
  Nanoseconds since_evidence_ = limits::kHangEvidence;
  std::set<int> stopped_;
  std::map<int, ProcessLook> traced_;  // at the last look at processes
  std::optional<Verdict> told_;
  bool half_told_ = false;
  int times_over_ = 0;  // that the limit of this stall was told to be over
  bool is_over_ = false;
};

}  // namespace ddp::launcher
