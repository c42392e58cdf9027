// EvidenceTaker: all that can be asked while a job hangs, at the same moment: stacks, and what others than the workers'
// programs know of it, where the workers' environment says that there are such.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/side_thread.h"
#include "launcher/watchdog/evidence/evidence_source.h"
#include "launcher/watchdog/stacks/stack_taker.h"
#include "net/socket.h"

namespace ddp::launcher {

struct Evidence {
  std::vector<RankStacks> stacks;
  std::vector<EvidenceSource> sources;

  bool empty() const { return stacks.empty() && sources.empty(); }
};

// What is asked of an evidence source: it blocks, on a thread of its own, until the deadline.
struct Question {
  std::string name;
  std::function<EvidenceSource(net::Deadline deadline)> ask;
};

// NCCL's RAS at NCCL_RAS_ADDR, unless NCCL_RAS_ENABLE=0; PyTorch's flight recorders of these ranks, if they have pipes.
// `environment`: "NAME=value" of a worker.
std::vector<Question> questions_for(std::span<const std::string> environment, std::vector<int> ranks);

class EvidenceTaker {
 public:
  using Done = std::function<void(Evidence evidence)>;

  EvidenceTaker(net::EventLoop& loop, ProcessHost& processes) : loop_(loop), stacks_(loop, processes) {}

  // Not while it is taking. `done` is called once, within limits::kStackTime, with an entry for each target and each
  // question that says what is missing; never if this is destroyed before.
  void take(const std::vector<StackTarget>& targets, StackMeans means, std::vector<Question> questions, Done done);

 private:
  // A name that is looked up, or a file system, may hang: the threads are left behind when the time is over.
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
  std::unique_ptr<net::Watch> timer_;  // until all have answered, or no more are waited for
};

}  // namespace ddp::launcher
