// ParameterState keeps numbers for each parameter from step to step, such as the errors of a compression.
#pragma once

#include <ddp/extension/communication_hook.h>
#include <ddp/memory.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/ddp/hooks/compression_math.h"

namespace ddp::internal {

// The numbers are f32. They are stored by the parameters' names, because buckets are filled anew after the first step.
// The parameters of a bucket share one allocation, because an allocation of GPU memory has 2 MiB or more.
class ParameterState {
 public:
  struct Size {
    std::string name;
    std::size_t count;
  };
  // Returns one number for each element.
  static std::vector<Size> sizes_of(std::span<const Tensor> gradients);

  // Gives the parameters of a bucket this many numbers each. If the bucket has other parameters than before, numbers
  // that exist are moved. Others are 0. Returns the names of the parameters that had no numbers.
  std::vector<std::string> place(const ProcessGroup& group, const GradientBucket& bucket, const CompressionMath& math,
                                 const std::vector<Size>& sizes);

  // Returns the numbers of a parameter that was placed. They stay there until the next place().
  const Buffer& at(const std::string& name) const { return entries_.at(name).values; }

 private:
  struct Entry {
    std::shared_ptr<Memory> memory;
    Buffer values;
  };

  std::map<std::string, Entry> entries_;
};

}  // namespace ddp::internal
