// WorkerPage is the launcher's side of one worker's status page (wire/status_page_layout.h). It returns its content as
// values. These copies are consistent, whatever the worker does to the memory meanwhile.
#pragma once

#include <sys/mman.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/run/ranks/rank_phase.h"
#include "wire/control_message.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {

// Represents a collective call of a group. Text is printable.
struct CallView {
  std::uint64_t sequence = 0;     // 0 if the page does not contain it (any more)
  std::uint64_t fingerprint = 0;  // 0 if the call cannot be compared
  std::uint64_t called_at = 0;    // CLOCK_MONOTONIC, nanoseconds
  std::string what;               // such as "all_reduce sum f32[1024]"
  std::string name;               // such as "bucket 0: fc.weight"; may be empty
  std::string place;              // such as "train.cpp:88"; may be empty
  int root = -1;                  // rank of the group; -1 if it is unknown, or if the operation has none

  friend bool operator==(const CallView&, const CallView&) = default;
};

// Represents a send or a receive.
struct TransferView {
  bool is_send = false;
  int peer = 0;              // rank in the group
  std::uint64_t number = 0;  // counts from 1, among transfers of its kind with its peer
  bool is_done = false;
  bool is_waited_for = false;   // a thread of the worker waits for it
  std::uint64_t called_at = 0;  // CLOCK_MONOTONIC, nanoseconds
  std::string what;             // such as "f32[1024]"
  std::string place;            // such as "train.cpp:88"; may be empty

  friend bool operator==(const TransferView& a, const TransferView& b) {
    const auto all = [](const TransferView& view) {
      return std::tie(view.is_send, view.peer, view.number, view.is_done, view.called_at, view.what, view.place);
    };
    return all(a) == all(b);
  }
};

// Returns text such as "all_reduce f32[1024] ('bucket 0')", or "a collective" if it is unknown what was called.
std::string describe(const CallView& call);
std::string describe_with_place(const CallView& call);  // such as "all_reduce f32[1024] at train.cpp:88"
// Returns text such as "recv f32[8] from rank 2". The rank is that in the group.
std::string describe(const TransferView& transfer);

// Says which calls of a communicator of NCCL wait for other ranks. The plug-in in the worker sees when a collective is
// called, and not when it is done (wire::Launches).
struct LaunchView {
  bool is_complete = true;          // false if CUDA graphs repeat calls that are not counted
  std::uint64_t waits_for_all = 0;  // number of the newest collective that waits for all members
  std::uint64_t waits_for_one = 0;  // number of the newest collective that waits for the member `root`
  int root = -1;
  bool is_named = true;            // false if the name was made from the identity
  std::uint64_t kernels_from = 0;  // the plug-in follows kernels from this collective on; 0 if it does not

  friend bool operator==(const LaunchView&, const LaunchView&) = default;
};

struct GroupView {
  std::string name;
  int rank = 0;
  int size = 0;
  int place = 0;  // place on the page
  std::uint64_t called = 0;
  std::uint64_t started = 0;
  std::uint64_t finished = 0;
  std::uint64_t transfers_called = 0;
  std::uint64_t transfers_finished = 0;
  bool is_left = false;  // the group failed, and its worker has left it: no thread waits in it any more
  // These count collectives that the worker has put on its GPU's stream, and that the GPU has begun and finished. They
  // are 0 if the worker does not report them.
  std::uint64_t gpu_queued = 0;
  std::uint64_t gpu_started = 0;
  std::uint64_t gpu_finished = 0;
  int blocked = 0;             // threads that wait for its collectives, without a time-out that the program has set
  std::uint64_t identity = 0;  // the same on all ranks of the group; 0 if only its name is known
  // A reader has sampled these values, some seconds ago at most. It does not know what the GPU has started.
  bool is_sampled = false;
  // The values are those of now: the worker itself writes them, or a reader that follows its calls.
  bool is_live = true;
  // The program has ended by itself, and the values are those of its end. Without this, a rank that has ended may have
  // called and finished more than a sampled group shows.
  bool is_final = false;
  // This entry was read from the stack of the rank's first thread, which waits for an operation of a PyTorch process
  // group. The group and the number of the operation are unknown, so `called` is 1.
  bool is_by_stack = false;
  // Only launches are counted. `finished` then follows from what all members have called (complete_launches()).
  std::optional<LaunchView> launches = {};
  std::vector<TransferView> transfers = {};  // the newest ones; unfinished ones come first

