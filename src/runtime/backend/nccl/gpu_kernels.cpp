#include "runtime/backend/nccl/gpu_kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/backend/nccl/kernels/kernels_text.h"
#include "runtime/reduction/ordered.h"

namespace ddp::internal {
namespace {

// These constants are those of the kernels: threads of a block, and elements that a thread loads at once.
constexpr unsigned kThreads = 256;
constexpr std::uint64_t kTile = std::uint64_t{kThreads} * 4;
// This many blocks fill the largest GPUs of today. The number must not depend on the GPU, because sums depend on it.
constexpr std::uint64_t kMostBlocks = 1024;
constexpr std::uint64_t kMostSelectingBlocks = kThreads;  // one block adds up their counts
constexpr std::uint64_t kMostMatrixBlocks = 1 << 16;
constexpr std::uint64_t kColumnsPerBlock = 32;

// This is the size of the kernels' Selection, rounded up. The counts of the blocks follow it.
constexpr std::size_t kSelectionBytes = 2304;

std::uint64_t blocks_for(std::uint64_t count, std::uint64_t per_block, std::uint64_t most) {
  return std::clamp((count + per_block - 1) / per_block, std::uint64_t{1}, most);
}
std::uint64_t blocks_for(const ConstBuffer& buffer) {
  return blocks_for(buffer.count, kTile, kMostBlocks);
}

template <typename T>
KernelParameter parameter(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return {&value, "f64"};
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return {&value, "u32"};
  } else {
    static_assert(std::is_pointer_v<T> || std::is_same_v<T, std::uint64_t>);
    return {&value, "u64"};
  }
}

std::string name(const std::string& operation, DataType type) {
  return operation + "_" + std::string(to_string(type));
}
std::string name(const std::string& operation, DataType from, DataType to) {
  return name(name(operation, from), to);
}

// Returns the names of all kernels in the text.
std::vector<std::string> kernel_names() {
  constexpr std::string_view kEntry = ".entry ";
  const std::string_view text = kKernelsText;
  std::vector<std::string> names;
  for (std::size_t at = text.find(kEntry); at != std::string_view::npos; at = text.find(kEntry, at)) {
    at += kEntry.size();
    names.emplace_back(text.substr(at, text.find('(', at) - at));
  }
  return names;
}

void require_values(const ConstBuffer& buffer) {
  DDP_CHECK(is_floating_point(buffer.type) && buffer.device == DeviceType::cuda, to_string(buffer.type));
}

}  // namespace

std::unique_ptr<GpuKernels> GpuKernels::load(const std::shared_ptr<const GpuLibraries>& libraries, int device,
                                             std::shared_ptr<GpuHeap> heap) {
  const CudaApi& cuda = libraries->cuda;
  const GpuScope scope(cuda, device);
  const std::lock_guard lock(libraries->kernels->mutex);
  Functions& loaded = libraries->kernels->by_gpu[device];
  CudaStatus status = kCudaSuccess;
  if (loaded.empty()) {
    CudaModuleHandle module = nullptr;
    Functions functions;
    status = cuda.load_module(module, kKernelsText);
    for (const std::string& kernel : kernel_names()) {
      if (status == kCudaSuccess) status = cuda.find_function(functions[kernel], module, kernel.c_str());
    }
    if (status == kCudaSuccess) loaded = std::move(functions);
  }
  if (status == kCudaSuccess) {
    return std::unique_ptr<GpuKernels>(new GpuKernels(libraries, device, loaded, std::move(heap)));
  }
  if (!std::exchange(libraries->kernels->is_refusal_reported, true)) {
    std::fprintf(
        stderr,
        "ddp: warning: the NVIDIA driver cannot load the runtime's kernels (%s), so compression, gradient "
        "clipping, loss scaling and optimizers do not work in GPU memory. They need a GPU from Volta on, and a "
        "driver from CUDA 11 on\n",
        cuda.error_name(status).c_str());
  }
  return nullptr;
}

template <typename... Values>
void GpuKernels::launch(const std::string& name, std::uint64_t blocks, Stream stream, const Values&... values) {
  const GpuScope scope(cuda_, device_);
  heap_->follow(stream.handle());
  const std::array parameters{parameter(values)...};
  const std::string kernel = "ddp_" + name;
  require_cuda(
      cuda_, cuda_.launch(functions_.at(kernel), static_cast<unsigned>(blocks), kThreads, parameters, stream.handle()),
      "start the kernel " + kernel);
}

GpuKernels::Scratch& GpuKernels::scratch(Stream stream) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Scratch>& found = scratch_[stream.handle()];
  if (!found) found = std::make_unique<Scratch>();
  return *found;
}

std::byte* GpuKernels::reserve(Scratch& scratch, std::size_t bytes) {
  Scratch::Piece& piece = scratch.device;
  if (bytes > piece.bytes) {
    const std::size_t wanted = std::max(bytes, 2 * piece.bytes);
    piece = {heap_->allocate(wanted), wanted};
  }
  return static_cast<std::byte*>(piece.memory.get());
}

