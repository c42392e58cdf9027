// NcclRecorder follows PyTorch's recorder of NCCL's collectives in one process. It decides when its entries are
// fetched, and has no side effects (docs/development/decisions/0051-nccl-jobs-of-pytorch.md).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "torch_reader/recording.h"

namespace ddp::torch_reader {

// To fetch entries, PyTorch queries the CUDA events of all calls that are not completed. CUDA breaks the capture of a
// graph if another thread does that meanwhile. The status of the groups has no events, so it may be asked at any time.
// Entries are fetched only if no call is in progress, or if a group has not moved for kStill: PyTorch waits until all
// calls are completed before it begins a capture.
//
// If a program aborts a group whose calls are not completed, PyTorch frees their events and keeps their entries. A
// program that has made groups since then goes on, so it does not wait for these calls. Then no entries are fetched any
// more.
class NcclRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kStill{3};

  // Takes an answer without entries. `lines` are the groups that the process has made before. Returns whether the
  // entries should be fetched now.
  bool add_status(const Statuses& statuses, const WorkerLines& lines, Time now);

  // Takes an answer with entries: `groups` are those of read_recording(), and `statuses` are those of the same answer.
  void add_entries(std::vector<RecordedGroup> groups, const Statuses& statuses, const WorkerLines& lines, Time now);

  // Returns the groups as of the last answer. The calls are those of the last entries. `lines` are the groups that the
  // process has made by now.
  //
  // A group is not current if the last answer does not show how far it is. Its number may be unknown, because no
  // entries were fetched since its first call. Or it has moved since then, and its status counts sends and receives,
  // too.
  std::vector<RecordedGroup> groups(const WorkerLines& lines) const;

  // How often a group was seen to have completed more calls, even a group whose number is unknown.
  std::uint64_t completions() const { return completions_; }

 private:
  struct Followed {
    GroupStatus status;
    Time moved_at;
    std::size_t groups_made = 0;  // when it moved
    bool counts_transfers = false;
    std::uint64_t identity = 0;  // of the group with this number; 0 if unknown
  };

  void follow(const Statuses& statuses, const WorkerLines& lines, Time now);
  void add_status_to(RecordedGroup& group) const;

  std::map<std::string, Followed> followed_;  // by PyTorch's number of the group
  std::vector<RecordedGroup> fetched_;
  Statuses at_fetch_;
  std::optional<Time> fetched_at_;
  std::uint64_t completions_ = 0;
};

}  // namespace ddp::torch_reader
