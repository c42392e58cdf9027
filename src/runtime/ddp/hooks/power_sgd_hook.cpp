#include <ddp/compression_hooks.h>
#include <ddp/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/hash.h"
#include "runtime/ddp/hooks/error_feedback.h"
#include "runtime/ddp/hooks/host_only.h"
#include "runtime/ddp/hooks/low_rank.h"
#include "runtime/reduction/reduction.h"

namespace ddp {

using namespace internal;

namespace {

class PowerSgdHook : public CommunicationHook {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options) : options_(options), plain_(make_mean_hook()) {}

  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    require_host(bucket, "PowerSGD");
    if (bucket.index == 0) ++step_;
    if (step_ <= options_.start_step) return plain_->start(group, bucket);

    State& state = states_[bucket.index];
    const float scale = local_scale(bucket, group.size());
    state.values.clear();
    state.left.clear();
    state.right.clear();
    state.whole.clear();
    for (const Tensor& gradient : bucket.gradients) {
      if (!is_compressed(gradient)) {
        const std::span<float> place = grow(state.whole, gradient.data.count);
        to_single(gradient.data, place.data());
        for (float& value : place) value *= scale;
        continue;
      }
      const MatrixShape shape = shape_of(gradient);
      const std::span<float> values = grow(state.values, gradient.data.count);
      feedback_.corrected(gradient, scale, values);
      multiply(shape, values, factor(gradient), grow(state.left, shape.rows * shape.rank));
    }
    Communication result;
    for (std::vector<float>* part : {&state.left, &state.whole}) {
      if (part->empty()) continue;
      result.works.push_back(group.all_reduce(*part, ReduceOp::average, {.name = bucket.name}));
      result.bytes += part->size() * sizeof(float);
    }
    return result;
  }

  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    if (step_ <= options_.start_step) return plain_->finish(group, bucket);
    State& state = states_[bucket.index];
    each_compressed(bucket, state, [](const Tensor&, const Views& views) {
      orthonormalise(views.shape.rows, views.shape.rank, views.left);
      multiply_transposed(views.shape, views.values, views.left, views.right);
    });
    std::size_t bytes = 0;
    if (!state.right.empty()) {
      group.all_reduce(state.right, ReduceOp::average, {.name = bucket.name}).wait();
      bytes = state.right.size() * sizeof(float);
    }
    each_compressed(bucket, state, [&](const Tensor& gradient, const Views& views) {
      approximation_.resize(views.values.size());
      expand(views.shape, views.left, views.right, approximation_);
      const std::span<float> error = feedback_.left_out(gradient);
      for (std::size_t i = 0; i < error.size(); ++i) error[i] = views.values[i] - approximation_[i];
      from_single(approximation_.data(), gradient.data);
      std::copy(views.right.begin(), views.right.end(), factors_[gradient.name].values.begin());
    });
    const float* whole = state.whole.data();
    for (const Tensor& gradient : bucket.gradients) {
      if (is_compressed(gradient)) continue;
      from_single(whole, gradient.data);
      whole += gradient.data.count;
    }
    return bytes;
  }

 private:
  // Holds the data of one bucket. The gradients' parts follow each other.
  struct State {
    std::vector<float> values;  // M, plus the error of previous steps
    std::vector<float> left;    // P of each gradient
    std::vector<float> right;   // Q of each gradient
    std::vector<float> whole;   // gradients that are not compressed
  };
  struct Views {
    MatrixShape shape;
    std::span<float> values;
    std::span<float> left;
    std::span<float> right;
  };
  struct Factor {
    std::vector<float> values;  // Q of the previous step
    std::mt19937_64 random;
  };

  MatrixShape shape_of(const Tensor& gradient) const {
    const auto rows = static_cast<std::size_t>(gradient.shape[0]);
    const std::size_t columns = gradient.data.count / rows;
    return {rows, columns, std::min({static_cast<std::size_t>(options_.rank), rows, columns})};
  }

  bool is_compressed(const Tensor& gradient) const {
    if (gradient.shape.size() < 2 || gradient.data.count == 0) return false;
    const MatrixShape shape = shape_of(gradient);
    return static_cast<double>((shape.rows + shape.columns) * shape.rank) * options_.least_compression <=
           static_cast<double>(gradient.data.count);
  }

  static std::span<float> grow(std::vector<float>& values, std::size_t count) {
    values.resize(values.size() + count);
    return std::span(values).last(count);
  }

  // Returns the factor with which the product begins. The factor of a gradient that was 0 would stay 0 forever. The
  // factor of a gradient that overflowed would not be a number. Such factors are drawn again, with the same values on
  // all ranks.
  std::span<const float> factor(const Tensor& gradient) {
    const MatrixShape shape = shape_of(gradient);
    Factor& factor = factors_[gradient.name];
    if (factor.values.empty()) {
      base::Fnv1a64 hash;
      hash.update(gradient.name);
      factor.random.seed(hash.value() ^ options_.seed);
      factor.values.resize(shape.columns * shape.rank);
    }
    for (std::size_t k = 0; k < shape.rank; ++k) {
      bool is_zero = true;
      bool is_finite = true;
      for (std::size_t j = 0; j < shape.columns; ++j) {
        is_zero = is_zero && factor.values[j * shape.rank + k] == 0;
        is_finite = is_finite && std::isfinite(factor.values[j * shape.rank + k]);
      }
      if (!is_zero && is_finite) continue;
      std::normal_distribution<float> normal;
      for (std::size_t j = 0; j < shape.columns; ++j) factor.values[j * shape.rank + k] = normal(factor.random);
    }
    return factor.values;
  }

  template <typename Function>
  void each_compressed(const GradientBucket& bucket, State& state, const Function& function) {
    std::size_t value = 0;
    std::size_t left = 0;
    std::size_t right = 0;
    for (const Tensor& gradient : bucket.gradients) {
      if (!is_compressed(gradient)) continue;
      const MatrixShape shape = shape_of(gradient);
      const std::size_t right_size = shape.columns * shape.rank;
      state.right.resize(std::max(state.right.size(), right + right_size));
      const Views views{shape, std::span(state.values).subspan(value, gradient.data.count),
                        std::span(state.left).subspan(left, shape.rows * shape.rank),
                        std::span(state.right).subspan(right, right_size)};
      function(gradient, views);
      value += views.values.size();
      left += views.left.size();
      right += right_size;
    }
  }

  const PowerSgdOptions options_;
  const std::shared_ptr<CommunicationHook> plain_;
  std::int64_t step_ = 0;  // counts from 1
  ErrorFeedback feedback_;
  std::map<std::string, Factor> factors_;  // by parameter name
  std::map<std::size_t, State> states_;    // by bucket index
  std::vector<float> approximation_;
};

}  // namespace

std::shared_ptr<CommunicationHook> make_power_sgd_hook(PowerSgdOptions options) {
  if (options.rank < 1 || options.start_step < 0 || !(options.least_compression > 0)) {
    throw Error(ErrorKind::invalid_argument,
                "make_power_sgd_hook: rank must be 1 or more (" + std::to_string(options.rank) +
                    "), start_step 0 or more (" + std::to_string(options.start_step) +
                    "), least_compression more than 0 (" + std::to_string(options.least_compression) + ")");
  }
  return std::make_shared<PowerSgdHook>(options);
}

}  // namespace ddp