const std::byte* GpuKernels::fetch(Scratch& scratch, std::size_t bytes, Stream stream) {
  const GpuScope scope(cuda_, device_);
  Scratch::Piece& piece = scratch.pinned;
  if (bytes > piece.bytes) {
    const std::size_t wanted = std::max(bytes, 2 * piece.bytes);
    piece = {heap_->allocate_pinned(wanted), wanted};
  }
  void* to = piece.memory.get();
  require_cuda(cuda_, cuda_.copy_async(to, scratch.device.memory.get(), bytes, stream.handle()), "copy a result");
  heap_->wait_for(stream.handle());
  return static_cast<const std::byte*>(to);
}

void GpuKernels::to_ordered(const ConstBuffer& from, bool nan_is_largest, const Buffer& to, Stream stream) {
  require_values(from);
  DDP_CHECK(from.count == to.count && to.type == ordered_type(from.type), from.count, to.count);
  if (to.count == 0) return;
  launch(name("to_ordered", from.type), blocks_for(to), stream, from.data, to.data, std::uint64_t{to.count},
         std::uint32_t{nan_is_largest});
}

void GpuKernels::from_ordered(const ConstBuffer& from, const Buffer& to, Stream stream) {
  require_values(to);
  DDP_CHECK(from.count == to.count && from.type == ordered_type(to.type), from.count, to.count);
  if (to.count == 0) return;
  launch(name("from_ordered", to.type), blocks_for(to), stream, from.data, to.data, std::uint64_t{to.count});
}

void GpuKernels::scale(const Buffer& values, double factor, Stream stream) {
  if (factor != 1) convert(values, values, factor, stream);
}

void GpuKernels::convert(const ConstBuffer& from, const Buffer& to, double factor, Stream stream) {
  require_values(from);
  require_values(to);
  DDP_CHECK(from.count == to.count, from.count, to.count);
  if (to.count == 0) return;
  launch(name("convert", from.type, to.type), blocks_for(to), stream, from.data, to.data, std::uint64_t{to.count},
         factor);
}

void GpuKernels::add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to, Stream stream) {
  DDP_CHECK(from.type == DataType::f32 && to.type == DataType::f32, to_string(from.type), to_string(to.type));
  DDP_CHECK(from.count == to.count, from.count, to.count);
  if (to.count == 0) return;
  launch("add", blocks_for(to), stream, from.data, to.data, std::uint64_t{to.count}, factor,
         std::uint32_t{only_finite});
}

// Every block writes its sum, and the host adds them up in their order.
double GpuKernels::sum_of_squares(std::span<const ConstBuffer> buffers, Stream stream) {
  std::size_t sums = 0;
  for (const ConstBuffer& buffer : buffers) {
    require_values(buffer);
    if (buffer.count > 0) sums += blocks_for(buffer);
  }
  if (sums == 0) return 0;
  Scratch& memory = scratch(stream);
  auto* place = reinterpret_cast<double*>(reserve(memory, sums * sizeof(double)));
  for (const ConstBuffer& buffer : buffers) {
    if (buffer.count == 0) continue;
    const std::uint64_t blocks = blocks_for(buffer);
    launch(name("sum_of_squares", buffer.type), blocks, stream, buffer.data, std::uint64_t{buffer.count}, place);
    place += blocks;
  }
  const auto* results = reinterpret_cast<const double*>(fetch(memory, sums * sizeof(double), stream));
  return std::accumulate(results, results + sums, 0.0);
}

bool GpuKernels::are_finite(std::span<const ConstBuffer> buffers, Stream stream) {
  Scratch& memory = scratch(stream);
  auto* found = reinterpret_cast<std::uint32_t*>(reserve(memory, sizeof(std::uint32_t)));
  const GpuScope scope(cuda_, device_);
  require_cuda(cuda_, cuda_.zero_async(found, sizeof *found, stream.handle()), "clear memory");
  for (const ConstBuffer& buffer : buffers) {
    require_values(buffer);
    if (buffer.count == 0) continue;
    launch(name("find_infinite", buffer.type), blocks_for(buffer), stream, buffer.data, std::uint64_t{buffer.count},
           found);
  }
  std::uint32_t result = 0;
  std::memcpy(&result, fetch(memory, sizeof result, stream), sizeof result);
  return result == 0;
}

