// Defines a small model for tests of DistributedDataParallel, and the expected gradients.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/require.h"

namespace ddp::test {

// Has parameters of both types.
struct MixedModel {
  std::vector<float> weight = std::vector<float>(12);
  std::vector<float> bias = std::vector<float>(3);
  std::vector<double> scale = std::vector<double>(1);
  std::vector<Tensor> parameters = {{"weight", weight, {4, 3}}, {"bias", bias, {3}}, {"scale", scale, {}}};

  MixedModel() = default;
  MixedModel(const MixedModel&) = delete;
  MixedModel& operator=(const MixedModel&) = delete;

  void fill(float value) {
    std::fill(weight.begin(), weight.end(), value);
    std::fill(bias.begin(), bias.end(), value + 1);
    std::fill(scale.begin(), scale.end(), value + 2);
  }
};

template <typename T>
void fill_gradient(DistributedDataParallel& data_parallel, std::size_t index, T value) {
  for (T& element : data_parallel.gradient<T>(index)) element = value;
}

template <typename T>
void require_gradient(const DistributedDataParallel& data_parallel, std::size_t index, T value) {
  for (const T element : data_parallel.gradient<T>(index)) {
    if (std::abs(element - value) < T(1e-5)) continue;
    require(false, "gradient " + std::to_string(index) + " holds " + std::to_string(element) + ", not " +
                       std::to_string(value));
  }
}

}  // namespace ddp::test
