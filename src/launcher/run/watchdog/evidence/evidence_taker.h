// EvidenceTaker takes all evidence of a hang at the same moment: stacks, and the answers of other sources than the
// workers' programs. The workers' environment shows which of these sources exist.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/side_thread.h"
#include "launcher/run/ranks/evidence.h"
#include "launcher/run/ranks/stack_taker.h"
#include "net/socket.h"

namespace ddp::launcher {

// Represents a question to an evidence source. `ask` blocks, on a separate thread, until the deadline. An answer without
// a text and without anything that is missing is left out.
struct Question {
  std::string name;
  std::function<EvidenceSource(net::Deadline deadline)> ask;
};

// Returns the questions to NCCL's RAS at NCCL_RAS_ADDR, unless NCCL_RAS_ENABLE=0, and to PyTorch's flight recorders of
// these ranks, if they have pipes. `environment` contains "NAME=value" of a worker.
std::vector<Question> questions_for(std::span<const std::string> environment, std::vector<int> ranks);

class EvidenceTaker {
 public:
  using Done = std::function<void(Evidence evidence)>;

  EvidenceTaker(net::EventLoop& loop, RankProbe& probe) : loop_(loop), stacks_(loop, probe) {}

  // Must not be called while it is taking. `done` is called once, within limits::kStackTime, with an entry for each
  // target and each question that says what is missing. It is never called if this object is destroyed before.
  void take(const std::vector<StackTarget>& targets, StackMeans means, std::vector<Question> questions, Done done);

 private:
  // The resolution of a name or a file system may hang. When the time is over, the thread is left behind.
  struct Asked {
    std::string name;
    base::SideThread<EvidenceSource> thread;
    std::unique_ptr<net::Watch> watch;
    std::optional<EvidenceSource> answer;
  };
  void ask(std::vector<Question> questions);
  void finish_if_done();

  net::EventLoop& loop_;
  StackTaker stacks_;
  Done done_;
  std::vector<RankStacks> taken_;
  bool has_stacks_ = false;
  std::list<Asked> asked_;
  std::unique_ptr<net::Watch> timer_;  // set until all have answered or their time is over
};

}  // namespace ddp::launcher
