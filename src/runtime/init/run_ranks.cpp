#include <ddp/error.h>
#include <ddp/init.h>

#include <exception>
#include <thread>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/group/group_core.h"
#include "runtime/init/process_context.h"

namespace ddp {

using namespace internal;

namespace {

// Returns whether a failure only reports the failure of another rank.
bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::peer_lost || error.kind() == ErrorKind::aborted;
  } catch (...) {
    return false;
  }
}

BackendFactory factory_of(const std::string& backend) {
  if (backend == "cpu") return make_cpu_backend;
  if (backend == "gloo") return make_gloo_backend;
  if (backend == "nccl") {
    const ProbeResult found = probe_nccl({});
    if (!found.obstacle.empty()) throw Error(ErrorKind::unavailable, "run_ranks: " + found.obstacle);
    return make_nccl_backend;
  }
  throw Error(ErrorKind::invalid_argument,
              "run_ranks: backend '" + backend + "' does not support ranks of one process. Use cpu, gloo or nccl");
}

}  // namespace

void run_ranks(int ranks, const std::function<void(ProcessGroup& group)>& rank, const RunRanksOptions& options) {
  if (ranks < 1) throw Error(ErrorKind::invalid_argument, "run_ranks: " + std::to_string(ranks) + " ranks");
  const BackendFactory factory = factory_of(options.backend);
  const ProcessContext process = process_context();
  const auto store = make_memory_store(options.timeout);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int number = 0; number < ranks; ++number) {
    threads.emplace_back([&, number] {
      try {
        GroupDescription description{
            "world", {number, ranks, number, options.timeout}, store, factory, "ranks of one process"};
        // One status page cannot show several ranks.
        description.is_shown = false;
        description.process = process;
        ProcessGroup group(GroupCore::open(std::move(description)));
        rank(group);
      } catch (...) {
        failures[static_cast<std::size_t>(number)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr first;
  for (const std::exception_ptr& failure : failures) {
    if (failure && (!first || (is_consequence(first) && !is_consequence(failure)))) first = failure;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace ddp
