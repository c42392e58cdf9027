// Tests the mathematics of the compression hooks in host memory, and compares the kernels with it. The kernels run in
// software, or on this computer's GPU (DDP_TEST_GPU=1).
#include "runtime/ddp/hooks/compression_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/catch.h"
#include "support/gpu_arrays.h"
#include "support/random_seed.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

CompressionMath host_math() {
  return {nullptr, Stream()};
}

CompressionMath gpu_math(const GpuUnderTest& gpu) {
  return {gpu.math.get(), gpu.stream};
}

// Returns the indices of the elements with the largest magnitudes, as CompressionMath defines them.
std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t kept) {
  const auto magnitude = [&](std::uint32_t i) {
    return std::isnan(values[i]) ? std::numeric_limits<float>::infinity() : std::abs(values[i]);
  };
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return magnitude(a) > magnitude(b); });
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

void require_largest(GpuUnderTest& gpu, GpuArray& values, std::size_t kept) {
  CAPTURE(kept);
  const std::vector<std::uint32_t> expected = largest(values.values<float>(), kept);
  GpuArray indices(gpu, DataType::i32, kept);
  GpuArray picked(gpu, DataType::f32, kept);
  gpu_math(gpu).take_largest(values.gpu(), indices.gpu(), picked.gpu());
  REQUIRE(indices.downloaded<std::uint32_t>() == expected);
  for (std::size_t k = 0; k < kept; ++k) {
    picked.values<float>()[k] = values.values<float>()[expected[k]];
    values.values<float>()[expected[k]] = 0;
  }
  REQUIRE(picked.first_difference() == -1);
  REQUIRE(values.first_difference() == -1);
}

// Holds the matrices of a low-rank approximation.
struct Matrices {
  Matrices(GpuUnderTest& gpu, const MatrixShape& shape_, std::mt19937_64& random)
      : shape(shape_),
        m(gpu, DataType::f32, shape.rows * shape.columns),
        p(gpu, DataType::f32, shape.rows * shape.rank),
        q(gpu, DataType::f32, shape.columns * shape.rank) {
    for (GpuArray* array : {&m, &p, &q}) array->fill(random, false);
  }

  MatrixShape shape;
  GpuArray m;
  GpuArray p;
  GpuArray q;
};

constexpr std::array<MatrixShape, 6> kShapes = {MatrixShape{1, 1, 1}, {5, 7, 2},      {64, 300, 4},
                                                {300, 64, 9},         {33, 1'000, 5}, {1'000, 3, 3}};

// Returns whether all elements on the GPU are those on the host, up to the rounding of sums of `terms` products.
bool is_close(GpuArray& array, std::size_t terms) {
  const std::vector<float> on_gpu = array.downloaded<float>();
  const auto limit = 1e-6 * std::sqrt(static_cast<double>(terms)) * 8;
  return std::ranges::equal(on_gpu, array.values<float>(), [&](float a, float b) { return std::abs(a - b) <= limit; });
}

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

TEST_CASE("the largest elements are selected in order, with the first of equal magnitudes and NaN like infinity") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  GpuUnderTest gpu;
  for (const std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{1'025}, std::size_t{60'000}}) {
    for (const std::size_t kept : {std::size_t{0}, std::size_t{1}, count / 100, count / 2, count}) {
      for (const bool has_few_values : {false, true}) {
        CAPTURE(count, has_few_values);
        GpuArray values(gpu, DataType::f32, count, kept % 2);
        values.fill(random);
        if (has_few_values) {
          for (float& value : values.values<float>()) value = static_cast<float>(static_cast<int>(random() % 5) - 2);
          values.upload();
        }
        require_largest(gpu, values, kept);
      }
    }
  }
}

TEST_CASE("more elements than one pass of all blocks holds can be selected") {
  std::mt19937_64 random(7);
  GpuUnderTest gpu;
  GpuArray values(gpu, DataType::f32, 400'000);
  values.fill(random);
  require_largest(gpu, values, 5'000);
}

TEST_CASE("selected elements are added back at their positions") {
  std::mt19937_64 random(3);
  GpuUnderTest gpu;
  constexpr std::size_t kCount = 2'000;
  GpuArray indices(gpu, DataType::i32, kCount / 3);
  GpuArray values(gpu, DataType::f32, kCount / 3);
  GpuArray to(gpu, DataType::f32, kCount);
  values.fill(random);
  to.fill(random);
  for (std::size_t k = 0; k < kCount / 3; ++k) {
    indices.values<std::int32_t>()[k] = static_cast<std::int32_t>(3 * k + k % 3);
    to.values<float>()[3 * k + k % 3] += values.values<float>()[k] * 0.3F;
  }
  indices.upload();
  gpu_math(gpu).scatter_add(indices.gpu(), values.gpu(), 0.3, to.gpu());
  CHECK(to.first_difference() == -1);
}

TEST_CASE("a matrix of low rank is reconstructed from its products") {
  const MatrixShape shape{7, 5, 2};
  const auto left = random_values(7 * 2, 1);
  const auto right = random_values(5 * 2, 2);
  std::vector<float> m(7 * 5);
  host_math().expand(shape, left, right, m);

  std::vector<float> p(7 * 2);
  std::vector<float> q = random_values(5 * 2, 3);
  host_math().multiply(shape, m, q, p);
  host_math().orthonormalise(shape, p);
  host_math().multiply_transposed(shape, m, p, q);
  std::vector<float> again(7 * 5);
  host_math().expand(shape, p, q, again);
  for (std::size_t i = 0; i < m.size(); ++i) CHECK(again[i] == Approx(m[i]).margin(1e-5));
}

TEST_CASE("columns are made orthogonal with length 1") {
  std::vector<float> p = random_values(50 * 4, 4);
  host_math().orthonormalise({50, 1, 4}, p);
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) CHECK(product(p, 4, a, b) == Approx(a == b ? 1 : 0).margin(1e-5));
  }
}