  // Returns whether it is known what the GPU has started. A reader that samples does not know it.
  bool shows_gpu() const { return launches ? launches->kernels_from > 0 : !is_sampled; }
  // Returns whether the GPU is known not to have begun this collective, which is on its stream.
  bool is_behind_on_gpu(std::uint64_t number) const {
    return shows_gpu() && gpu_queued >= number && gpu_started < number;
  }

  // Does not compare which threads wait.
  friend bool operator==(const GroupView& a, const GroupView& b) {
    const auto all = [](const GroupView& view) {
      return std::tie(view.name, view.rank, view.size, view.place, view.called, view.started, view.finished,
                      view.transfers_called, view.transfers_finished, view.is_left, view.gpu_queued, view.gpu_started,
                      view.gpu_finished, view.identity, view.transfers, view.is_final);
    };
    return all(a) == all(b);
  }
};

// Identifies a group. Several groups may have the same name, which is for people.
struct GroupKey {
  std::uint64_t identity = 0;
  std::string name;  // empty if there is an identity
  int size = 0;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};
GroupKey key_of(std::uint64_t identity, const std::string& name, int size);
// Returns a name for a communicator of NCCL that has none, such as "communicator 89e86cd5".
std::string name_of_communicator(std::uint64_t identity);
inline GroupKey key_of(const GroupView& group) {
  return key_of(group.identity, group.name, group.size);
}

struct PageView {
  bool is_written = false;  // the runtime or another writer has written to the page
  int writer = 0;           // pid as the writer reports it, which is untrusted
  RankPhase phase = RankPhase::unknown;
  std::string phase_name;         // the program's name for the phase; may be empty
  std::string phase_place;        // such as "train.cpp:171"; may be empty
  std::uint64_t phase_since = 0;  // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t steps = 0;
  std::uint64_t more_time_until = 0;
  int calling_threads = 0;            // threads that have called operations
  int waiting_threads = 0;            // threads that wait for an operation
  int worlds_entered = 0;             // how often the worker has called init()
  int awaited_world = 0;              // size of the world whose ranks it waits for in init(), or 0
  std::uint64_t progress_done = 0;    // steps that are done, as the program counts them
  std::uint64_t progress_total = 0;   // number of all steps; 0 if unknown
  std::uint64_t other_progress = 0;   // steps and operations that nothing else here shows
  std::uint64_t optimizer_steps = 0;  // those of PyTorch's optimizers, for the views only; 0 if unknown
  // `blocked_threads` counts threads that wait for an operation without a time-out that the program has set.
  // `blocked_thread` is the last one that began to. `continuations` counts the runtime's own threads that run the
  // program's continuations.
  int blocked_threads = 0;
  int blocked_thread = 0;
  int continuations = 0;
  std::uint64_t polled_at = 0;  // CLOCK_MONOTONIC, nanoseconds: last time a thread asked whether an operation is done
  std::uint64_t handed_on = 0;  // pieces of data passed to ranks of the same node through shared memory
  std::string gpu_uuid;         // UUID of its GPU, such as "5f1c0a2b-0123-…" without "GPU-"; empty if unknown
  std::vector<GroupView> groups;

  // Does not compare which threads wait, or data under way. A thread that waits again and again makes no progress, and
  // an operation makes progress only when it is done.
  friend bool operator==(const PageView& a, const PageView& b) {
    const auto all = [](const PageView& view) {
      return std::tie(view.is_written, view.writer, view.phase, view.phase_name, view.phase_place, view.phase_since,
                      view.steps, view.other_progress, view.more_time_until, view.gpu_uuid, view.groups);
    };
    return all(a) == all(b);
  }
};

