// CCall holds the arguments of one operation that a C program calls, checked and in the form that ProcessGroup takes.
#pragma once

#include <ddp/buffer.h>
#include <ddp/call_site.h>
#include <ddp/process_group.h>
#include <ddp/reduce_op.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/c/boundary.h"

namespace ddp::internal {

// Returns the place that ddp_called_from() has named for the next operation of this thread, and forgets it.
CallSite take_call_site();

// Converts the timeout of a C program. Returns std::nullopt for 0. Throws invalid_argument if the timeout is negative.
std::optional<std::chrono::milliseconds> timeout_of(const char* function, std::int64_t timeout_ms);

// These functions throw invalid_argument if the number has no meaning.
DataType type_of(const char* function, std::int32_t type);
DeviceType device_of(const char* function, std::int32_t device);

class CCall {
 public:
  // `function` is a literal. `options` and `work` may be null.
  CCall(const char* function, const ddp_group* group, const ddp_call_options* options, ddp_work** work);

  ProcessGroup& group() const { return *group_; }
  const CallOptions& options() const { return options_; }
  CallSite site() const { return site_; }

  Buffer output(void* data, std::int64_t count, std::int32_t type) const;
  ConstBuffer input(const void* data, std::int64_t count, std::int32_t type) const;
  // These functions return buffers of `count` elements for each rank of the group.
  Buffer whole_output(void* data, std::int64_t count, std::int32_t type) const;
  ConstBuffer whole_input(const void* data, std::int64_t count, std::int32_t type) const;
  std::vector<Buffer> outputs(const ddp_part* parts, std::int64_t count, std::int32_t type) const;
  std::vector<ConstBuffer> inputs(const ddp_part* parts, std::int64_t count, std::int32_t type) const;
  ReduceOp reduction(std::int32_t op) const;

  // Waits for the operation, or gives the program its handle.
  void finish(Work work) const;

 private:
  std::size_t checked_count(std::int64_t count, DataType type, std::int64_t ranks) const;

  const char* const function_;
  const CallSite site_;
  ddp_work** const work_;
  std::shared_ptr<ProcessGroup> group_;
  CallOptions options_;
  DeviceType device_ = DeviceType::cpu;
  std::optional<double> factor_;
};

}  // namespace ddp::internal
