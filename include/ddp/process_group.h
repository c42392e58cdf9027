// ProcessGroup: the ranks that work together, and their collectives.
#pragma once

#include <ddp/buffer.h>
#include <ddp/environment.h>
#include <ddp/store.h>
#include <ddp/work.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

class Backend;

// `average` divides each rank's values by the group's size before summing, as PyTorch's DistributedDataParallel does.
// It needs a floating-point type.
enum class ReduceOp : std::uint8_t { sum, average, product, min, max };

DDP_EXPORT std::string_view to_string(ReduceOp op);

// All ranks call the same collectives in the same order with the same counts and types; that is not checked, and a
// difference gives wrong numbers, a time-out, or the end of the process (gloo). A collective returns at once
// and runs on the group's own thread, in the order of the calls; `Work::wait` ends it. Thread-safe, but calls from
// several threads have no common order on all ranks unless the program makes one.
//
// After a failed collective (a rank is gone, or did not come within the time-out) the group is broken: what it was
// asked for before and after fails with `aborted`. Errors name rank, operation and number.
//
// Memory: host memory for every backend; GPU memory for nccl, where the data must be complete (the stream that makes
// it synchronised) before the call.
//
//   ddp::ProcessGroup world = ddp::init();
//   std::vector<float> sums(1024, 1.0f);
//   world.all_reduce(sums).wait();            // every element is now world.size()
class DDP_EXPORT ProcessGroup {
 public:
  // For init() and tests; programs call init().
  ProcessGroup(std::unique_ptr<Backend> backend, int rank, int size, std::string backend_reason);
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  // Waits for the collective that runs; those that have not begun fail with `aborted`. While an exception unwinds the
  // stack it waits for a second at most, so that the exception is heard although other ranks wait for this one.
  ~ProcessGroup();

  int rank() const;
  int size() const;
  // "gloo", "nccl" or "mpi", and the sentence that says why that one.
  const std::string& backend() const;
  const std::string& backend_reason() const;

  // In place: afterwards `buffer` holds the reduction over all ranks.
  Work all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum);

  // Afterwards `buffer` holds what it held on `root`.
  Work broadcast(Buffer buffer, int root);

  // Afterwards `output` holds the inputs of rank 0, 1, …; output.count is size() * input.count.
  Work all_gather(Buffer output, Buffer input);

  // Done when every rank has called it.
  Work barrier();

  // Any bytes, of any length on each rank; the result is the same on every rank, in rank order. Blocks.
  std::vector<std::string> all_gather_bytes(std::string_view bytes);

  // The bytes of `root`, on every rank. Blocks.
  std::string broadcast_bytes(std::string_view bytes, int root);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

struct InitOptions {
  std::optional<Environment> environment;                        // default: Environment::from_process()
  std::optional<std::string> backend;                            // default: the environment's, else the best that works
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of each collective
  std::chrono::milliseconds store_timeout = std::chrono::minutes(5);  // of the rendezvous
  std::shared_ptr<Store> store;                                       // default: the one of init_method

  // As torch.distributed's: where the ranks meet.
  //   env://                                  at MASTER_ADDR:MASTER_PORT
  //   tcp://host:port?rank=1&world_size=4     there; an IPv6 address in brackets
  //   file:///path?rank=1&world_size=4        in a file that does not exist yet, on a file system that all ranks share
  // "%20" and so on in host and path are decoded. Rank and world size may be in it, or below, or in the environment.
  // With env:// and tcp:// rank 0 serves the store itself, on a thread, unless TORCHELASTIC_USE_AGENT_STORE is "True",
  // as ddplaunch sets it. That thread ends with the process: when all other ranks have left the store, or after 5 s.
  std::string init_method = "env://";
  std::optional<int> rank;
  std::optional<int> world_size;
};

// Joins the group of all ranks: meets them at the store, agrees on a backend and connects. One line on rank 0's stderr
// says which backend was taken and why (DDP_QUIET=1: no line). A process that no launcher started is a world of one.
// Throws invalid_argument (environment, init_method), unavailable (store, backend), timeout (a rank did not come),
// mismatch (the file of file:// is left from an earlier run).
DDP_EXPORT ProcessGroup init(const InitOptions& options = {});

}  // namespace ddp
