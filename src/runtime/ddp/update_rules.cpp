#include "runtime/ddp/update_rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

template <typename T>
struct Elements {
  T* values;
  const T* gradient;
  T* first;
  T* second;
  std::size_t count;
};

template <typename T>
void update_elements(const SgdOptions& options, std::int64_t step, const Elements<T>& e) {
  const SgdFactors factors = factors_of(options, step);
  const auto rate = static_cast<T>(factors.rate);
  const auto decay = static_cast<T>(factors.decay);
  const auto momentum = static_cast<T>(factors.momentum);
  const auto fresh = static_cast<T>(factors.fresh);
  const auto kept = static_cast<T>(factors.kept);
  if (options.momentum == 0) {
    for (std::size_t i = 0; i < e.count; ++i) e.values[i] -= rate * (e.gradient[i] + decay * e.values[i]);
    return;
  }
  for (std::size_t i = 0; i < e.count; ++i) {
    const T gradient = e.gradient[i] + decay * e.values[i];
    e.first[i] = kept * e.first[i] + fresh * gradient;
    e.values[i] -= rate * (options.nesterov ? gradient + momentum * e.first[i] : e.first[i]);
  }
}

template <typename T>
void update_elements(const AdamOptions& options, std::int64_t step, const Elements<T>& e) {
  const AdamFactors factors = factors_of(options, step);
  const auto rate = static_cast<T>(factors.rate);
  const auto root = static_cast<T>(factors.root);
  const auto shrink = static_cast<T>(factors.shrink);
  const auto decay = static_cast<T>(factors.decay);
  const auto beta1 = static_cast<T>(factors.beta1);
  const auto beta2 = static_cast<T>(factors.beta2);
  const auto fresh1 = static_cast<T>(factors.fresh1);
  const auto fresh2 = static_cast<T>(factors.fresh2);
  const auto epsilon = static_cast<T>(factors.epsilon);
  for (std::size_t i = 0; i < e.count; ++i) {
    const T gradient = e.gradient[i] + decay * e.values[i];
    e.first[i] = beta1 * e.first[i] + fresh1 * gradient;
    e.second[i] = beta2 * e.second[i] + fresh2 * gradient * gradient;
    e.values[i] = shrink * e.values[i] - rate * e.first[i] / (std::sqrt(e.second[i]) / root + epsilon);
  }
}

template <typename T>
void update_all(const Optimizer::Options& options, std::int64_t step, const Elements<T>& elements) {
  std::visit([&](const auto& chosen) { update_elements(chosen, step, elements); }, options);
}

template <typename T>
T* begin(const Buffer& buffer, std::size_t first) {
  return buffer.count == 0 ? nullptr : static_cast<T*>(buffer.data) + first;
}

// Updates the f32 copy. The gradients are widened in blocks that stay in the cache.
void update_halves(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements) {
  std::array<float, 1024> gradient;
  for (std::size_t first = 0; first < elements.values.count; first += gradient.size()) {
    const std::size_t count = std::min(gradient.size(), elements.values.count - first);
    to_single(elements.gradient.slice(first, count), gradient.data());
    for (float& value : gradient) value *= static_cast<float>(elements.gradient_factor);
    float* master = begin<float>(elements.master, first);
    update_all<float>(
        options, step,
        {master, gradient.data(), begin<float>(elements.first, first), begin<float>(elements.second, first), count});
    from_single(master, elements.values.slice(first, count));
  }
}

template <typename T>
void update_whole(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements) {
  if (elements.gradient_factor != 1) {
    const auto* gradient = static_cast<const T*>(elements.gradient.data);
    std::vector<T> scaled(gradient, gradient + elements.gradient.count);
    for (T& value : scaled) value *= static_cast<T>(elements.gradient_factor);
    UpdatedElements plain = elements;
    plain.gradient.data = scaled.data();
    plain.gradient_factor = 1;
    return update_whole<T>(options, step, plain);
  }
  update_all<T>(options, step,
                {begin<T>(elements.values, 0), static_cast<const T*>(elements.gradient.data),
                 begin<T>(elements.first, 0), begin<T>(elements.second, 0), elements.values.count});
}

std::string fault_of(const SgdOptions& options) {
  if (!(options.learning_rate >= 0)) return "the learning rate must be 0 or more";
  if (!(options.momentum >= 0)) return "the momentum must be 0 or more";
  if (!(options.weight_decay >= 0)) return "the weight decay must be 0 or more";
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    return "nesterov needs a momentum and no dampening";
  }
  return "";
}

std::string fault_of(const AdamOptions& options) {
  if (!(options.learning_rate >= 0)) return "the learning rate must be 0 or more";
  if (!(options.epsilon >= 0)) return "epsilon must be 0 or more";
  if (!(options.beta1 >= 0 && options.beta1 < 1)) return "beta1 must be in [0, 1)";
  if (!(options.beta2 >= 0 && options.beta2 < 1)) return "beta2 must be in [0, 1)";
  if (!(options.weight_decay >= 0)) return "the weight decay must be 0 or more";
  return "";
}

}  // namespace

int moments_of(const Optimizer::Options& options) {
  const auto* sgd = std::get_if<SgdOptions>(&options);
  if (sgd == nullptr) return 2;
  return sgd->momentum == 0 ? 0 : 1;
}

void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements) {
  DDP_CHECK(step >= 1 && elements.gradient.count == elements.values.count, step, elements.gradient.count);
  switch (elements.values.type) {
    case DataType::f64:
      return update_whole<double>(options, step, elements);
    case DataType::f32:
      return update_whole<float>(options, step, elements);
    default:
      return update_halves(options, step, elements);
  }
}

std::string find_fault(const Optimizer::Options& options) {
  return std::visit([](const auto& chosen) { return fault_of(chosen); }, options);
}

}  // namespace ddp::internal
