// WorkerPage: the status page of one worker (wire/status_page_layout.h), on the launcher's side, and what it says as
// values: copies that are whole, whatever the worker does to the memory meanwhile.
#pragma once

#include <sys/mman.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/unique_fd.h"
#include "wire/control_message.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {

// A collective call of a group. Text is printable.
struct CallView {
  std::uint64_t sequence = 0;  // 0: the page does not have it (any more)
  std::uint64_t fingerprint = 0;
  std::uint64_t called_at = 0;  // CLOCK_MONOTONIC, nanoseconds
  std::string what;             // "all_reduce sum f32[1024]"
  std::string name;             // "bucket 0: fc.weight"; may be empty
  std::string place;            // "train.cpp:88"; may be empty

  friend bool operator==(const CallView&, const CallView&) = default;
};

// A send or a receive.
struct TransferView {
  bool is_send = false;
  int peer = 0;              // rank of the group
  std::uint64_t number = 0;  // from 1, among those of its kind with its peer
  bool is_done = false;
  bool is_waited_for = false;   // a thread of the worker waits for it
  std::uint64_t called_at = 0;  // CLOCK_MONOTONIC, nanoseconds
  std::string what;             // "f32[1024]"
  std::string place;            // "train.cpp:88"; may be empty

  friend bool operator==(const TransferView& a, const TransferView& b) {
    const auto all = [](const TransferView& view) {
      return std::tie(view.is_send, view.peer, view.number, view.is_done, view.called_at, view.what, view.place);
    };
    return all(a) == all(b);
  }
};

// "all_reduce f32[1024] ('bucket 0')"; "a collective" if it is not known what was called.
std::string describe(const CallView& call);
std::string describe_with_place(const CallView& call);  // "all_reduce f32[1024] at train.cpp:88"
// "recv f32[8] from rank 2", a rank of the group.
std::string describe(const TransferView& transfer);

struct GroupView {
  std::string name;
  int rank = 0;
  int size = 0;
  int place = 0;  // on the page
  std::uint64_t called = 0;
  std::uint64_t started = 0;
  std::uint64_t finished = 0;
  std::uint64_t transfers_called = 0;
  std::uint64_t transfers_finished = 0;
  bool is_left = false;  // it failed, and its worker has left it: nobody waits in it any more
  // Collectives that the worker has put on its GPU's stream, and that the GPU has begun and done; 0: it does not say.
  std::uint64_t gpu_queued = 0;
  std::uint64_t gpu_started = 0;
  std::uint64_t gpu_finished = 0;
  int blocked = 0;             // threads that wait for a collective of it, without a time-out of the program's
  std::uint64_t identity = 0;  // the same on all ranks of the group; 0: only its name is known
  bool is_sampled = false;     // the rest was true at the last look of a reader, some seconds ago at most
  // This entry was read from the stack of the rank's first thread, which waits for an operation of a PyTorch process
  // group. The group and the number of the operation are unknown, so `called` is 1.
  bool is_by_stack = false;
  std::vector<TransferView> transfers = {};  // the newest ones; those that are not done first

  // Except who waits.
  friend bool operator==(const GroupView& a, const GroupView& b) {
    const auto all = [](const GroupView& view) {
      return std::tie(view.name, view.rank, view.size, view.place, view.called, view.started, view.finished,
                      view.transfers_called, view.transfers_finished, view.is_left, view.gpu_queued, view.gpu_started,
                      view.gpu_finished, view.identity, view.transfers);
    };
    return all(a) == all(b);
  }
};

// Which group: several may have one name, which is for people.
struct GroupKey {
  std::uint64_t identity = 0;
  std::string name;  // empty if there is an identity
  int size = 0;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};
GroupKey key_of(std::uint64_t identity, const std::string& name, int size);
inline GroupKey key_of(const GroupView& group) {
  return key_of(group.identity, group.name, group.size);
}

