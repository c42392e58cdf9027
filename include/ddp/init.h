// init(): the group of all ranks. run_ranks(): ranks that are threads of one process.
#pragma once

#include <ddp/environment.h>
#include <ddp/export.h>
#include <ddp/process_group.h>
#include <ddp/store.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddp {

struct InitOptions {
  std::optional<Environment> environment = {};  // default: Environment::from_process()
  // "cpu", "gloo", "nccl", "mpi", or several, of which the first that works on all ranks is taken: "nccl,gloo".
  // Default: the environment's, else the best that works.
  std::optional<std::string> backend = {};
  // Of each operation, and of connecting the ranks once all have come. Default: 10 minutes; under ddplaunch operations
  // have no limit: it sees which rank the others wait for, and a rank that waits would only give up first.
  std::optional<std::chrono::milliseconds> timeout = {};
  // Of each call of the store, and of waiting for all ranks to come. Default: 5 minutes; under ddplaunch ranks wait
  // for each other without a limit, unless one of the two is given.
  std::optional<std::chrono::milliseconds> store_timeout = {};
  std::shared_ptr<Store> store = {};  // default: the one of init_method

  // As torch.distributed's: where the ranks meet.
  //   env://                                  at MASTER_ADDR:MASTER_PORT
  //   tcp://host:port?rank=1&world_size=4     there; an IPv6 address in brackets
  //   file:///path?rank=1&world_size=4        in a file that does not exist yet, on a file system that all ranks share
  // "%20" and so on in host and path are decoded. Rank and world size may be in it, or below, or in the environment.
  // With env:// and tcp:// rank 0 serves the store itself, on a thread, unless TORCHELASTIC_USE_AGENT_STORE is "True",
  // as ddplaunch sets it. That thread ends with the process: when all other ranks have left the store, or after 5 s.
  std::string init_method = "env://";
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
};

// Joins the group of all ranks: meets them at the store, agrees on a backend and connects. One line on rank 0's stderr
// says which backend was taken and why (DDP_QUIET=1: no line). A process that no launcher started is a world of one.
// Throws invalid_argument (environment, init_method), unavailable (store, backend), timeout (a rank did not come),
// mismatch (the file of file:// is left from an earlier run).
DDP_EXPORT ProcessGroup init(const InitOptions& options = {});

// Runs `ranks` ranks as threads of this process, each with its own group of all of them, and returns when all have
// ended. Buffers are read where they lie, so nothing is copied twice. The counterpart of DataParallel's one process
// with many devices, and what tests are made of. If ranks throw, the others' collectives fail with peer_lost, and the
// first exception that is not such a consequence is thrown here again. The environment is not looked at.
//
//   ddp::run_ranks(4, [&](ddp::ProcessGroup& group) { train(group, shard_of(group.rank())); });
struct RunRanksOptions {
  std::string backend = "cpu";
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of each operation
};
DDP_EXPORT void run_ranks(int ranks, const std::function<void(ProcessGroup& group)>& rank,
                          const RunRanksOptions& options = {});

}  // namespace ddp
