// RecordCollector takes what the ranks record and passes it to the views: from this node's rings and, at the
// coordinator, from the other nodes, which it asks. A node that is asked sends the records of its ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>

#include "launcher/run/ranks/clock_offset.h"
#include "launcher/run/ranks/rank_exchange.h"
#include "launcher/run/ranks/rank_probe.h"
#include "launcher/run/ranks/rank_sink.h"
#include "launcher/run/ranks/shown_records.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

// There is one object per attempt. It is used only from the event loop's thread.
class RecordCollector {
 public:
  using Clock = std::chrono::steady_clock;

  // `sink` may be null. All of these objects must outlive this one.
  RecordCollector(RankExchange& exchange, RankProbe& probe, RankSink* sink, const Placement& placement);
  ~RecordCollector();
  RecordCollector(const RecordCollector&) = delete;
  RecordCollector& operator=(const RecordCollector&) = delete;

  void started(int local_rank) { started_.insert(local_rank); }
  // Takes the records of this node's ranks, and asks for those of the others if it is time.
  void poll(Clock::time_point now);
  // All workers of this node have ended: takes their last records, and sends them without a request.
  void finish();
  // Returns whether other nodes that have sent records have not sent their last ones.
  bool awaits_last() const { return is_wanted_here() && !sending_.empty(); }

 private:
  bool is_wanted_here() const { return sink_ != nullptr && sink_->wants_records(); }
  bool is_wanted_elsewhere(Clock::time_point now) const;
  void take(Clock::time_point now);
  void keep(RankRecords records);
  void asked(std::uint64_t asked_at);
  void send(ShownRecords shown);
  void shown(const Shown& shown);

  RankExchange& exchange_;
  RankProbe& probe_;
  RankSink* const sink_;
  const Placement placement_;
  std::set<int> started_;              // local ranks of the started workers
  std::map<int, std::uint64_t> lost_;  // by local rank: dropped records, as they were last passed on

  // --- A node that is not the coordinator uses these.
  Clock::time_point keeps_until_;
  bool was_asked_ = false;
  std::map<int, RankRecords> unsent_;       // by rank
  std::size_t unsent_count_ = 0;            // records in `unsent_`
  std::map<int, std::uint64_t> forgotten_;  // by rank: records that found no space in `unsent_`

  // --- The coordinator uses these.
  Clock::time_point next_request_;
  std::set<std::uint64_t> sending_;              // nodes that have sent records, and not their last ones
  std::map<std::uint64_t, ClockOffset> clocks_;  // by node
};

}  // namespace ddp::launcher
