// RankExchange lets the nodes of a job see each other's ranks. Each node shows its own ranks when something in them has
// changed. The coordinator sees all ranks, and can ask for more.
// docs/development/decisions/0023-all-ranks-are-judged-together.md
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

#include "launcher/run/ranks/evidence.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/shown.h"
#include "launcher/start/plan/placement.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// RankChannel carries the messages that nodes of a job send each other about their ranks, and the requests for them.
class RankChannel {
 public:
  virtual ~RankChannel() = default;

  virtual bool is_coordinator() const = 0;
  // Sends `text` to the coordinator. The coordinator shows nothing of its ranks.
  virtual void show(wire::Subject what, const std::string& text) = 0;
  // Asks all other nodes that take part. Does nothing on a node that is not the coordinator.
  virtual void ask(wire::Subject what) = 0;
};

// Used only from the event loop's thread.
class RankExchange {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Begins an attempt, in which nothing is known of the other nodes yet. This object uses `channel` until the next
  // call.
  void begin(RankChannel& channel, const Placement& place);

  // Replaces the channel in the middle of an attempt.
  void go_on_with(RankChannel& channel) { channel_ = &channel; }

  bool is_coordinator() const { return channel_->is_coordinator(); }
  // Returns whether the job has other nodes.
  bool has_others() const { return place_.node_count > 1; }

  // --- A node that is not the coordinator uses these to show its ranks. may_show() limits how often.
  bool may_show(TimePoint now) const { return !is_coordinator() && has_others() && now >= next_show_; }
  // Sends nothing if the ranks have not changed since they were last shown.
  void show(std::span<const RankView> ranks, TimePoint now);
  void show_in_full(std::span<const RankView> ranks);
  void show_usage(std::span<const RankView> ranks);
  // `what` is the request that the evidence answers.
  void show(const Evidence& evidence, wire::Subject what);
  void show_records(const std::string& text) { channel_->show(wire::Subject::records, text); }
  void show_proof(const std::string& text) { channel_->show(wire::Subject::proof, text); }

  // --- The coordinator uses these to see the ranks of other nodes.
  void ask_for_ranks() { channel_->ask(wire::Subject::ranks); }
  void ask_for_usage() { channel_->ask(wire::Subject::usage); }
  void ask_for_evidence(wire::Subject what);
  void ask_for_records() { channel_->ask(wire::Subject::records); }
  void ask_for_proof() { channel_->ask(wire::Subject::proof); }
  void end_proof() { channel_->ask(wire::Subject::no_proof); }
  // Returns the ranks of other nodes as they were last shown, by rank.
  const std::map<int, RankView>& far() const { return far_; }
  // Returns whether another node has shown its ranks since the last call.
  bool take_news() { return std::exchange(has_news_, false); }
  // Returns whether another node has shown what its ranks use since the last call.
  bool take_usage_news() { return std::exchange(has_usage_news_, false); }
  // Returns whether all nodes that have shown running ranks have sent their evidence.
  bool has_evidence() const;
  // Returns the evidence of other nodes. Ranks whose node has not answered have an entry that says so.
  Evidence take_evidence();

  // --- The channel passes on messages from other nodes here.
  void shown(const Shown& shown);
  // `asked_at` is when the coordinator asked: its CLOCK_MONOTONIC, nanoseconds.
  void asked(wire::Subject what, std::uint64_t asked_at);
  // The watchdog sets these three while the workers run.
  std::function<void(wire::Subject what)> on_asked;
  std::function<void()> on_evidence;
  std::function<void(const Shown& shown)> on_proof;
  // The watchdog sets these two as long as it exists, because records may arrive after the end of the workers.
  std::function<void(std::uint64_t asked_at)> on_records_asked;
  std::function<void(const Shown& shown)> on_records;

 private:
  RankChannel* channel_ = nullptr;
  Placement place_;
  std::vector<std::uint64_t> shown_;  // versions of the pages that were last shown
  TimePoint next_show_;
  std::map<int, RankView> far_;
  bool has_news_ = false;
  bool has_usage_news_ = false;
  wire::Subject asked_ = wire::Subject::nothing;  // the latest request; answers to earlier requests are ignored
  Evidence evidence_;
  std::set<int> with_evidence_;  // ranks whose evidence has arrived
};

}  // namespace ddp::launcher
