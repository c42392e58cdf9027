// Backend: what carries the bytes of collectives. One object serves one process group on one rank.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>
#include <ddp/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

namespace ddp {

struct BackendOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::chrono::milliseconds timeout{0};  // of each collective
};

// Each function blocks until the operation is complete on this rank. All calls come from one thread, the group's.
// Arguments have been checked: counts agree, types suit the operation. A failure is an ddp::Error: `peer_lost`,
// `timeout`, `unavailable` (the backend cannot do this at all), `internal`; after it the object is not used again.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  virtual void all_reduce(const Buffer& buffer, ReduceOp op) = 0;
  virtual void broadcast(const Buffer& buffer, int root) = 0;
  virtual void all_gather(const Buffer& output, const Buffer& input) = 0;
  virtual void barrier() = 0;
};

}  // namespace ddp
