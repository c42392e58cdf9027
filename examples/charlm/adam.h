// This file implements Adam with decoupled weight decay (AdamW): Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter,
// arXiv:1711.05101.
#pragma once

#include <ddp/buffer.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace charlm {

struct AdamOptions {
  double learning_rate = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

class Adam {
 public:
  Adam(std::span<const ddp::Tensor> parameters, const AdamOptions& options) : options_(options) {
    for (const ddp::Tensor& parameter : parameters) {
      parameters_.push_back(parameter);
      first_.emplace_back(parameter.data.count);
      second_.emplace_back(parameter.data.count);
    }
  }

  // Returns the moments for checkpoints: "adam.m.<name>" and "adam.v.<name>".
  std::vector<ddp::Tensor> state() {
    std::vector<ddp::Tensor> tensors;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      tensors.push_back({"adam.m." + parameters_[i].name, first_[i], parameters_[i].shape});
      tensors.push_back({"adam.v." + parameters_[i].name, second_[i], parameters_[i].shape});
    }
    return tensors;
  }

  // Step number `t` counts from 1.
  void step(std::span<const std::span<double>> gradients, std::int64_t t) {
    const double correction1 = 1.0 - std::pow(options_.beta1, static_cast<double>(t));
    const double correction2 = 1.0 - std::pow(options_.beta2, static_cast<double>(t));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto values = parameters_[i].data.as<double>();
      for (std::size_t j = 0; j < values.size(); ++j) {
        const double gradient = gradients[i][j];
        double& m = first_[i][j];
        double& v = second_[i][j];
        m = options_.beta1 * m + (1.0 - options_.beta1) * gradient;
        v = options_.beta2 * v + (1.0 - options_.beta2) * gradient * gradient;
        const double update = (m / correction1) / (std::sqrt(v / correction2) + options_.epsilon);
        values[j] -= options_.learning_rate * (update + options_.weight_decay * values[j]);
      }
    }
  }

 private:
  AdamOptions options_;
  std::vector<ddp::Tensor> parameters_;
  std::vector<std::vector<double>> first_;
  std::vector<std::vector<double>> second_;
};

}  // namespace charlm
