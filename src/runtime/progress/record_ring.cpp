#include "runtime/progress/record_ring.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/text.h"
#include "runtime/progress/status_page.h"

namespace ddp::internal {

using wire::kRelaxed;
using wire::RecordRingLayout;

namespace {

template <std::size_t N>
void write_start_of(std::array<char, N>& to, std::string_view text) {
  to[text.copy(to.data(), N - 1)] = '\0';
}

}  // namespace

RecordRing RecordRing::map(const char* descriptor) {
  if (descriptor == nullptr) return {};
  const auto fd = base::parse_integer(descriptor, 0, 1 << 30);
  struct stat status {};
  if (!fd || ::fstat(static_cast<int>(*fd), &status) != 0) return {};
  if (status.st_size < static_cast<off_t>(sizeof(RecordRingLayout))) return {};
  void* memory =
      ::mmap(nullptr, sizeof(RecordRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(*fd), 0);
  if (memory == MAP_FAILED) return {};
  auto* layout = static_cast<RecordRingLayout*>(memory);
  std::int32_t writer = 0;
  const bool is_ours = layout->magic == wire::kRingMagic && layout->version == wire::kRingVersion &&
                       layout->bytes >= sizeof(RecordRingLayout) &&
                       (layout->writer.compare_exchange_strong(writer, ::getpid()) || writer == ::getpid());
  void* own = is_ours ? ::mmap(nullptr, sizeof(Access), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : MAP_FAILED;
  if (own == MAP_FAILED) {
    ::munmap(memory, sizeof(RecordRingLayout));
    return {};
  }
  const bool is_cleared = ::madvise(own, sizeof(Access), MADV_WIPEONFORK) == 0;
  return RecordRing(new (own) Access{layout, is_cleared ? 0 : ::getpid(), 0});
}

void RecordRing::add(const NewRecord& record) const {
  if (RecordRingLayout* ring = memory()) wire::add_record(*ring, record);
}

void RecordRing::begin_steps() const {
  if (memory() != nullptr) access_->step_end.store(is_on() ? monotonic_now() : 0, kRelaxed);
}

void RecordRing::end_step(std::uint64_t number) const {
  if (!is_on()) {
    // If the launcher wants steps later, the next one must not begin here.
    if (memory() != nullptr) access_->step_end.store(0, kRelaxed);
    return;
  }
  const std::uint64_t end = monotonic_now();
  const std::uint64_t begin = access_->step_end.exchange(end, kRelaxed);
  if (begin != 0) add({.kind = wire::RecordKind::step, .begin = begin, .end = end, .number = number});
}

void RecordRing::show_values(std::span<const ProgressValue> values) const {
  RecordRingLayout* ring = memory();
  if (ring == nullptr) return;
  const std::size_t count = std::min(values.size(), wire::kRingValues);
  const std::uint32_t changes = ring->changes.load(kRelaxed) | 1U;
  ring->changes.store(changes, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < count; ++i) {
    ring->values[i].value = values[i].value;
    ring->values[i].name = {};
    write_start_of(ring->values[i].name, values[i].name);
  }
  ring->value_count = static_cast<std::uint32_t>(count);
  ring->changes.store(changes + 1, std::memory_order_release);
}

}  // namespace ddp::internal