TEST_CASE("a column that is zero or depends on others becomes zero") {
  std::vector<float> p;
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i + 1);
    p.insert(p.end(), {value, 0, -3 * value, value * value});
  }
  host_math().orthonormalise({6, 1, 4}, p);
  CHECK(product(p, 4, 0, 0) == Approx(1));
  CHECK(product(p, 4, 1, 1) == 0);
  CHECK(product(p, 4, 2, 2) == 0);
  CHECK(product(p, 4, 3, 3) == Approx(1));
  CHECK(product(p, 4, 0, 3) == Approx(0).margin(1e-5));
}

TEST_CASE("columns that are 0 or not finite are replaced in host memory") {
  const std::vector<float> fallback = {1, 2, 3, 4, 5, 6};
  std::vector<float> q = {0, 7, std::numeric_limits<float>::infinity(), 0, 0, 8};
  host_math().replace_columns({1, 2, 3}, fallback, q);
  CHECK(q == std::vector<float>{1, 7, 3, 4, 0, 6});
}

TEST_CASE("matrix products on the GPU equal those of the host") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  GpuUnderTest gpu;
  for (const MatrixShape& shape : kShapes) {
    CAPTURE(shape.rows, shape.columns, shape.rank);
    Matrices x(gpu, shape, random);
    Matrices y(gpu, shape, random);
    host_math().multiply(shape, x.m.host(), x.q.host(), y.p.host());
    gpu_math(gpu).multiply(shape, x.m.gpu(), x.q.gpu(), y.p.gpu());
    CHECK(is_close(y.p, shape.columns));
    host_math().multiply_transposed(shape, x.m.host(), x.p.host(), y.q.host());
    gpu_math(gpu).multiply_transposed(shape, x.m.gpu(), x.p.gpu(), y.q.gpu());
    CHECK(is_close(y.q, shape.rows));
    host_math().expand(shape, x.p.host(), x.q.host(), y.m.host());
    gpu_math(gpu).expand(shape, x.p.gpu(), x.q.gpu(), y.m.gpu());
    CHECK(y.m.first_difference() == -1);
  }
}

TEST_CASE("columns are orthonormalised as on the host and reproducibly") {
  std::mt19937_64 random(11);
  GpuUnderTest gpu;
  for (const MatrixShape& shape : kShapes) {
    if (shape.rows < shape.rank) continue;
    CAPTURE(shape.rows, shape.rank);
    Matrices x(gpu, shape, random);
    gpu_math(gpu).orthonormalise(shape, x.p.gpu());
    const std::vector<float> once = x.p.downloaded<float>();
    x.p.upload();
    gpu_math(gpu).orthonormalise(shape, x.p.gpu());
    CHECK(x.p.downloaded<float>() == once);
    host_math().orthonormalise(shape, x.p.host());
    CHECK(is_close(x.p, 1));
  }
}

TEST_CASE("a column that is 0 or depends on earlier ones becomes 0") {
  std::mt19937_64 random(12);
  GpuUnderTest gpu;
  const MatrixShape shape{200, 1, 4};
  Matrices x(gpu, shape, random);
  const std::span<float> p = x.p.values<float>();
  for (std::size_t i = 0; i < shape.rows; ++i) {
    p[i * 4 + 1] = 0;
    p[i * 4 + 2] = -3 * p[i * 4];
  }
  x.p.upload();
  gpu_math(gpu).orthonormalise(shape, x.p.gpu());
  host_math().orthonormalise(shape, x.p.host());
  CHECK(is_close(x.p, 1));
  const std::vector<float> on_gpu = x.p.downloaded<float>();
  for (std::size_t i = 0; i < shape.rows; ++i) CHECK((on_gpu[i * 4 + 1] == 0 && on_gpu[i * 4 + 2] == 0));
}

TEST_CASE("columns that are 0 or not finite are replaced, and other columns are not") {
  std::mt19937_64 random(13);
  GpuUnderTest gpu;
  const MatrixShape shape{1, 300, 5};
  for (int repetition = 0; repetition < 8; ++repetition) {
    Matrices x(gpu, shape, random);
    Matrices fallback(gpu, shape, random);
    const std::span<float> q = x.q.values<float>();
    const auto replace_on_host = [&](std::size_t k) {
      for (std::size_t j = 0; j < shape.columns; ++j) q[j * 5 + k] = fallback.q.values<float>()[j * 5 + k];
    };
    for (std::size_t j = 0; j < shape.columns; ++j) q[j * 5] = 0;
    q[299 * 5 + 2] = std::numeric_limits<float>::infinity();
    q[7 * 5 + 4] = std::nanf("");
    q[3 * 5 + 1] = 0;
    x.q.upload();
    gpu_math(gpu).replace_columns(shape, fallback.q.gpu(), x.q.gpu());
    for (const std::size_t k : {0, 2, 4}) replace_on_host(k);
    CHECK(x.q.first_difference() == -1);
  }
}
