#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/ddp/hooks/error_feedback.h"
#include "runtime/ddp/hooks/host_only.h"
#include "runtime/reduction/reduction.h"

namespace ddp {

using namespace internal;

namespace {

// Treats a bucket's gradients as one vector, in which they follow each other.
class TopKHook : public CommunicationHook {
 public:
  explicit TopKHook(double density) : density_(density) {}

  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    require_host(bucket, "top-k");
    State& state = states_[bucket.index];
    std::size_t count = 0;
    for (const Tensor& gradient : bucket.gradients) count += gradient.data.count;
    if (count > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorKind::invalid_argument,
                  "the top-k hook takes buckets of at most 2^32 elements; " + bucket.name + " has more");
    }
    state.values.resize(count);
    std::size_t first = 0;
    for (const Tensor& gradient : bucket.gradients) {
      const auto place = std::span(state.values).subspan(first, gradient.data.count);
      feedback_.corrected(gradient, local_scale(bucket, group.size()), place);
      first += place.size();
    }
    const auto kept = static_cast<std::size_t>(std::ceil(density_ * static_cast<double>(count)));
    select(state, std::min(kept, count));
    remember(state, bucket);

    // Each element is sent as index and value, 4 bytes each. All ranks keep equally many elements.
    state.sent.resize(2 * state.order.size());
    for (std::size_t i = 0; i < state.order.size(); ++i) {
      state.sent[2 * i] = static_cast<std::int32_t>(state.order[i]);
      state.sent[2 * i + 1] = std::bit_cast<std::int32_t>(state.values[state.order[i]]);
    }
    state.received.resize(state.sent.size() * static_cast<std::size_t>(group.size()));
    Communication result;
    result.works.push_back(group.all_gather(state.received, state.sent, {.name = bucket.name}));
    result.bytes = state.sent.size() * sizeof(std::int32_t);
    return result;
  }

  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    State& state = states_[bucket.index];
    std::fill(state.values.begin(), state.values.end(), 0.0F);
    const float share = 1.0F / static_cast<float>(group.size());
    for (std::size_t i = 0; i < state.received.size(); i += 2) {
      state.values[static_cast<std::uint32_t>(state.received[i])] +=
          std::bit_cast<float>(state.received[i + 1]) * share;
    }
    std::size_t first = 0;
    for (const Tensor& gradient : bucket.gradients) {
      from_single(state.values.data() + first, gradient.data);
      first += gradient.data.count;
    }
    return 0;
  }

 private:
  struct State {
    std::vector<float> values;
    std::vector<std::uint32_t> order;  // indices of the elements that are kept
    std::vector<std::int32_t> sent;
    std::vector<std::int32_t> received;
  };

  // Selects the elements of largest magnitude. Of equal magnitudes it takes the first, so that the choice does not
  // depend on the library. A NaN comes first, so that it is seen.
  static void select(State& state, std::size_t kept) {
    const auto magnitude = [&](std::uint32_t i) {
      const float value = std::abs(state.values[i]);
      return std::isnan(value) ? std::numeric_limits<float>::infinity() : value;
    };
    state.order.resize(state.values.size());
    std::iota(state.order.begin(), state.order.end(), 0U);
    const auto larger = [&](std::uint32_t a, std::uint32_t b) {
      return magnitude(a) != magnitude(b) ? magnitude(a) > magnitude(b) : a < b;
    };
    if (kept < state.order.size()) {
      std::nth_element(state.order.begin(), state.order.begin() + static_cast<std::ptrdiff_t>(kept), state.order.end(),
                       larger);
    }
    state.order.resize(kept);
    std::sort(state.order.begin(), state.order.end());
  }

  void remember(const State& state, const GradientBucket& bucket) {
    std::size_t first = 0;
    auto kept = state.order.begin();
    for (const Tensor& gradient : bucket.gradients) {
      const std::span<float> error = feedback_.left_out(gradient);
      std::copy_n(state.values.begin() + static_cast<std::ptrdiff_t>(first), error.size(), error.begin());
      for (; kept != state.order.end() && *kept < first + error.size(); ++kept) error[*kept - first] = 0;
      first += error.size();
    }
  }

  const double density_;
  ErrorFeedback feedback_;
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
