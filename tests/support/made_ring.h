// Makes a record ring as the launcher makes it, and takes the records as the launcher takes them.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/progress/record_ring.h"

namespace ddp::test {

struct MadeRing {
  int descriptor = ::memfd_create("ring", MFD_CLOEXEC);
  wire::RecordRingLayout* layout = nullptr;

  explicit MadeRing(wire::RecordMode mode = wire::RecordMode::all) {
    if (::ftruncate(descriptor, sizeof(wire::RecordRingLayout)) != 0) throw std::runtime_error("no memory");
    layout = static_cast<wire::RecordRingLayout*>(
        ::mmap(nullptr, sizeof(wire::RecordRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
    layout->magic = wire::kRingMagic;
    layout->version = wire::kRingVersion;
    layout->bytes = sizeof(wire::RecordRingLayout);
    layout->mode = mode;
  }
  ~MadeRing() {
    ::munmap(layout, sizeof(wire::RecordRingLayout));
    ::close(descriptor);
  }
  MadeRing(const MadeRing&) = delete;
  MadeRing& operator=(const MadeRing&) = delete;

  // Maps the ring as the worker does: it stays mapped until the process ends.
  internal::RecordRing map() const { return internal::RecordRing::map(std::to_string(descriptor).c_str()); }

  // Takes all records that are complete. The names stay valid as long as the ring.
  std::vector<internal::NewRecord> take() const { return take_from(*layout); }
  static std::vector<internal::NewRecord> take_from(wire::RecordRingLayout& layout) {
    std::vector<internal::NewRecord> result;
    for (std::uint64_t next = layout.taken; next < layout.claimed; ++next) {
      wire::RingRecord& record = layout.records[next % wire::kRingRecords];
      const std::uint64_t begin = record.begin.load(std::memory_order_acquire);
      if (begin == 0) break;
      result.push_back({record.kind, begin, record.end, record.bytes, record.number, record.group, record.operation,
                        layout.names[record.name].text.data()});
      record.begin.store(0, std::memory_order_relaxed);
      layout.taken.store(next + 1, std::memory_order_release);
    }
    return result;
  }
};

}  // namespace ddp::test
