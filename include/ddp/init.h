// init() joins the group of all ranks. run_ranks() runs ranks as threads of one process.
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
  std::optional<Environment> environment = {};  // Environment::from_process() by default
  // The value is "cpu", "gloo", "nccl", "mpi", or a list such as "nccl,gloo". The first backend of a list that works on
  // all ranks is used. The default is the environment's backend, or otherwise the best that works.
  std::optional<std::string> backend = {};
  // Limits each operation, and connecting the ranks after all have arrived. The default is 10 minutes. Under ddplaunch
  // operations have no limit by default, because ddplaunch sees for which rank the others wait. A waiting rank would
  // only time out first.
  std::optional<std::chrono::milliseconds> timeout = {};
  // Limits each call of the store, and waiting for all ranks to arrive. The default is 5 minutes. Under ddplaunch ranks
  // wait for each other without a limit, unless one of the two time-outs is given.
  std::optional<std::chrono::milliseconds> store_timeout = {};
  std::shared_ptr<Store> store = {};  // the store of init_method by default

  // Names the place where the ranks meet, as in torch.distributed.
  //   env://                                  at MASTER_ADDR:MASTER_PORT
  //   tcp://host:port?rank=1&world_size=4     at host:port; an IPv6 address is in brackets
  //   file:///path?rank=1&world_size=4        in a file that does not exist yet, on a file system that all ranks share
  // Sequences such as "%20" in host and path are decoded. Rank and world size may be given in it, in the members below,
  // or in the environment. With env:// and tcp:// rank 0 serves the store itself, on a thread, unless
  // TORCHELASTIC_USE_AGENT_STORE is "True", as ddplaunch sets it. That thread ends with the process: when all other
  // ranks have left the store, or after 5 s.
  std::string init_method = "env://";
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
};

// Joins the group of all ranks: meets them at the store, agrees on a backend and connects. One line on rank 0's stderr
// says which backend was chosen and why; DDP_QUIET=1 suppresses it. A process that no launcher started is a world of
// one. Throws invalid_argument (environment, init_method), unavailable (store, backend), timeout (a rank did not
// arrive), mismatch (the file of file:// is left from an earlier run).
DDP_EXPORT ProcessGroup init(const InitOptions& options = {});

// Runs `ranks` ranks as threads of this process, each with its own group of all of them. Returns when all have ended.
// Buffers are read in place, so nothing is copied twice. It corresponds to DataParallel, where one process drives many
// devices, and tests use it. If ranks throw, the others' collectives fail with peer_lost. The first exception that is
// not such a consequence is rethrown here. The environment is not read.
//
//   ddp::run_ranks(4, [&](ddp::ProcessGroup& group) { train(group, shard_of(group.rank())); });
struct RunRanksOptions {
  std::string backend = "cpu";
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // time limit of each operation
};
DDP_EXPORT void run_ranks(int ranks, const std::function<void(ProcessGroup& group)>& rank,
                          const RunRanksOptions& options = {});

}  // namespace ddp
