#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "runtime/ddp/hooks/compression_math.h"
#include "runtime/ddp/hooks/parameter_state.h"

namespace ddp {

using namespace internal;

namespace {

// A gradient is sent as words of 32 bits: its mean magnitude as a float, then one bit per element. A bit is 1 if the
// element is negative.
std::size_t words_for(std::size_t elements) {
  return 1 + (elements + 31) / 32;
}

class OneBitHook : public CommunicationHook {
 public:
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    if (device_of(bucket) != DeviceType::cpu) {
      throw Error(
          ErrorKind::unavailable,
          "the one-bit hook computes in host memory, but these gradients are in GPU memory. Remove the hook, or "
          "write a CommunicationHook with your own kernels");
    }
    const CompressionMath math(group, bucket, kName);
    errors_.place(group, bucket, math, ParameterState::sizes_of(bucket.gradients));
    State& state = states_[bucket.index];
    std::size_t words = 0;
    for (const Tensor& gradient : bucket.gradients) words += words_for(gradient.data.count);
    state.sent.assign(words, 0);
    state.received.resize(words * static_cast<std::size_t>(group.size()));
    std::int32_t* place = state.sent.data();
    for (const Tensor& gradient : bucket.gradients) {
      values_.resize(gradient.data.count);
      const Buffer& stored = errors_.at(gradient.name);
      math.correct(gradient.data, local_scale(bucket, group.size()), stored, values_);
      compress(values_, place);
      const std::span<float> error = stored.as<float>();
      for (std::size_t i = 0; i < error.size(); ++i) error[i] = values_[i] - value_at(place, i);
      place += words_for(values_.size());
    }
    Communication result;
    result.works.push_back(group.all_gather(state.received, state.sent, {.name = bucket.name}));
    result.bytes = words * sizeof(std::int32_t);
    return result;
  }

  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    const CompressionMath math(group, bucket, kName);
    const State& state = states_[bucket.index];
    const float share = 1.0F / static_cast<float>(group.size());
    std::size_t first = 0;
    for (const Tensor& gradient : bucket.gradients) {
      values_.assign(gradient.data.count, 0.0F);
      for (std::size_t word = first; word < state.received.size(); word += state.sent.size()) {
        const std::int32_t* place = state.received.data() + word;
        for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += value_at(place, i) * share;
      }
      math.convert(values_, gradient.data, 1);
      first += words_for(values_.size());
    }
    return 0;
  }

 private:
  static constexpr const char* kName = "one-bit hook";

  struct State {
    std::vector<std::int32_t> sent;
    std::vector<std::int32_t> received;
  };

  static void compress(const std::vector<float>& values, std::int32_t* place) {
    double sum = 0;
    for (const float value : values) sum += std::abs(value);
    const auto mean = static_cast<float>(values.empty() ? 0 : sum / static_cast<double>(values.size()));
    place[0] = std::bit_cast<std::int32_t>(mean);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bit = static_cast<std::uint32_t>(std::signbit(values[i])) << (i % 32);
      place[1 + i / 32] = static_cast<std::int32_t>(static_cast<std::uint32_t>(place[1 + i / 32]) | bit);
    }
  }

  static float value_at(const std::int32_t* place, std::size_t i) {
    const std::uint32_t sign = (static_cast<std::uint32_t>(place[1 + i / 32]) >> (i % 32)) << 31;
    return std::bit_cast<float>(static_cast<std::uint32_t>(place[0]) | sign);
  }

  ParameterState errors_;
  std::map<std::size_t, State> states_;  // by bucket
  std::vector<float> values_;            // values of one gradient
};

}  // namespace

std::shared_ptr<CommunicationHook> make_one_bit_hook() {
  return std::make_shared<OneBitHook>();
}

}  // namespace ddp