struct PageView {
  bool is_written = false;        // the worker has the runtime, or another writer
  int writer = 0;                 // the pid that it gives itself: for reading only
  bool is_training = false;       // its phase
  std::string phase;              // for people: of wire::kPhaseNames, or "first step": training before it has shown any
  std::string phase_name;         // what the program says of the phase; may be empty
  std::string phase_place;        // "train.cpp:171"; may be empty
  std::uint64_t phase_since = 0;  // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t steps = 0;
  std::uint64_t more_time_until = 0;
  int calling_threads = 0;           // that have called operations
  int waiting_threads = 0;           // that wait for one
  int worlds_entered = 0;            // how often the worker has called init()
  int awaited_world = 0;             // the size of the world whose ranks it waits for in init(); 0: it does not
  std::uint64_t progress_done = 0;   // as the program counts its steps
  std::uint64_t progress_total = 0;  // 0: not known
  std::uint64_t other_progress = 0;  // steps and operations that nothing else here shows
  // Threads that wait for an operation without a time-out of the program's, the last one that began to, and threads of
  // the runtime's own that run the program's continuations.
  int blocked_threads = 0;
  int blocked_thread = 0;
  int continuations = 0;
  std::uint64_t polled_at = 0;  // CLOCK_MONOTONIC, nanoseconds: asked last whether an operation is done
  std::uint64_t handed_on = 0;  // pieces of data, to ranks of the same node through shared memory
  std::vector<GroupView> groups;

  // But for who waits, and for data under way: a thread that waits again and again makes no progress, and an operation
  // makes it when it is done.
  friend bool operator==(const PageView& a, const PageView& b) {
    const auto all = [](const PageView& view) {
      return std::tie(view.is_written, view.writer, view.phase, view.phase_name, view.phase_place, view.phase_since,
                      view.steps, view.other_progress, view.more_time_until, view.groups);
    };
    return all(a) == all(b);
  }
};

// Whether the worker has finished a step, sent a heartbeat, or done so many operations (limits::kOperationsOfProgress)
// that it counts as one.
wire::Progress progress_of(const PageView& page);

// The memory is untrusted: numbers out of range and text without an end make nothing worse than a strange view.
// `now`: CLOCK_MONOTONIC, nanoseconds; what a reader has not looked at for limits::kLatestSample before is left as if
// no rank waited in it. 0: however long ago that was.
PageView read_page(const wire::StatusPageLayout& page, std::uint64_t now = 0);

// A number that is another one whenever the view would be, as good as surely: for those who look often.
std::uint64_t page_version(const wire::StatusPageLayout& page, std::uint64_t now = 0);

// The calls that the page still has of the group at `place`, oldest first.
std::vector<CallView> read_calls(const wire::StatusPageLayout& page, int place);

// When the rank called a collective.
struct Arrival {
  std::uint64_t sequence = 0;
  std::uint64_t called_at = 0;  // CLOCK_MONOTONIC, nanoseconds
};

// Of the calls that the page still has of the group at `place`, in no order: much cheaper than the calls.
std::vector<Arrival> read_arrivals(const wire::StatusPageLayout& page, int place);

// Where a thread of the worker is, as it says itself: addresses in its memory, the innermost first.
struct RawStack {
  int tid = 0;
  std::vector<std::uint64_t> addresses;
};

// The answers to the latest request.
std::vector<RawStack> read_stacks(const wire::StatusPageLayout& page);

class WorkerPage {
 public:
  // Empty where the system has no memory for it: then the worker goes without.
  WorkerPage() = default;
  WorkerPage(int rank, int local_rank, int attempt);

  // To be inherited; -1: none.
  int descriptor() const { return descriptor_.get(); }

  // `now`: CLOCK_MONOTONIC, nanoseconds.
  std::uint64_t version(std::uint64_t now) const { return page_ == nullptr ? 1 : page_version(*page_, now); }
  PageView view(std::uint64_t now) const { return page_ == nullptr ? PageView() : read_page(*page_, now); }
  std::vector<CallView> calls(int place) const {
    return page_ == nullptr ? std::vector<CallView>() : read_calls(*page_, place);
  }

  std::vector<Arrival> arrivals(int place) const {
    return page_ == nullptr ? std::vector<Arrival>() : read_arrivals(*page_, place);
  }

  // The signal that asks the worker for its stacks, and a new request for them; the answers to the latest one. 0: none.
  int stack_signal() const { return page_ == nullptr ? 0 : page_->stacks.signal.load(); }
  void request_stacks() const;
  std::vector<RawStack> stacks() const { return page_ == nullptr ? std::vector<RawStack>() : read_stacks(*page_); }

  // Tells the worker whose failure ends the job. The first one counts.
  void mark_peer_lost(int rank) const;
  // Asks the program to save and to leave.
  void request_stop() const;

 private:
  struct Unmap {
    void operator()(wire::StatusPageLayout* page) const { ::munmap(page, sizeof *page); }
  };

  base::UniqueFd descriptor_;
  std::unique_ptr<wire::StatusPageLayout, Unmap> page_;
};

}  // namespace ddp::launcher
