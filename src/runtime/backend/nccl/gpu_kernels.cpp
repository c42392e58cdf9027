#include "runtime/backend/nccl/gpu_kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/reduction/ordered.h"

namespace ddp::internal {
namespace {

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
    std::fputs(no_kernels_warning(cuda.error_name(status)).c_str(), stderr);
  }
  return nullptr;
}

void GpuKernels::launch_kernel(const std::string& kernel, std::uint64_t blocks,
                               std::span<const KernelParameter> parameters, Stream stream) {
  const GpuScope scope(cuda_, device_);
  heap_->follow(stream.handle());
  std::vector<void*> values;
  for (const KernelParameter& parameter : parameters) values.push_back(const_cast<void*>(parameter.value));
  require_cuda(cuda_,
               cuda_.launch_kernel(functions_.at(kernel), static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0,
                                   stream.handle(), values.data(), nullptr),
               "start the kernel " + kernel);
}

GpuKernels::Scratch& GpuKernels::scratch_of(Stream stream) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Scratch>& found = scratch_[stream.handle()];
  if (!found) found = std::make_unique<Scratch>();
  return *found;
}

std::byte* GpuKernels::scratch(std::size_t bytes, Stream stream) {
  return scratch_of(stream).device.reserve(bytes, [this](std::size_t wanted) { return heap_->allocate(wanted); });
}

const std::byte* GpuKernels::fetch(std::size_t bytes, Stream stream) {
  const GpuScope scope(cuda_, device_);
  Scratch& memory = scratch_of(stream);
  std::byte* const to =
      memory.pinned.reserve(bytes, [this](std::size_t wanted) { return heap_->allocate_pinned(wanted); });
  require_cuda(cuda_, cuda_.copy_async(to, memory.device.memory.get(), bytes, stream.handle()), "copy a result");
  heap_->wait_for(stream.handle());
  return to;
}

void GpuKernels::to_ordered(const ConstBuffer& from, bool nan_is_largest, const Buffer& to, Stream stream) {
  require_values(from);
  DDP_CHECK(from.count == to.count && to.type == ordered_type(from.type), from.count, to.count);
  if (to.count == 0) return;
  launch(name("to_ordered", from.type), blocks_for(to.count), stream, from.data, to.data, std::uint64_t{to.count},
         std::uint32_t{nan_is_largest});
}

void GpuKernels::from_ordered(const ConstBuffer& from, const Buffer& to, Stream stream) {
  require_values(to);
  DDP_CHECK(from.count == to.count && from.type == ordered_type(to.type), from.count, to.count);
  if (to.count == 0) return;
  launch(name("from_ordered", to.type), blocks_for(to.count), stream, from.data, to.data, std::uint64_t{to.count});
}

void GpuKernels::scale(const Buffer& values, double factor, Stream stream) {
  if (factor != 1) convert(values, values, factor, stream);
}

void GpuKernels::convert(const ConstBuffer& from, const Buffer& to, double factor, Stream stream) {
  require_values(from);
  require_values(to);
  DDP_CHECK(from.count == to.count, from.count, to.count);
  if (to.count == 0) return;
  launch(name("convert", from.type, to.type), blocks_for(to.count), stream, from.data, to.data, std::uint64_t{to.count},
         factor);
}

void GpuKernels::add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to, Stream stream) {
  DDP_CHECK(from.type == DataType::f32 && to.type == DataType::f32, to_string(from.type), to_string(to.type));
  DDP_CHECK(from.count == to.count, from.count, to.count);
  if (to.count == 0) return;
  launch("add", blocks_for(to.count), stream, from.data, to.data, std::uint64_t{to.count}, factor,
         std::uint32_t{only_finite});
}

// Every block writes its sum, and the host adds them up in their order.
double GpuKernels::sum_of_squares(std::span<const ConstBuffer> buffers, Stream stream) {
  std::size_t sums = 0;
  for (const ConstBuffer& buffer : buffers) {
    require_values(buffer);
    if (buffer.count > 0) sums += blocks_for(buffer.count);
  }
  if (sums == 0) return 0;
  auto* place = reinterpret_cast<double*>(scratch(sums * sizeof(double), stream));
  for (const ConstBuffer& buffer : buffers) {
    if (buffer.count == 0) continue;
    const std::uint64_t blocks = blocks_for(buffer.count);
    launch(name("sum_of_squares", buffer.type), blocks, stream, buffer.data, std::uint64_t{buffer.count}, place);
    place += blocks;
  }
  const auto* results = reinterpret_cast<const double*>(fetch(sums * sizeof(double), stream));
  return std::accumulate(results, results + sums, 0.0);
}

bool GpuKernels::are_finite(std::span<const ConstBuffer> buffers, Stream stream) {
  auto* found = reinterpret_cast<std::uint32_t*>(scratch(sizeof(std::uint32_t), stream));
  const GpuScope scope(cuda_, device_);
  require_cuda(cuda_, cuda_.fill_async(found, 0, sizeof *found, stream.handle()), "clear memory");
  for (const ConstBuffer& buffer : buffers) {
    require_values(buffer);
    if (buffer.count == 0) continue;
    launch(name("find_infinite", buffer.type), blocks_for(buffer.count), stream, buffer.data,
           std::uint64_t{buffer.count}, found);
  }
  std::uint32_t result = 0;
  std::memcpy(&result, fetch(sizeof result, stream), sizeof result);
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
  const std::uint64_t blocks = blocks_for(values.count);
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

void GpuKernels::forget(Stream stream) {
  const std::lock_guard lock(mutex_);
  scratch_.erase(stream.handle());
}

}  // namespace ddp::internal
