#include "runtime/ddp/hooks/low_rank.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

namespace {

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float& value : result) value = normal(generator);
  return result;
}

double product(const std::vector<float>& p, std::size_t rank, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size() / rank; ++i) sum += static_cast<double>(p[i * rank + a]) * p[i * rank + b];
  return sum;
}

}  // namespace

TEST_CASE("a matrix of low rank is found again from its products") {
  const MatrixShape shape{7, 5, 2};
  const auto left = random_values(7 * 2, 1);
  const auto right = random_values(5 * 2, 2);
  std::vector<float> m(7 * 5);
  expand(shape, left, right, m);

  std::vector<float> p(7 * 2);
  std::vector<float> q = random_values(5 * 2, 3);
  multiply(shape, m, q, p);
  orthonormalise(7, 2, p);
  multiply_transposed(shape, m, p, q);
  std::vector<float> again(7 * 5);
  expand(shape, p, q, again);
  for (std::size_t i = 0; i < m.size(); ++i) CHECK(again[i] == Approx(m[i]).margin(1e-5));
}

TEST_CASE("columns become orthogonal and of length 1") {
  std::vector<float> p = random_values(50 * 4, 4);
  orthonormalise(50, 4, p);
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) CHECK(product(p, 4, a, b) == Approx(a == b ? 1 : 0).margin(1e-5));
  }
}

TEST_CASE("a column that is zero or depends on the others becomes zero") {
  std::vector<float> p;
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i + 1);
    p.insert(p.end(), {value, 0, -3 * value, value * value});
  }
  orthonormalise(6, 4, p);
  CHECK(product(p, 4, 0, 0) == Approx(1));
  CHECK(product(p, 4, 1, 1) == 0);
  CHECK(product(p, 4, 2, 2) == 0);
  CHECK(product(p, 4, 3, 3) == Approx(1));
  CHECK(product(p, 4, 0, 3) == Approx(0).margin(1e-5));
}

TEST_CASE("columns that are 0 or not finite are replaced in host memory") {
  const std::vector<float> fallback = {1, 2, 3, 4, 5, 6};
  std::vector<float> q = {0, 7, std::numeric_limits<float>::infinity(), 0, 0, 8};
  replace_columns({1, 2, 3}, fallback, q);
  CHECK(q == std::vector<float>{1, 7, 3, 4, 0, 6});
}
