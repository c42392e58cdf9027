// GroupCore implements a ProcessGroup: it holds the ranks, the backend, and the queues of called operations.
#pragma once

#include <ddp/process_group.h>
#include <ddp/store.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/backend/backend.h"
#include "runtime/group/operation_queue.h"
#include "runtime/progress/record_ring.h"
#include "runtime/progress/status_page.h"
#include "wire/fault.h"

namespace ddp::internal {

class FaultInjector;
class GroupProgress;

// Makes the backend of a group whose ranks meet in `store`.
using BackendFactory =
    std::function<std::unique_ptr<Backend>(const BackendOptions& options, std::shared_ptr<Store> store)>;

// Returns the identity of the group that was made at this place within another group. It is never 0.
std::uint64_t identity_of(std::string_view place, std::uint64_t within);

// Holds the state that all groups of a process share. init() makes it. A group passes it to the groups that are made
// from it.
struct ProcessContext {
  StatusPage page;                  // no page by default
  RecordRing ring;                  // no ring by default
  FaultInjector* faults = nullptr;  // outlives the groups; null if there are no faults
};

struct GroupDescription {
  std::string name = "world";
  BackendOptions options;
  std::shared_ptr<Store> store;  // used by this group alone
  BackendFactory make_backend;   // also makes the backends of sub-groups
  std::string backend_reason;
  bool detail = false;  // also compare calls between nodes
  // This timeout applies to operations without their own timeout. If it is not set, options.timeout applies.
  std::optional<std::chrono::milliseconds> call_timeout = {};
  // Ranks wait this long for each other to join a new group. If it is not set, they wait as long as the store waits for
  // keys.
  std::optional<std::chrono::milliseconds> patience = {};
  bool is_programs_timeout = false;  // the program has set the timeout
  std::uint64_t identity = 0;        // equal on all ranks, different in each other group; 0 if unknown
  bool is_shown = true;              // shown on the status page
  ProcessContext process = {};
};

// The class is thread-safe.
class GroupCore {
 public:
  GroupCore(GroupDescription description, std::unique_ptr<Backend> backend);

  // While an exception unwinds the stack, aborts running operations and immediately reports the failure to the ranks of
  // this node.
  ~GroupCore();
  GroupCore(const GroupCore&) = delete;
  GroupCore& operator=(const GroupCore&) = delete;

  // Opens a group. All ranks call it: the ranks of each node meet, then all ranks connect. The function sets
  // `options.node_group`.
  static std::unique_ptr<GroupCore> open(GroupDescription description);

  const GroupDescription& description() const { return description_; }
  int rank() const { return description_.options.rank; }
  int size() const { return description_.options.size; }
  int world_rank_of(int rank) const { return internal::world_rank_of(rank, description_.options.world_ranks); }
  StatusPage page() const { return description_.process.page; }
  RecordRing ring() const { return description_.process.ring; }
  Backend& backend() { return *backend_; }
  // Returns the ranks of this node.
  const NodeGroup& node_group() const { return *description_.options.node_group; }
  const std::string& backend_name() const { return backend_name_; }

  // Queues a call whose arguments have been checked.
  Work push(Call call, const CallOptions& options, CallSite site);
  void hold_collectives() { collectives_.hold(); }
  void release_collectives() { collectives_.release(); }
  void abort();
  void close(const std::string& reason);
  // Throws `aborted` after close(), with the function's name.
  void require_open(const std::string& function) const;

  // Makes a group of the ranks `members` of this group, which include this rank. Each call makes a new group.
  std::unique_ptr<GroupCore> make_group(std::span<const int> members, std::string name);
  // Does the same if every rank of this group calls it. `members` are the ranks of this color. Returns null if the
  // color is negative.
  std::unique_ptr<GroupCore> split_off(int color, std::span<const int> members, std::string name);
  void monitored_barrier(std::optional<std::chrono::milliseconds> timeout);

 private:
  // Returns the timeout of an operation for which the program gave `programs`.
  std::chrono::milliseconds timeout_of(std::optional<std::chrono::milliseconds> programs) const;
  void require_memory(const Call& call) const;
  GroupDescription describe_group(std::span<const int> members, std::string name);
  OperationQueue& queue_of(const Call& call);
  // Counts the call and returns the fault to inject at it, if there is one.
  std::optional<wire::Fault> due_fault(Operation operation);

  const GroupDescription description_;
  const std::shared_ptr<void> leaving_;     // its end says that this rank has left, after the members below
  const std::shared_ptr<Backend> backend_;  // shared with the operations under way
  const std::string backend_name_;
  const std::shared_ptr<GroupProgress> progress_;

  mutable std::mutex mutex_;
  std::string closed_by_;
  std::map<std::string, int> groups_made_;  // by list of ranks
  int monitored_barriers_ = 0;
  std::map<std::pair<Operation, int>, std::unique_ptr<OperationQueue>> lanes_;  // queues of send and recv, by peer
  OperationQueue collectives_;
};

}  // namespace ddp::internal
