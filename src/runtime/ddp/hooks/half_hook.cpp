#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <map>

#include "runtime/ddp/hooks/host_only.h"
#include "runtime/reduction/reduction.h"

namespace ddp {

using namespace internal;

namespace {

// Converts through a small array of floats that stays in the cache.
void convert(const Buffer& from, const Buffer& to) {
  std::array<float, 1024> block;
  for (std::size_t first = 0; first < from.count; first += block.size()) {
    const std::size_t count = std::min(block.size(), from.count - first);
    to_single(from.slice(first, count), block.data());
    from_single(block.data(), to.slice(first, count));
  }
}

std::size_t elements(const GradientBucket& bucket) {
  std::size_t sum = 0;
  for (const Buffer& range : bucket.ranges) sum += range.count;
  return sum;
}

class HalfHook : public CommunicationHook {
 public:
  explicit HalfHook(DataType type) : type_(type) {}

  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    require_host(bucket, "half-precision");
    Memory& memory = halves_[bucket.index];
    const std::size_t count = elements(bucket);
    if (memory.buffer().count != count || memory.buffer().data == nullptr) memory = group.allocate(count, type_);
    each(bucket, [](const Buffer& range, const Buffer& half) { convert(range, half); });
    Communication result;
    result.works.push_back(group.all_reduce(memory, ReduceOp::premultiplied(bucket.factor), {.name = bucket.name}));
    result.bytes = memory.buffer().bytes();
    return result;
  }

  std::size_t finish(const ProcessGroup&, const GradientBucket& bucket) override {
    each(bucket, [](const Buffer& range, const Buffer& half) { convert(half, range); });
    return 0;
  }

 private:
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
