// This file implements the character model of model.h on a GPU, with kernels and cuBLAS. All work is on one stream.
#pragma once

#include <ddp/ddp.h>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "charlm/model.h"

namespace charlm {

using Index = std::int64_t;

// These sizes are those of ModelShape.
constexpr Index kContext = 8, kWidth = 16, kHidden = 128, kInputs = kContext * kWidth;

__device__ inline Index own_index() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Sets x[n,k*E] to the embeddings of the k symbols before each position.
__global__ void embed(double* x, const double* embedding, const std::uint8_t* text, const Index* positions,
                      Index count) {
  const Index i = own_index();
  if (i >= count) return;
  const Index symbol = text[positions[i / kInputs] - kContext + i % kInputs / kWidth];
  x[i] = embedding[symbol * kWidth + i % kWidth];
}

__global__ void add_bias_and_tanh(double* h, const double* bias, Index count) {
  const Index i = own_index();
  if (i < count) h[i] = tanh(h[i] + bias[i % kHidden]);
}

// Each thread handles one row. It turns logits without bias into the gradient of the mean loss with respect to them, (p
// - one-hot) / n.
__global__ void softmax_and_loss(double* rows, double* loss, const double* bias, const std::uint8_t* text,
                                 const Index* positions, Index symbols, Index n) {
  const Index i = own_index();
  if (i >= n) return;
  double* row = rows + i * symbols;
  double largest = -INFINITY, sum = 0;
  for (Index j = 0; j < symbols; ++j) largest = fmax(largest, row[j] += bias[j]);
  for (Index j = 0; j < symbols; ++j) sum += row[j] = exp(row[j] - largest);
  const Index target = text[positions[i]];
  loss[i] = -log(row[target] / sum);
  for (Index j = 0; j < symbols; ++j) row[j] = (row[j] / sum - (j == target ? 1 : 0)) / static_cast<double>(n);
}

// Each thread sums one column.
__global__ void add_column_sums(double* sums, const double* rows, Index columns, Index n) {
  const Index j = own_index();
  if (j >= columns) return;
  for (Index i = 0; i < n; ++i) sums[j] += rows[i * columns + j];
}

__global__ void tanh_backward(double* d_h, const double* h, Index count) {
  const Index i = own_index();
  if (i < count) d_h[i] *= 1 - h[i] * h[i];
}

// Each thread handles one element of the table. It adds up the contributions in a fixed order.
__global__ void embed_backward(double* gradient, const double* d_x, const std::uint8_t* text, const Index* positions,
                               Index n, Index count) {
  const Index own = own_index();
  if (own >= count) return;
  for (Index i = 0; i < n; ++i) {
    for (Index c = 0; c < kContext; ++c) {
      if (text[positions[i] - kContext + c] != own / kWidth) continue;
      gradient[own] += d_x[i * kInputs + c * kWidth + own % kWidth];
    }
  }
}

// Implements Kingma and Ba, arXiv:1412.6980. `correction1` and `correction2` are 1 - beta^t.
__global__ void adam(double* values, const double* gradient, double* m, double* v, double rate, double correction1,
                     double correction2, Index count) {
  const Index i = own_index();
  if (i >= count) return;
  m[i] = 0.9 * m[i] + 0.1 * gradient[i];
  v[i] = 0.999 * v[i] + 0.001 * gradient[i] * gradient[i];
  values[i] -= rate * (m[i] / correction1) / (sqrt(v[i] / correction2) + 1e-8);
}

inline void require(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}
inline void require(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cuBLAS: status " + std::to_string(status));
}

// Holds a stream of this rank's GPU and runs operations on it.
struct Gpu {
  explicit Gpu(ddp::ProcessGroup& group) : world(group) {
    require(cudaStreamCreate(&stream));
    require(cublasCreate(&blas));
    require(cublasSetStream(blas, stream));
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    cudaStreamSynchronize(stream);
    cublasDestroy(blas);
    world.forget(stream);
    cudaStreamDestroy(stream);
  }

  template <typename... Parameters, typename... Arguments>
  void run(void (*kernel)(Parameters...), Index threads, Arguments... arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>((threads + 127) / 128));
    config.blockDim = dim3(128);
    config.stream = stream;
    require(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
  }
  // Computes c[m,n] = op(a)[m,k] op(b)[k,n] + beta c, row-major. cuBLAS sees them as transposed matrices in
  // column-major order.
  void multiply(double* c, const double* a, bool transpose_a, const double* b, bool transpose_b, Index m, Index k,
                Index n, double beta = 0) {
    const double one = 1;
    const auto size = [](Index value) { return static_cast<int>(value); };
    require(cublasDgemm(blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, size(n),
                        size(m), size(k), &one, b, size(transpose_b ? k : n), a, size(transpose_a ? m : k), &beta, c,
                        size(n)));
  }
  ddp::Memory memory(Index count, ddp::DataType type = ddp::DataType::f64) {
    return world.allocate(static_cast<std::size_t>(count), type, ddp::DeviceType::cuda);
  }
  ddp::Memory copy_of(ddp::ConstBuffer host) {
    ddp::Memory result = memory(static_cast<Index>(host.count), host.type);
    world.copy(result, host);
    return result;
  }

