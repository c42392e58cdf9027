// RecordRing is the launcher's side of one worker's ring of records (wire/record_ring_layout.h). It takes the records
// out of the memory and returns them as values, whatever the worker does to the memory meanwhile.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/run/ranks/rank_records.h"
#include "wire/record_ring_layout.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {

class RecordRing {
 public:
  // The ring is empty if the system has no memory for it. The worker then runs without one.
  RecordRing() = default;
  // `now` is CLOCK_MONOTONIC in nanoseconds. Records that begin before it are invalid.
  RecordRing(wire::RecordMode mode, std::uint64_t now);

  // Returns the descriptor that the worker inherits, or -1 if there is none.
  int descriptor() const { return descriptor_.get(); }
  void set_mode(wire::RecordMode mode) const;

  // Returns all records that are new, except rank and node. A record that the worker has claimed and not written delays
  // those after it, until limits::kRecordPatience has passed or the worker has ended. It then counts as dropped, as
  // every invalid record does. `page` describes the groups, and may be null. `now` is CLOCK_MONOTONIC in nanoseconds.
  RankRecords take(const wire::StatusPageLayout* page, std::uint64_t now, bool has_ended);
  // Removes all records, which then do not count as dropped.
  void discard();

  // Returns the values that the program has reported, or an empty list if they are being written all the time.
  std::vector<ProgressValue> values() const;

 private:
  struct Unmap {
    void operator()(wire::RecordRingLayout* ring) const { ::munmap(ring, sizeof *ring); }
  };

  bool is_overdue(std::uint64_t now, bool has_ended);
  void accept(const wire::RingRecord& record, std::uint64_t begin, std::uint64_t now,
              const wire::StatusPageLayout* page, RankRecords& taken);
  std::uint16_t group_at(std::uint8_t place, const wire::StatusPageLayout* page, RankRecords& taken);
  std::uint16_t name_at(std::uint8_t index, RankRecords& taken);
  void forget_indices(const RankRecords& taken);

  base::UniqueFd descriptor_;
  std::unique_ptr<wire::RecordRingLayout, Unmap> ring_;
  std::uint64_t made_at_ = 0;
  std::uint64_t taken_ = 0;          // the memory's copy of this number may be damaged
  std::uint64_t invalid_ = 0;        // records that were dropped here
  std::uint64_t waiting_since_ = 0;  // when the record at `taken_` was first found unwritten; 0 if it was not
  // The ring's indices of the groups and names, with their indices in the records that are being taken; 0 if none.
  std::array<std::uint16_t, wire::kPageGroups> groups_{};
  std::array<std::uint16_t, wire::kRingNames> names_{};
};

}  // namespace ddp::launcher
