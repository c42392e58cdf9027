#include "nccl_profiler/kernels.h"

#include <string.h>  // NOLINT(modernize-deprecated-headers): the C library's functions only

#include <cstdlib>

#include "wire/worker_env.h"

namespace ddp::nccl_profiler {
namespace {

using wire::kRelaxed;

// A handle holds, from its highest bit, how often the entry was left, its place, and the number of the collective.
constexpr unsigned kPlaceShift = 48;
constexpr unsigned kLeftShift = 53;
static_assert(wire::kPageGroups <= 1U << (kLeftShift - kPlaceShift));
constexpr std::uint64_t kNumber = (std::uint64_t{1} << kPlaceShift) - 1;

std::uint64_t id_of(const Communicator& communicator) {
  const auto place = static_cast<std::uint64_t>(&communicator - communicators().data());
  return communicator.left_at << kLeftShift | place << kPlaceShift;
}

void raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  if (number.load(kRelaxed) < to) number.store(to, std::memory_order_release);
}

// Calls `use` with the kernel that the handle means, unless its communicator is gone.
template <typename Use>
void with_kernel(void* handle, Use&& use) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  if (value == 0) return;
  Communicator& communicator = communicators()[value >> kPlaceShift & (wire::kPageGroups - 1)];
  const Held held(communicator);
  const std::uint64_t number = value & kNumber;
  if (communicator.id == 0 || value != (id_of(communicator) | number)) return;
  use(*communicator.place, communicator.kernels[number % communicator.kernels.size()], number);
}

}  // namespace

bool follows_kernels() {
  const char* const failure = ::getenv(wire::env::kLastFailure);  // NOLINT(concurrency-mt-unsafe)
  return failure != nullptr && ::strstr(failure, "[DDP-H") != nullptr;
}

void* handle_of(const Communicator& communicator, std::uint64_t number) {
  if (!communicator.shows_kernels || number == 0 || number > kNumber) return nullptr;
  return reinterpret_cast<void*>(id_of(communicator) | number);  // NOLINT(performance-no-int-to-ptr)
}

void queue_kernel(void* handle, std::uint8_t channels) {
  with_kernel(handle, [&](wire::PageGroup& place, Kernel& kernel, std::uint64_t number) {
    kernel = {number, channels, 0};
    if (place.kernels_from.load(kRelaxed) == 0) place.kernels_from.store(number, kRelaxed);
    raise(place.gpu_queued, number);
  });
}

void begin_kernel(void* handle) {
  with_kernel(handle, [](wire::PageGroup& place, const Kernel& kernel, std::uint64_t number) {
    if (kernel.number == number) raise(place.gpu_started, number);
  });
}

void end_kernel(void* handle) {
  with_kernel(handle, [](wire::PageGroup& place, Kernel& kernel, std::uint64_t number) {
    if (kernel.number == number && ++kernel.ended == kernel.channels) raise(place.gpu_finished, number);
  });
}

}  // namespace ddp::nccl_profiler
