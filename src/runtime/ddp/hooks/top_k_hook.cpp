#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "runtime/ddp/hooks/compression_math.h"
#include "runtime/ddp/hooks/parameter_state.h"

namespace ddp {

using namespace internal;

namespace {

// Treats a bucket's gradients as one vector, in which they follow each other.
class TopKHook : public CommunicationHook {
 public:
  explicit TopKHook(double density) : density_(density) {}

  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    const CompressionMath math(group, bucket, kName);
    errors_.place(group, bucket, math, ParameterState::sizes_of(bucket.gradients));
    State& state = state_of(group, bucket);
    const double scale = local_scale(bucket, group.size());
    each(bucket, state, [&](const Tensor& gradient, const Buffer& values) {
      math.correct(gradient.data, scale, errors_.at(gradient.name), values);
    });
    const Message sent = message(state.sent, 0, state.kept);
    math.take_largest(state.values, sent.indices, sent.values);
    // The elements that are sent are 0 now, so the values are what is left out.
    each(bucket, state,
         [&](const Tensor& gradient, const Buffer& values) { math.copy(values, errors_.at(gradient.name)); });
    Communication result;
    result.works.push_back(
        group.all_gather(state.received, state.sent, {.name = bucket.name, .stream = bucket.stream}));
    result.bytes = state.sent.bytes();
    return result;
  }

  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    const CompressionMath math(group, bucket, kName);
    const State& state = states_.at(bucket.index);
    group.zero(state.values, bucket.stream);
    for (int rank = 0; rank < group.size(); ++rank) {
      const Message received = message(state.received, rank, state.kept);
      math.scatter_add(received.indices, received.values, 1.0 / group.size(), state.values);
    }
    each(bucket, state, [&](const Tensor& gradient, const Buffer& values) { math.convert(values, gradient.data, 1); });
    return 0;
  }

 private:
  static constexpr const char* kName = "top-k hook";

  struct State {
    Memory values;
    Memory sent;
    Memory received;
    std::size_t kept = 0;
  };

  // A rank sends the indices of its elements and then their values, 4 bytes each. All ranks keep equally many elements.
  struct Message {
    Buffer indices;
    Buffer values;
  };
  static Message message(const Buffer& buffer, int rank, std::size_t kept) {
    const std::size_t first = 2 * kept * static_cast<std::size_t>(rank);
    Message result{buffer.slice(first, kept), buffer.slice(first + kept, kept)};
    result.values.type = DataType::f32;
    return result;
  }

  // Returns the state of a bucket, with memory for as many elements as the bucket has.
  State& state_of(const ProcessGroup& group, const GradientBucket& bucket) {
    std::size_t count = 0;
    for (const Tensor& gradient : bucket.gradients) count += gradient.data.count;
    if (count > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorKind::invalid_argument,
                  "the top-k hook takes buckets of at most 2^32 elements; " + bucket.name + " has more");
    }
    State& state = states_[bucket.index];
    if (state.values.data() != nullptr && state.values.size() == count) return state;
    const DeviceType device = device_of(bucket);
    state.kept = std::min(static_cast<std::size_t>(std::ceil(density_ * static_cast<double>(count))), count);
    state.values = group.allocate(count, DataType::f32, device);
    state.sent = group.allocate(2 * state.kept, DataType::i32, device);
    state.received = group.allocate(2 * state.kept * static_cast<std::size_t>(group.size()), DataType::i32, device);
    return state;
  }

  template <typename Function>
  static void each(const GradientBucket& bucket, const State& state, const Function& function) {
    std::size_t first = 0;
    for (const Tensor& gradient : bucket.gradients) {
      function(gradient, state.values.buffer().slice(first, gradient.data.count));
      first += gradient.data.count;
    }
  }

  const double density_;
  ParameterState errors_;
  std::map<std::size_t, State> states_;  // by bucket index
};

}  // namespace

std::shared_ptr<CommunicationHook> make_top_k_hook(double density) {
  if (!(density > 0 && density <= 1)) {
    throw Error(ErrorKind::invalid_argument,
                "make_top_k_hook: the density must be above 0 and at most 1, not " + std::to_string(density));
  }
  return std::make_shared<TopKHook>(density);
}

}  // namespace ddp
