// Reducer: owns the buckets' memory and starts each bucket's all-reduce as soon as backward has filled it.
#pragma once

#include <ddp/process_group.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/ddp/bucket_plan.h"

namespace ddp {

// Buckets start strictly in the plan's order, whatever the order in which they fill: that keeps the collectives of all
// ranks matched. ready() is thread-safe; the rest belongs to one thread.
class Reducer {
 public:
  Reducer(ProcessGroup& group, std::span<const ParameterSize> parameters, const BucketLimits& limits);
  // Waits for reductions under way: they write into the buckets.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  Buffer gradient(std::size_t parameter) const;
  std::size_t bucket_count() const { return buckets_.size(); }

  void zero();
  // False if the parameter was ready before in this step.
  bool ready(std::size_t parameter);
  // The parameters that are not ready yet, ascending.
  std::vector<std::size_t> missing() const;
  // Waits for all buckets and begins the next step. All parameters must be ready.
  void finish();

 private:
  struct BucketState {
    Bucket plan;
    Memory memory;
    std::size_t pending = 0;  // parameters that are not ready

    const Buffer& buffer() const { return memory.buffer(); }
  };
  struct Place {
    std::size_t bucket = 0;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  void begin_step();
  void start_filled_buckets();

  ProcessGroup& group_;
  std::vector<BucketState> buckets_;
  std::vector<Place> places_;  // by parameter

  mutable std::mutex mutex_;
  std::vector<bool> is_ready_;  // by parameter
  std::vector<Work> started_;   // the first started_.size() buckets are under way
};

}  // namespace ddp
