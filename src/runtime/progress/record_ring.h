// RecordRing takes the records of this process: its steps, collectives and phases, with their times. The launcher has
// created the memory, and takes the records from it (wire/record_ring_layout.h).
#pragma once

#include <ddp/progress.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "wire/record_ring_layout.h"
#include "wire/record_writer.h"

namespace ddp::internal {

using wire::NewRecord;

// The value refers to the ring, or to no ring; then every function does nothing. It is passed down to all code that
// records something. The ring lives as long as any thread of the process. Any thread may use it, and no function takes
// a lock, except as stated below. In a forked child, the value refers to no ring.
class RecordRing {
 public:
  RecordRing() = default;  // refers to no ring

  // `descriptor` is the text of DDP_RECORD_FD. Returns no ring if it names none, or if another process writes it. The
  // caller must be the writer of the status page.
  static RecordRing map(const char* descriptor);

  // Returns null if there is no ring.
  wire::RecordRingLayout* memory() const {
    if (access_ == nullptr) return nullptr;
    return access_->writer == 0 || access_->writer == ::getpid() ? access_->layout : nullptr;
  }

  // Returns what the launcher wants now.
  wire::RecordMode mode() const {
    const wire::RecordRingLayout* layout = memory();
    return layout == nullptr ? wire::RecordMode::off : layout->mode.load(std::memory_order_relaxed);
  }
  // Returns whether steps and phases are to be recorded.
  bool is_on() const {
    const wire::RecordMode now = mode();
    return now == wire::RecordMode::steps || now == wire::RecordMode::all;
  }
  // Returns whether the collective with this number is to be recorded.
  bool wants(std::uint64_t number) const {
    const wire::RecordMode now = mode();
    return now == wire::RecordMode::all || (now == wire::RecordMode::steps && wire::is_sampled(number));
  }

  // Adds a record, whatever the mode is. If the launcher has not made space, the record is counted as dropped.
  void add(const NewRecord& record) const;

  // The next step begins now.
  void begin_steps() const;
  // Records the step that ends now, if steps are recorded and it is known when the step began. The next step begins
  // now.
  void end_step(std::uint64_t number) const;

  // Replaces the program's values. Those after the first wire::kRingValues are left out. One thread at a time may call
  // it.
  void show_values(std::span<const ProgressValue> values) const;

 private:
  // Holds what only this process knows.
  struct Access {
    wire::RecordRingLayout* layout;
    pid_t writer;                         // 0 if the kernel clears this object in a forked child
    std::atomic<std::uint64_t> step_end;  // CLOCK_MONOTONIC in nanoseconds; 0 if it is unknown
  };

  explicit RecordRing(Access* access) : access_(access) {}

  Access* access_ = nullptr;
};

}  // namespace ddp::internal
