// This character language model has an embedding of the last `context` characters, one hidden layer, and a softmax over
// the alphabet.
//
//   x = embedding[c1] ++ … ++ embedding[ck]      h = tanh(x W1 + b1)      p = softmax(h W2 + b2)
//
// The model follows Bengio et al., "A Neural Probabilistic Language Model", JMLR 3 (2003). Forward and backward are
// written by hand, and all matrices are row-major. Double precision keeps the parameters equal to far better than 1e-5
// if sums are taken in another order (more ranks).
#pragma once

#include <ddp/buffer.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace charlm {

struct ModelShape {
  std::size_t symbols = 0;     // V in the shapes below
  std::size_t context = 8;     // k in the shapes below
  std::size_t embedding = 16;  // E in the shapes below
  std::size_t hidden = 128;    // H in the shapes below
};

enum ParameterIndex : std::size_t { kEmbedding, kWeight1, kBias1, kWeight2, kBias2, kParameterCount };

class Model {
 public:
  // Initializes random weights, which are the same for the same seed.
  Model(const ModelShape& shape, std::uint64_t seed);

  // Returns embedding [V,E], weight1 [k*E,H], bias1 [H], weight2 [H,V], bias2 [V].
  std::vector<ddp::Tensor> parameters();

  // Returns the mean loss (nats) of predicting text[i] from the `context` symbols before it, over all i in `positions`.
  // Each i is at least `context`.
  double forward(std::span<const std::uint8_t> text, std::span<const std::int64_t> positions);

  // Called when the gradient of a parameter is complete.
  using GradientReady = std::function<void(ParameterIndex)>;

  // Adds the gradient of the last forward's mean loss to `gradients` (in the order of parameters()). Reports each
  // gradient when it is complete, the last layer first.
  void backward(std::span<const std::span<double>> gradients, const GradientReady& ready);

  std::size_t context() const { return shape_.context; }

 private:
  std::span<const double> value(ParameterIndex index) const { return values_[index]; }

  ModelShape shape_;
  std::vector<std::vector<double>> values_;
  // These are values of the last forward, with one row per position.
  std::vector<std::uint8_t> inputs_;   // [n,k]
  std::vector<std::uint8_t> targets_;  // [n]
  std::vector<double> x_;              // [n,k*E]
  std::vector<double> h_;              // [n,H]
  std::vector<double> p_;              // [n,V]
};

}  // namespace charlm
