// Runs the ranks of one group as threads of this process, on a real backend.
#pragma once

#include <ddp/error.h>
#include <ddp/process_group.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/group/group_core.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/require.h"

namespace ddp::test {

using namespace internal;

// Describes how a rank's function ended. Without a kind, it ended well.
struct RankOutcome {
  std::optional<ErrorKind> kind;
  std::string message;
};

// Returns the error that `action` throws, for use inside a rank's thread.
template <typename Action>
RankOutcome outcome_of(Action&& action) {
  try {
    action();
    return {};
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
}

class RankThreads {
 public:
  // Holds a rank's group, until the rank leaves.
  class Rank {
   public:
    ProcessGroup& group() { return *group_; }
    int rank() const { return group_->rank(); }
    // Closes the connections, as if the process ended.
    void leaves() { group_.reset(); }
    // Waits until the functions of all other ranks have ended.
    void waits_for_the_others() { waits_for(size_ - 1); }
    // Waits until the functions of this number of ranks have ended.
    void waits_for(int ranks) {
      while (ended_->load() < ranks) std::this_thread::yield();
    }

   private:
    friend class RankThreads;
    std::unique_ptr<ProcessGroup> group_;
    std::atomic<int>* ended_ = nullptr;
    int size_ = 0;
  };
  using Action = std::function<void(Rank&)>;

  RankThreads(BackendFactory backend, int size, std::chrono::milliseconds timeout = kPatience)
      : backend_(std::move(backend)), size_(size), timeout_(timeout) {}

  RankThreads& sharing(ProcessContext process) {
    process_ = process;
    return *this;
  }

  // Simulates ranks on several nodes: ranks with the same name are on one node.
  RankThreads& on(std::function<std::string(int rank)> node_of) {
    node_of_ = std::move(node_of);
    return *this;
  }

  // Has the effect of DDP_DEBUG=detail.
  RankThreads& with_detail() {
    detail_ = true;
    return *this;
  }

  // Calls `action` on all ranks in parallel. The groups end when all calls have ended, except the groups of ranks that
  // have left.
  std::vector<RankOutcome> outcomes(const Action& action) {
    const auto store = make_memory_store(kPatience);
    std::vector<RankOutcome> result(static_cast<std::size_t>(size_));
    std::vector<Rank> ranks(static_cast<std::size_t>(size_));
    std::atomic<int> ended = 0;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        Rank& self = ranks[static_cast<std::size_t>(rank)];
        self.ended_ = &ended;
        self.size_ = size_;
        result[static_cast<std::size_t>(rank)] = outcome_of([&] {
          GroupDescription description;
          description.options.rank = rank;
          description.options.size = size_;
          // Each rank gets a GPU of its own if there are several. With one GPU, all ranks share it.
          description.options.local_rank = rank;
          description.options.timeout = timeout_;
          description.store = store;
          description.make_backend = backend_;
          description.detail = detail_;
          description.process = process_;
          description.options.node_name = node_of_(rank);
          self.group_ = std::make_unique<ProcessGroup>(GroupCore::open(std::move(description)));
          action(self);
        });
        ++ended;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return result;
  }

  void all_succeed(const Action& action) {
    const auto ended = outcomes(action);
    for (std::size_t rank = 0; rank < ended.size(); ++rank) {
      INFO("rank " << rank << " of " << size_ << ": " << ended[rank].message);
      CHECK_FALSE(ended[rank].kind);
    }
  }

  // Requires the same kind of error on every rank, and a message with all these words.
  void all_fail(ErrorKind kind, const std::vector<std::string>& words, const Action& action) {
    const auto ended = outcomes(action);
    for (std::size_t rank = 0; rank < ended.size(); ++rank) {
      INFO("rank " << rank << " of " << size_ << ": " << ended[rank].message);
      REQUIRE(ended[rank].kind);
      CHECK(to_string(*ended[rank].kind) == to_string(kind));
      for (const std::string& word : words) CHECK_THAT(ended[rank].message, Catch::Contains(word));
    }
  }

 private:
  BackendFactory backend_;
  bool detail_ = false;
  ProcessContext process_;
  std::function<std::string(int)> node_of_ = [](int) { return ""; };
  int size_;
  std::chrono::milliseconds timeout_;
};

class GlooRanks : public RankThreads {
 public:
  explicit GlooRanks(int size, std::chrono::milliseconds timeout = kPatience)
      : RankThreads(make_gloo_backend, size, timeout) {}
};

}  // namespace ddp::test