  ddp::ProcessGroup& world;
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
};

inline double* numbers(const ddp::Buffer& buffer) {
  return static_cast<double*>(buffer.data);
}

// Holds parameters, and activations for up to `rows` positions of the text.
struct GpuModel {
  GpuModel(Gpu& gpu_, const std::vector<std::uint8_t>& text_, Index symbols_, Index rows, std::uint64_t seed)
      : gpu(gpu_),
        symbols(symbols_),
        text(gpu.copy_of(text_)),
        x(gpu.memory(rows * kInputs)),
        h(gpu.memory(rows * kHidden)),
        p(gpu.memory(rows * symbols)),
        d_h(gpu.memory(rows * kHidden)),
        d_x(gpu.memory(rows * kInputs)),
        loss(gpu.memory(rows)) {
    Model on_host({.symbols = static_cast<std::size_t>(symbols)}, seed);
    for (const ddp::Tensor& tensor : on_host.parameters()) {
      memory.push_back(gpu.copy_of(tensor.data));
      parameters.push_back({tensor.name, memory.back(), tensor.shape});
    }
  }
  double* value(ParameterIndex index) { return numbers(parameters[index].data); }
  const std::uint8_t* symbols_of_text() { return static_cast<const std::uint8_t*>(text.buffer().data); }

  // Sets `loss` to the nats of each position.
  void forward(const Index* positions, Index n) {
    gpu.run(embed, n * kInputs, numbers(x), value(kEmbedding), symbols_of_text(), positions, n * kInputs);
    gpu.multiply(numbers(h), numbers(x), false, value(kWeight1), false, n, kInputs, kHidden);
    gpu.run(add_bias_and_tanh, n * kHidden, numbers(h), value(kBias1), n * kHidden);
    gpu.multiply(numbers(p), numbers(h), false, value(kWeight2), false, n, kHidden, symbols);
    gpu.run(softmax_and_loss, n, numbers(p), numbers(loss), value(kBias2), symbols_of_text(), positions, symbols, n);
  }

  // The last layer comes first, so that NCCL averages its gradients while those of the other layers are computed.
  void backward(const Index* positions, Index n, ddp::DistributedDataParallel& data_parallel) {
    const auto gradient = [&](ParameterIndex index) { return numbers(data_parallel.gradient(index)); };
    gpu.run(add_column_sums, symbols, gradient(kBias2), numbers(p), symbols, n);
    data_parallel.mark_ready(kBias2);
    gpu.multiply(gradient(kWeight2), numbers(h), true, numbers(p), false, kHidden, n, symbols, 1);
    data_parallel.mark_ready(kWeight2);
    gpu.multiply(numbers(d_h), numbers(p), false, value(kWeight2), true, n, symbols, kHidden);
    gpu.run(tanh_backward, n * kHidden, numbers(d_h), numbers(h), n * kHidden);
    gpu.run(add_column_sums, kHidden, gradient(kBias1), numbers(d_h), kHidden, n);
    data_parallel.mark_ready(kBias1);
    gpu.multiply(gradient(kWeight1), numbers(x), true, numbers(d_h), false, kInputs, n, kHidden, 1);
    data_parallel.mark_ready(kWeight1);
    gpu.multiply(numbers(d_x), numbers(d_h), false, value(kWeight1), true, n, kHidden, kInputs);
    gpu.run(embed_backward, symbols * kWidth, gradient(kEmbedding), numbers(d_x), symbols_of_text(), positions, n,
            symbols * kWidth);
    data_parallel.mark_ready(kEmbedding);
  }

  double mean_loss(Index n) {
    std::vector<double> nats(static_cast<std::size_t>(n));
    gpu.world.copy(nats, loss.buffer().slice(0, nats.size()), gpu.stream);
    return std::accumulate(nats.begin(), nats.end(), 0.0) / static_cast<double>(n);
  }

  Gpu& gpu;
  const Index symbols;
  ddp::Memory text, x, h, p, d_h, d_x, loss;
  std::vector<ddp::Memory> memory;
  std::vector<ddp::Tensor> parameters;
};

// Implements Adam as adam.h does, without weight decay.
class GpuAdam {
 public:
  GpuAdam(GpuModel& model, double learning_rate) : model_(model), learning_rate_(learning_rate) {
    for (const ddp::Tensor& parameter : model.parameters) {
      first_.push_back(model.gpu.memory(static_cast<Index>(parameter.data.count)));
      second_.push_back(model.gpu.memory(static_cast<Index>(parameter.data.count)));
    }
  }

  // Step number `t` counts from 1.
  void step(const ddp::DistributedDataParallel& data_parallel, Index t) {
    const double correction1 = 1 - std::pow(0.9, static_cast<double>(t));
    const double correction2 = 1 - std::pow(0.999, static_cast<double>(t));
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const ddp::Buffer& values = model_.parameters[i].data;
      const auto count = static_cast<Index>(values.count);
      model_.gpu.run(adam, count, numbers(values), numbers(data_parallel.gradient(i)), numbers(first_[i]),
                     numbers(second_[i]), learning_rate_, correction1, correction2, count);
    }
  }

 private:
  GpuModel& model_;
  const double learning_rate_;
  std::vector<ddp::Memory> first_;
  std::vector<ddp::Memory> second_;
};

}  // namespace charlm
