// HangEvidence takes evidence on all nodes before a hang is reported: the stacks of all ranks, and the data of NCCL and
// PyTorch. News that arrives meanwhile replaces the news that waits, so that the latest news is reported.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/rank_exchange.h"
#include "launcher/run/watchdog/evidence/evidence_taker.h"
#include "launcher/run/watchdog/hang_news.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct HangEvidenceParts {
  net::EventLoop& loop;
  RankProbe& probe;
  int workers;
  int first_rank;
  HangAction action;
  RankExchange* others;                            // set if this node judges the ranks of other nodes, else null
  std::function<void(const HangNews& news)> tell;  // reports news with its evidence
  std::function<HangNews()> describe;              // returns the current state of all ranks
  std::function<void()> disturbed;                 // called after signals and tools have woken the ranks
};

class HangEvidence {
 public:
  explicit HangEvidence(HangEvidenceParts parts);

  // Sets the environment of a worker ("NAME=value"), which shows which evidence sources can be asked.
  void set_environment(std::vector<std::string> environment) { environment_ = std::move(environment); }

  void consider(const HangNews& news);

  // Called when the user requests a report on the ranks, with this evidence.
  void asked(wire::Subject what = wire::Subject::last_evidence);
  // Called when the job ends. A pending request of the user is answered now, without evidence.
  void end();
  // Returns whether news waits for its evidence.
  bool is_taking() const { return waiting_.has_value(); }
  // Returns the hang for which the job is to be terminated as soon as its evidence is complete. It contains the
  // evidence of earlier reports, and is not reported again. Taking stacks may wake a rank that hangs. The actions of
  // that rank after this are not the reason for the end of the job. Returns std::nullopt if there is no such hang.
  std::optional<HangNews> take_decided();

  // Takes evidence of this node's ranks. Requests that arrive while it is being taken get the same evidence.
  void take_own(wire::Subject what, std::function<void(const Evidence& evidence)> done);
  // Reports the waiting news if its evidence is complete. Called when evidence from another node has arrived.
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
  std::optional<HangNews> waiting_;                // news that is reported once its evidence is complete
  wire::Subject wanted_ = wire::Subject::nothing;  // evidence that is being taken for `waiting_`
  bool is_to_be_taken_again_ = false;
  std::optional<Evidence> own_;
  std::vector<std::function<void(const Evidence& evidence)>> wanting_;
  std::unique_ptr<net::Watch> others_late_;  // null if other nodes are not waited for
  Evidence taken_;                           // evidence of the current stall, taken by all means
  Evidence shown_;                           // evidence of the current stall, taken for a note or a warning
};

}  // namespace ddp::launcher
