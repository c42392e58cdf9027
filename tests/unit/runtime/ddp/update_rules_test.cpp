#include "runtime/ddp/update_rules.h"

#include <cmath>
#include <vector>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

namespace {

// Takes one element through several steps, with a gradient for each.
template <typename T>
class Weight {
 public:
  explicit Weight(double value) : value_(1, T(static_cast<float>(value))) {}

  double step(const Optimizer::Options& options, double gradient) {
    std::vector<T> gradients(1, T(static_cast<float>(gradient)));
    update(options, ++steps_, {value_, ConstBuffer(gradients), first_, second_, Buffer()});
    return static_cast<double>(value_[0]);
  }

 private:
  std::vector<T> value_;
  std::vector<T> first_ = std::vector<T>(1);
  std::vector<T> second_ = std::vector<T>(1);
  std::int64_t steps_ = 0;
};

}  // namespace

// The expected numbers follow from the formulas in optimizer.h by hand; tests/interop compares with torch.optim.
TEST_CASE("SGD steps against the gradient with weight decay") {
  Weight<double> x(1);
  CHECK(x.step(SgdOptions{.learning_rate = 0.1}, 2) == Approx(0.8));
  CHECK(x.step(SgdOptions{.learning_rate = 0.1, .weight_decay = 0.5}, 2) == Approx(0.8 - 0.1 * 2.4));
}

TEST_CASE("momentum starts with the first gradient") {
  const SgdOptions options{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5};
  Weight<double> x(1);
  CHECK(x.step(options, 2) == Approx(1 - 0.1 * 2));
  CHECK(x.step(options, 4) == Approx(0.8 - 0.1 * (0.9 * 2 + 0.5 * 4)));
  Weight<float> y(1);
  const SgdOptions nesterov{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true};
  CHECK(y.step(nesterov, 2) == Approx(1 - 0.1 * (2 + 0.9 * 2)));
  CHECK(y.step(nesterov, 0) == Approx(0.62 - 0.1 * (0.9 * 0.9 * 2)));
}

TEST_CASE("Adam's first step has the size of the learning rate") {
  Weight<double> x(1);
  CHECK(x.step(AdamOptions{.learning_rate = 0.1}, 123) == Approx(0.9));
  Weight<float> y(1);
  CHECK(y.step(AdamOptions{.learning_rate = 0.1}, -1e-3) == Approx(1.1).epsilon(1e-4));
}

TEST_CASE("weight decay is decoupled in AdamW and part of the gradient in Adam") {
  Weight<double> x(1);
  CHECK(x.step(AdamOptions{.learning_rate = 0.1, .weight_decay = 0.5}, 0) == Approx(0.95));
  Weight<double> y(1);
  CHECK(y.step(AdamOptions{.learning_rate = 0.1, .weight_decay = 0.5, .decoupled = false}, 0) == Approx(0.9));
}

TEST_CASE("Adam's second step follows the bias-corrected formula") {
  const AdamOptions options{.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.75};
  Weight<double> x(1);
  x.step(options, 1);
  const double m = 0.5 * 0.5 + 0.5 * 3;
  const double v = 0.75 * 0.25 + 0.25 * 9;
  CHECK(x.step(options, 3) == Approx(0.9 - 0.1 * (m / 0.75) / (std::sqrt(v / (1 - 0.75 * 0.75)))));
}

TEST_CASE("small updates of half-precision parameters are kept in their f32 copy") {
  std::vector<BFloat16> values(1500, BFloat16(1));
  std::vector<BFloat16> gradients(1500, BFloat16(1));
  std::vector<float> master(1500, 1);
  const SgdOptions options{.learning_rate = 1e-3};
  for (std::int64_t step = 1; step <= 8; ++step) {
    update(options, step, {values, ConstBuffer(gradients), Buffer(), Buffer(), master});
  }
  CHECK(master[1499] == Approx(0.992));
  CHECK(static_cast<float>(values[1499]) == static_cast<float>(BFloat16(0.992F)));
}

TEST_CASE("the options determine the number of moments") {
  CHECK(moments_of(SgdOptions{}) == 0);
  CHECK(moments_of(SgdOptions{.momentum = 0.9}) == 1);
  CHECK(moments_of(AdamOptions{}) == 2);
}

TEST_CASE("options out of range are rejected") {
  CHECK(find_fault(SgdOptions{}).empty());
  CHECK(find_fault(AdamOptions{}).empty());
  CHECK(find_fault(SgdOptions{.learning_rate = -1}) == "the learning rate must be 0 or more");
  CHECK(find_fault(SgdOptions{.learning_rate = std::nan("")}) == "the learning rate must be 0 or more");
  CHECK(find_fault(SgdOptions{.nesterov = true}) == "nesterov needs a momentum and no dampening");
  CHECK(find_fault(AdamOptions{.beta2 = 1}) == "beta2 must be in [0, 1)");
}
