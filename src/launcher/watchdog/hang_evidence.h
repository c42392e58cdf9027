// HangEvidence: takes the stacks of all ranks, and what NCCL and PyTorch know, on all nodes, before news of a hang are
// told. News that come meanwhile replace those that wait: what is told is always the latest.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/watchdog/evidence/evidence_taker.h"
#include "launcher/watchdog/hang_detector.h"
#include "launcher/watchdog/rank_exchange.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct HangEvidenceParts {
  net::EventLoop& loop;
  ProcessHost& processes;
  int workers;
  int first_rank;
  HangAction action;
  RankExchange* others;                            // where this node judges the ranks of others; null: it does not
  std::function<void(const HangNews& news)> tell;  // with its evidence
  std::function<HangNews()> describe;              // what all ranks are at now
  std::function<void()> disturbed;                 // signals and tools have woken the ranks
};

class HangEvidence {
 public:
  explicit HangEvidence(HangEvidenceParts parts);

  // "NAME=value" of a worker: who else can be asked.
  void set_environment(std::vector<std::string> environment) { environment_ = std::move(environment); }

  void consider(const HangNews& news);

  // A user has asked what the ranks are at.
  void asked();
  // The job ends: who has asked is told now, without evidence.
  void end();
  // The hang for which the job is to be terminated as soon as its evidence is there, with what was there before. It
  // will not be told again. To take stacks may wake a rank that hangs: what it does then is no reason for the end.
  std::optional<HangNews> take_decided();

  // Of this node's ranks. Who asks while it is being taken gets the same.
  void take_own(wire::Subject what, std::function<void(const Evidence& evidence)> done);
  // Some of other nodes has come.
  void tell_if_complete();

  static bool is_evidence(wire::Subject what) {
    return what == wire::Subject::stacks || what == wire::Subject::evidence || what == wire::Subject::last_evidence;
  }

 private:
  std::optional<wire::Subject> evidence_for(const HangNews& news) const;
  void take(const HangNews& news, wire::Subject what);
  void tell_what_they_are_at(Evidence evidence);
  bool waits(HangNews::Kind kind) const { return waiting_ && waiting_->kind == kind; }

  const HangEvidenceParts parts_;
  EvidenceTaker taker_;
  std::vector<std::string> environment_;
  std::optional<HangNews> waiting_;                // to be told with evidence
  wire::Subject wanted_ = wire::Subject::nothing;  // what is being taken for it
  bool is_to_be_taken_again_ = false;
  std::optional<Evidence> own_;
  std::vector<std::function<void(const Evidence& evidence)>> wanting_;
  std::unique_ptr<net::Watch> others_late_;  // nothing: they are not waited for
  Evidence taken_;                           // of the stall that there is, by all means
  Evidence shown_;                           // of that stall, with a note or a warning
};

}  // namespace ddp::launcher