void GpuKernels::update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements,
                        Stream stream) {
  const Buffer& values = elements.values;
  require_values(values);
  DDP_CHECK(step >= 1 && elements.gradient.count == values.count && elements.gradient.type == values.type, step,
            elements.gradient.count, values.count);
  if (values.count == 0) return;
  const bool is_half = size_of(values.type) == 2;
  void* const master = is_half ? elements.master.data : values.data;
  const std::uint64_t count = values.count;
  const std::uint64_t blocks = blocks_for(values);
  if (const auto* adam = std::get_if<AdamOptions>(&options)) {
    const AdamFactors f = factors_of(*adam, step);
    return launch(name("update_adam", values.type), blocks, stream, values.data, elements.gradient.data, master,
                  elements.first.data, elements.second.data, count, elements.gradient_factor, f.rate, f.root, f.shrink,
                  f.decay, f.beta1, f.beta2, f.fresh1, f.fresh2, f.epsilon);
  }
  const auto& sgd = std::get<SgdOptions>(options);
  const SgdFactors f = factors_of(sgd, step);
  if (sgd.momentum == 0) {
    return launch(name("update_sgd", values.type), blocks, stream, values.data, elements.gradient.data, master, count,
                  elements.gradient_factor, f.rate, f.decay);
  }
  launch(name("update_momentum", values.type), blocks, stream, values.data, elements.gradient.data, master,
         elements.first.data, count, elements.gradient_factor, f.rate, f.decay, f.momentum, f.kept, f.fresh,
         std::uint32_t{sgd.nesterov});
}

// Finds the smallest magnitude that is taken by its digits in base 256, from the highest one. Then each block of a
// range of its own counts what it takes, so that it knows the places of its elements.
void GpuKernels::take_largest(const Buffer& values, const Buffer& indices, const Buffer& picked, Stream stream) {
  const std::uint64_t count = values.count;
  const std::uint64_t taken = indices.count;
  DDP_CHECK(taken <= count && picked.count == taken, taken, count, picked.count);
  if (taken == 0) return;
  const std::uint64_t blocks = blocks_for(count, kTile, kMostSelectingBlocks);
  std::byte* selection = reserve(scratch(stream), kSelectionBytes + blocks * 2 * sizeof(std::uint64_t));
  std::byte* counts = selection + kSelectionBytes;
  launch("select_begin", 1, stream, selection, taken);
  for (const std::uint32_t shift : {24U, 16U, 8U, 0U}) {
    launch("select_count", blocks_for(values), stream, values.data, count, selection, shift);
    launch("select_digit", 1, stream, selection, shift);
  }
  launch("select_count_blocks", blocks, stream, values.data, count, selection, counts);
  launch("select_offsets", 1, stream, counts, static_cast<std::uint32_t>(blocks));
  launch("select_take", blocks, stream, values.data, count, selection, counts, indices.data, picked.data);
}

void GpuKernels::scatter_add(const ConstBuffer& indices, const ConstBuffer& values, double factor, const Buffer& to,
                             Stream stream) {
  DDP_CHECK(indices.count == values.count, indices.count, values.count);
  if (values.count == 0) return;
  launch("scatter_add", blocks_for(values), stream, indices.data, values.data, std::uint64_t{values.count}, factor,
         to.data);
}

void GpuKernels::multiply(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& q, const Buffer& p,
                          Stream stream) {
  if (p.count == 0) return;
  launch("multiply", blocks_for(shape.rows, 1, kMostMatrixBlocks), stream, m.data, q.data, p.data,
         std::uint64_t{shape.rows}, std::uint64_t{shape.columns}, std::uint64_t{shape.rank});
}

void GpuKernels::multiply_transposed(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& p,
                                     const Buffer& q, Stream stream) {
  if (q.count == 0) return;
  launch("multiply_transposed", blocks_for(shape.columns, kColumnsPerBlock, kMostMatrixBlocks), stream, m.data, p.data,
         q.data, std::uint64_t{shape.rows}, std::uint64_t{shape.columns}, std::uint64_t{shape.rank});
}

void GpuKernels::expand(const MatrixShape& shape, const ConstBuffer& p, const ConstBuffer& q, const Buffer& m,
                        Stream stream) {
  if (m.count == 0) return;
  launch("expand", blocks_for(m.count, kThreads, kMostBlocks), stream, p.data, q.data, m.data,
         std::uint64_t{shape.rows}, std::uint64_t{shape.columns}, std::uint64_t{shape.rank});
}

void GpuKernels::orthonormalise(const MatrixShape& shape, const Buffer& p, Stream stream) {
  if (p.count == 0) return;
  launch("orthonormalise", 1, stream, p.data, std::uint64_t{shape.rows}, std::uint64_t{shape.rank});
}

void GpuKernels::replace_columns(const MatrixShape& shape, const ConstBuffer& fallback, const Buffer& q,
                                 Stream stream) {
  if (q.count == 0) return;
  launch("replace_columns", blocks_for(shape.rank, 1, kMostMatrixBlocks), stream, fallback.data, q.data,
         std::uint64_t{shape.columns}, std::uint64_t{shape.rank});
}

void GpuKernels::forget(Stream stream) {
  const std::lock_guard lock(mutex_);
  scratch_.erase(stream.handle());
}

}  // namespace ddp::internal
