// HangDetector: follows what the ranks are at, and tells what is new about those that do not go on. Samples and times
// in, news out; no clock. What follows from a stall is stall_policy.h's business.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/limits.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/watchdog/evidence/evidence_taker.h"
#include "launcher/watchdog/stall_policy.h"
#include "launcher/watchdog/straggler_table.h"
#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

struct HangNews {
  enum class Kind : std::uint8_t {
    stalled,  // a note
    warned,   // the stall is serious: stacks are taken, if that does not disturb
    goes_on,  // after it was told that it does not
    stopped,  // a rank: nobody's clock runs meanwhile
    resumed,
    hung,   // the limit is over
    asked,  // by SIGQUIT: the verdict is `silent` where nobody waits
  };
  Kind kind = Kind::stalled;
  Verdict verdict;  // of stopped and resumed: the ranks are the culprits
  std::chrono::nanoseconds age{0};
  StallJudgement judgement;
  bool ends_job = false;  // when the limit is over; else nothing but words will follow
  std::vector<RankView> ranks;
  Evidence evidence;           // where it was taken
  StragglerReport stragglers;  // of `asked`
};

// "stalled", as the event log and the report write it.
std::string_view name_of(HangNews::Kind kind);

class HangDetector {
 public:
  // `others_judge`: somebody sees more ranks than this, and is to be the first to name one.
  // `longest_interval`: of the time between two samples no more counts. A suspended node and a stopped launcher have
  // seen nothing.
  explicit HangDetector(const HangPlan& plan, bool others_judge = false,
                        std::chrono::nanoseconds longest_interval = limits::kHangLongestInterval)
      : plan_(plan), others_judge_(others_judge), longest_interval_(longest_interval) {}

  // `elapsed`: since the last sample. `now`: CLOCK_MONOTONIC in nanoseconds, as on the pages. It should be as deep as
  // depth() says.
  std::vector<HangNews> add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed,
                                   std::uint64_t now);

  // What all ranks are at now, for somebody who asks.
  HangNews describe(std::span<const RankView> ranks) const;

  // The verdict on what this rank waited for, else the first of all, when the ranks were last looked at closely: not
  // longer than limits::kHangRemembered ago. A rank that gives up waiting leaves nothing to look at. Nothing: of too
  // little is known.
  std::optional<Verdict> stall_of(int rank) const;

  // As a sample of pages in which nothing has changed.
  void nothing_new(std::chrono::nanoseconds elapsed);

  // How deep the next sample should be: once a second deeper than the pages, and all where something seems to wait.
  SampleDepth depth() const;

  // Whether the next sample should bring what the processes do (RankView::activity).
  bool wants_activity() const {
    return depth() == SampleDepth::all && stopped_.empty() && longest_wait() >= limits::kHangActivity;
  }

 private:
  using Nanoseconds = std::chrono::nanoseconds;
  struct GroupClock {
    std::vector<GroupView> seen;
    Nanoseconds age{0};
    bool is_warm = false;
    bool somebody_waits = false;
  };
  struct RankClock {
    PageView seen;
    Nanoseconds age{0};
    // Without a sign of life, and without data that moved: while this clock ran, and as far as was measured.
    Nanoseconds still{0};
    Nanoseconds unmoved{0};
    bool waits = false;  // a thread of it waits for an operation
    // For how long one may have been waiting, for whatever operations. A thread that waits with a time-out, again and
    // again, goes on waiting in between.
    bool may_wait = false;
    Nanoseconds waited{0};
    Nanoseconds between{0};
    bool has_ended = false;
    Nanoseconds ended_for{0};

    void advance(Nanoseconds elapsed) {
      age += elapsed;
      still += elapsed;
      unmoved += elapsed;
      if (has_ended) ended_for += elapsed;
      between = may_wait ? Nanoseconds(0) : between + elapsed;
      const bool goes_on = may_wait || (waited.count() > 0 && between <= limits::kPollingPause);
      waited = goes_on ? waited + elapsed : Nanoseconds(0);
    }
    // If a page shows no collectives, data that the rank has exchanged counts as progress.
    Nanoseconds progress_age(const Verdict& verdict) const {
      return verdict.is_by_stack ? std::min(age, unmoved) : age;
    }
    void has_changed(const PageView& page, Nanoseconds elapsed) {
      advance(elapsed);
      *this = {.seen = page, .waited = waited, .between = between, .has_ended = has_ended, .ended_for = ended_for};
    }
  };

  void follow(std::span<const RankView> ranks, Nanoseconds elapsed);
  std::optional<Verdict> most_pressing(const std::vector<Verdict>& verdicts) const;
  Nanoseconds longest_wait() const;
  Nanoseconds ended_for(const Verdict& verdict, std::span<const RankView> ranks) const;
  Nanoseconds longest_silence(std::span<const RankView> ranks) const;
  void follow_stops(std::span<const RankView> ranks, std::vector<HangNews>& news);
  StallFacts facts_of(const Verdict& verdict, std::span<const RankView> ranks, std::uint64_t now) const;
  Nanoseconds age_of(const Verdict& verdict) const;
  std::optional<Nanoseconds> still_for(const Verdict& verdict, std::span<const RankView> ranks) const;
  bool may_be_resolved(const Verdict& verdict) const;
  std::optional<Verdict> silent(std::span<const RankView> ranks);
  std::optional<Verdict> waits_for_others_to_come(std::span<const RankView> ranks);
  std::optional<Verdict> behind(std::span<const RankView> ranks) const;

  const HangPlan plan_;
  const bool others_judge_;
  const Nanoseconds longest_interval_;
  std::map<GroupKey, GroupClock> groups_;
  std::map<int, RankClock> ranks_;
  Nanoseconds longest_pause_{0};
  Nanoseconds page_silence_{0};  // since a page last changed
  Nanoseconds silence_{0};       // as long without any other sign of life, or a heartbeat of the rank that is late
  bool silence_concerns_us_ = false;
  bool they_beat_ = false;  // all ranks that run show heartbeats, and no collectives
  Nanoseconds since_evidence_ = limits::kHangEvidence;
  std::vector<Verdict> seen_;  // at the last sample that found some
  Nanoseconds since_seen_{0};
  std::set<int> stopped_;
  std::map<int, ProcessSample> traced_;  // at the last sample of processes
  std::optional<Verdict> told_;
  bool has_warned_ = false;
  // Samples in a row of the same ranks, which wait for each other and cannot stop to.
  int proven_samples_ = 0;
  std::optional<Verdict> proven_;
  int times_over_ = 0;  // that the limit of this stall was told to be over
  bool is_over_ = false;
};

}  // namespace ddp::launcher
