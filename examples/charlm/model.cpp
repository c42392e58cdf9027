#include "charlm/model.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace charlm {
namespace {

// Computes c[m,n] += a[m,k] b[k,n].
void add_product(std::span<double> c, std::span<const double> a, std::span<const double> b, std::size_t m,
                 std::size_t k, std::size_t n) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const double factor = a[i * k + l];
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += factor * b[l * n + j];
    }
  }
}

// Computes c[k,n] += transposed a[m,k] times b[m,n].
void add_transposed_product(std::span<double> c, std::span<const double> a, std::span<const double> b, std::size_t m,
                            std::size_t k, std::size_t n) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const double factor = a[i * k + l];
      for (std::size_t j = 0; j < n; ++j) c[l * n + j] += factor * b[i * n + j];
    }
  }
}

// Returns c[m,k] = a[m,n] times transposed b[k,n].
std::vector<double> product_transposed(std::span<const double> a, std::span<const double> b, std::size_t m,
                                       std::size_t n, std::size_t k) {
  std::vector<double> transposed(n * k);
  for (std::size_t l = 0; l < k; ++l) {
    for (std::size_t j = 0; j < n; ++j) transposed[j * k + l] = b[l * n + j];
  }
  std::vector<double> c(m * k);
  add_product(c, a, transposed, m, n, k);
  return c;
}

// Sums the rows of a[m,n] into c[n].
void add_row_sum(std::span<double> c, std::span<const double> a) {
  for (std::size_t i = 0; i < a.size(); ++i) c[i % c.size()] += a[i];
}

std::vector<double> repeat_row(std::span<const double> row, std::size_t times) {
  std::vector<double> result;
  result.reserve(row.size() * times);
  for (std::size_t i = 0; i < times; ++i) result.insert(result.end(), row.begin(), row.end());
  return result;
}

void softmax_rows(std::span<double> rows, std::size_t n) {
  for (std::size_t first = 0; first < rows.size(); first += n) {
    const auto row = rows.subspan(first, n);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value - largest);
    for (double& value : row) value /= sum;
  }
}

}  // namespace

Model::Model(const ModelShape& shape, std::uint64_t seed) : shape_(shape), values_(kParameterCount) {
  const std::size_t inputs = shape.context * shape.embedding;
  std::mt19937_64 generator(seed);
  // The uniform numbers are computed here, because the standard's distributions differ between libraries.
  const auto fill = [&](ParameterIndex index, std::size_t count, double bound) {
    values_[index].resize(count);
    for (double& value : values_[index]) {
      value = bound * (2.0 * static_cast<double>(generator() >> 11) / 9007199254740992.0 - 1.0);
    }
  };
  fill(kEmbedding, shape.symbols * shape.embedding, 0.5);
  fill(kWeight1, inputs * shape.hidden, std::sqrt(3.0 / static_cast<double>(inputs)));
  fill(kBias1, shape.hidden, 0);
  fill(kWeight2, shape.hidden * shape.symbols, std::sqrt(0.3 / static_cast<double>(shape.hidden)));
  fill(kBias2, shape.symbols, 0);
}

std::vector<ddp::Tensor> Model::parameters() {
  const auto size = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  return {{"embedding", values_[kEmbedding], {size(shape_.symbols), size(shape_.embedding)}},
          {"weight1", values_[kWeight1], {size(shape_.context * shape_.embedding), size(shape_.hidden)}},
          {"bias1", values_[kBias1], {size(shape_.hidden)}},
          {"weight2", values_[kWeight2], {size(shape_.hidden), size(shape_.symbols)}},
          {"bias2", values_[kBias2], {size(shape_.symbols)}}};
}

double Model::forward(std::span<const std::uint8_t> text, std::span<const std::int64_t> positions) {
  const std::size_t n = positions.size();
  const std::size_t k = shape_.context;
  const std::size_t e = shape_.embedding;
  inputs_.clear();
  targets_.clear();
  x_.clear();
  for (const std::int64_t position : positions) {
    const auto target = static_cast<std::size_t>(position);
    targets_.push_back(text[target]);
    for (std::size_t i = target - k; i < target; ++i) {
      inputs_.push_back(text[i]);
      const auto row = value(kEmbedding).subspan(text[i] * e, e);
      x_.insert(x_.end(), row.begin(), row.end());
    }
  }
  h_ = repeat_row(value(kBias1), n);
  add_product(h_, x_, value(kWeight1), n, k * e, shape_.hidden);
  for (double& unit : h_) unit = std::tanh(unit);
  p_ = repeat_row(value(kBias2), n);
  add_product(p_, h_, value(kWeight2), n, shape_.hidden, shape_.symbols);
  softmax_rows(p_, shape_.symbols);

  double nats = 0;
  for (std::size_t i = 0; i < n; ++i) nats -= std::log(p_[i * shape_.symbols + targets_[i]]);
  return nats / static_cast<double>(n);
}

void Model::backward(std::span<const std::span<double>> gradients, const GradientReady& ready) {
  const std::size_t n = targets_.size();
  const std::size_t inputs = shape_.context * shape_.embedding;

  // The gradient of mean cross-entropy with respect to the logits is (p - one-hot target) / n.
  std::vector<double> d_logits = p_;
  for (std::size_t i = 0; i < n; ++i) d_logits[i * shape_.symbols + targets_[i]] -= 1.0;
  for (double& value : d_logits) value /= static_cast<double>(n);
  add_row_sum(gradients[kBias2], d_logits);
  ready(kBias2);
  add_transposed_product(gradients[kWeight2], h_, d_logits, n, shape_.hidden, shape_.symbols);
  ready(kWeight2);

  std::vector<double> d_h = product_transposed(d_logits, value(kWeight2), n, shape_.symbols, shape_.hidden);
  for (std::size_t i = 0; i < d_h.size(); ++i) d_h[i] *= 1.0 - h_[i] * h_[i];
  add_row_sum(gradients[kBias1], d_h);
  ready(kBias1);
  add_transposed_product(gradients[kWeight1], x_, d_h, n, inputs, shape_.hidden);
  ready(kWeight1);

  const std::vector<double> d_x = product_transposed(d_h, value(kWeight1), n, shape_.hidden, inputs);
  for (std::size_t i = 0; i < d_x.size(); ++i) {
    const std::size_t symbol = inputs_[i / shape_.embedding];
    gradients[kEmbedding][symbol * shape_.embedding + i % shape_.embedding] += d_x[i];
  }
  ready(kEmbedding);
}

}  // namespace charlm
