// RingWriter records the collectives of a PyTorch program in the worker's record ring (docs/development/protocol.md,
// section 8).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "base/unique_fd.h"
#include "torch_reader/page_writer.h"
#include "torch_reader/recording.h"
#include "wire/record_ring_layout.h"

namespace ddp::torch_reader {

class RingWriter {
 public:
  RingWriter() = default;  // has no ring, and writes nothing
  // Opens the ring at this path. There is none if the path leads to something else.
  explicit RingWriter(const char* path);

  // Adds the finished collectives that it has not added before, as far as the ring's mode wants them. The groups are on
  // the page of the worker with this pid, which write_to_page() has written. Adds nothing if the ring belongs to
  // another process. While the worker writes a record itself, the records wait for the next call.
  //
  // A collective waits until its end is known. For NCCL, the end is when a thread of PyTorch noticed it.
  void write(const wire::StatusPageLayout& page, int pid, std::span<const RecordedGroup> groups, const Moment& now);

 private:
  struct Unmap {
    void operator()(wire::RecordRingLayout* ring) const;
  };

  struct Added {
    std::uint64_t latest = 0;         // number of the latest finished collective
    std::set<std::uint64_t> missing;  // numbers up to that whose ends are unknown as yet
  };

  void add(const RecordedGroup& group, std::uint8_t place, const Moment& now);

  base::UniqueFd file_;
  std::unique_ptr<wire::RecordRingLayout, Unmap> ring_;
  std::map<std::uint64_t, Added> added_;  // by the group's identity
};

}  // namespace ddp::torch_reader
