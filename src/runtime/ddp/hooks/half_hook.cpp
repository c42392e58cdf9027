#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <map>

#include "runtime/ddp/hooks/compression_math.h"

namespace ddp {

using namespace internal;

namespace {

std::size_t elements(const GradientBucket& bucket) {
  std::size_t sum = 0;
  for (const Buffer& range : bucket.ranges) sum += range.count;
  return sum;
}

class HalfHook : public CommunicationHook {
 public:
  explicit HalfHook(DataType type) : type_(type) {}

  // The values are scaled before they are rounded. So a gradient does not overflow if the mean fits, and the reduction
  // is a plain sum in any memory.
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    const CompressionMath math(group, bucket, kName);
    Memory& memory = halves_[bucket.index];
    const std::size_t count = elements(bucket);
    if (memory.buffer().count != count || memory.buffer().data == nullptr) {
      memory = group.allocate(count, type_, device_of(bucket));
    }
    each(bucket, [&](const Buffer& range, const Buffer& half) { math.convert(range, half, bucket.factor); });
    Communication result;
    result.works.push_back(group.all_reduce(memory, ReduceOp::sum, {.name = bucket.name, .stream = bucket.stream}));
    result.bytes = memory.buffer().bytes();
    return result;
  }

  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    const CompressionMath math(group, bucket, kName);
    each(bucket, [&](const Buffer& range, const Buffer& half) { math.convert(half, range, 1); });
    return 0;
  }

 private:
  static constexpr const char* kName = "half-precision hook";

  template <typename Function>
  void each(const GradientBucket& bucket, const Function& function) {
    std::size_t first = 0;
    for (const Buffer& range : bucket.ranges) {
      function(range, halves_[bucket.index].buffer().slice(first, range.count));
      first += range.count;
    }
  }

  const DataType type_;
  std::map<std::size_t, Memory> halves_;  // by bucket
};

}  // namespace

std::shared_ptr<CommunicationHook> make_half_hook(DataType type) {
  if (type != DataType::f16 && type != DataType::bf16) {
    throw Error(ErrorKind::invalid_argument,
                "make_half_hook: gradients can be sent as f16 or bf16, not as " + std::string(to_string(type)));
  }
  return std::make_shared<HalfHook>(type);
}

}  // namespace ddp
