// RankExchange: how the nodes of a job see each other's ranks. Each shows its own when something is new in them; the
// coordinator sees all, and asks for more. docs/development/decisions/0023-all-ranks-are-judged-together.md
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/placement.h"
#include "launcher/process/rank_view.h"
#include "launcher/watchdog/evidence/evidence_taker.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// What another node shows of its ranks.
struct Shown {
  std::uint64_t from = 0;  // its connection: hosts may have one name
  std::string host;
  std::chrono::nanoseconds clock_ahead{0};  // of its CLOCK_MONOTONIC, against ours
  wire::Subject what = wire::Subject::nothing;
  std::string text;
};

// RankChannel: what the nodes of a job show each other of their ranks, and how they ask for it.
class RankChannel {
 public:
  virtual ~RankChannel() = default;

  virtual bool is_coordinator() const = 0;
  // To the coordinator; of the coordinator's own ranks nothing is shown.
  virtual void show(wire::Subject what, const std::string& text) = 0;
  // The coordinator asks all other nodes that take part; others ask nobody.
  virtual void ask(wire::Subject what) = 0;
};

// Belongs to the loop's thread.
class RankExchange {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // An attempt: nothing is known of the others yet. `channel` must live as long as it is used.
  void begin(RankChannel& channel, const Placement& place);

  bool is_coordinator() const { return channel_->is_coordinator(); }
  // Nodes beside this one.
  bool has_others() const { return place_.node_count > 1; }

  // --- A node that is not the coordinator shows its ranks. `now` and then: not too often.
  bool may_show(TimePoint now) const { return !is_coordinator() && has_others() && now >= next_show_; }
  // Nothing is said if they are as they were shown last.
  void show(std::span<const RankView> ranks, TimePoint now);
  void show_in_full(std::span<const RankView> ranks);
  // `what` it was asked for.
  void show(const Evidence& evidence, wire::Subject what);

  // --- The coordinator sees them.
  void ask_for_ranks() { channel_->ask(wire::Subject::ranks); }
  void ask_for_evidence(wire::Subject what);
  // Ranks of other nodes, by rank, as they were shown last.
  const std::map<int, RankView>& far() const { return far_; }
  // Whether something has been shown since the last call.
  bool take_news() { return std::exchange(has_news_, false); }
  // Whether all nodes that have shown ranks have answered.
  bool has_evidence() const;
  // That of other nodes, with a word about ranks whose node has not answered.
  Evidence take_evidence();

  // --- From the other nodes.
  void shown(const Shown& shown);
  // What the watchdog does while the workers run.
  std::function<void(wire::Subject what)> on_asked;
  std::function<void()> on_evidence;

 private:
  RankChannel* channel_ = nullptr;
  Placement place_;
  std::vector<std::uint64_t> shown_;  // the versions of what was
  TimePoint next_show_;
  std::map<int, RankView> far_;
  bool has_news_ = false;
  wire::Subject asked_ = wire::Subject::nothing;  // answers to what was asked before are not waited for any more
  Evidence evidence_;
  std::set<int> with_evidence_;  // ranks
};

}  // namespace ddp::launcher