// Returns whether the worker has finished a step, sent a heartbeat, or finished so many operations
// (limits::kOperationsOfProgress) that they count as one.
wire::Progress progress_of(const PageView& page);

// The memory is untrusted: numbers out of range and text without an end cause nothing worse than a strange view. `now`
// is CLOCK_MONOTONIC in nanoseconds. If a reader has not updated a group for limits::kLatestSample, the view shows it
// as left, so that no rank waits in it. If `now` is 0, the age of the data does not matter.
PageView read_page(const wire::StatusPageLayout& page, std::uint64_t now = 0);

// Returns a number that changes almost certainly whenever the view would change. It is for callers that sample often.
std::uint64_t page_version(const wire::StatusPageLayout& page, std::uint64_t now = 0);

// Returns the calls of the group at `place` that the page still contains, oldest first.
std::vector<CallView> read_calls(const wire::StatusPageLayout& page, int place);

// Says when the rank called a collective.
struct Arrival {
  std::uint64_t sequence = 0;
  std::uint64_t called_at = 0;  // CLOCK_MONOTONIC, nanoseconds
};

// Returns the arrivals of the calls that the page still contains of the group at `place`, in no order. This is much
// cheaper than read_calls().
std::vector<Arrival> read_arrivals(const wire::StatusPageLayout& page, int place);

// Describes where a thread of the worker is, as the worker itself reports it: addresses in its memory, innermost first.
struct RawStack {
  int tid = 0;
  std::vector<std::uint64_t> addresses;
};

// Returns the answers to the latest request.
std::vector<RawStack> read_stacks(const wire::StatusPageLayout& page);

class WorkerPage {
 public:
  // The page is empty if the system has no memory for it. The worker then runs without one.
  WorkerPage() = default;
  WorkerPage(int rank, int local_rank, int attempt);

  // Returns the descriptor that the worker inherits, or -1 if there is none.
  int descriptor() const { return descriptor_.get(); }

  // Returns the memory, which is untrusted, or null if there is none.
  const wire::StatusPageLayout* layout() const { return page_.get(); }

  // `now` is CLOCK_MONOTONIC in nanoseconds.
  std::uint64_t version(std::uint64_t now) const { return page_ == nullptr ? 1 : page_version(*page_, now); }
  std::uint64_t polled_at() const { return page_ == nullptr ? 0 : page_->worker.polled_at.load(wire::kRelaxed); }
  PageView view(std::uint64_t now) const { return page_ == nullptr ? PageView() : read_page(*page_, now); }
  std::vector<CallView> calls(int place) const {
    return page_ == nullptr ? std::vector<CallView>() : read_calls(*page_, place);
  }

  std::vector<Arrival> arrivals(int place) const {
    return page_ == nullptr ? std::vector<Arrival>() : read_arrivals(*page_, place);
  }

  // stack_signal() returns the signal that asks the worker for its stacks, or 0 if it has none. request_stacks() begins
  // a new request, and stacks() returns the answers to the latest one.
  int stack_signal() const { return page_ == nullptr ? 0 : page_->stacks.signal.load(); }
  void request_stacks() const;
  std::vector<RawStack> stacks() const { return page_ == nullptr ? std::vector<RawStack>() : read_stacks(*page_); }

  // Notifies the worker of the rank whose failure ends the job. Only the first call counts.
  void mark_peer_lost(int rank) const;
  // Asks the program to save and to exit.
  void request_stop() const;

 private:
  struct Unmap {
    void operator()(wire::StatusPageLayout* page) const { ::munmap(page, sizeof *page); }
  };

  base::UniqueFd descriptor_;
  std::unique_ptr<wire::StatusPageLayout, Unmap> page_;
};

}  // namespace ddp::launcher
