// GroupCore: what a ProcessGroup is made of: who the ranks are, the backend, the queues of what was called.
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
#include "runtime/progress/status_page.h"
#include "wire/fault.h"

namespace ddp::internal {

class FaultInjector;
class GroupProgress;

// Makes the backend of a group whose ranks meet in `store`.
using BackendFactory =
    std::function<std::unique_ptr<Backend>(const BackendOptions& options, std::shared_ptr<Store> store)>;

// Of the group that was made at this place within another one. Never 0.
std::uint64_t identity_of(std::string_view place, std::uint64_t within);

// What all groups of a process share. init() makes it; a group hands it on to those that are made of it.
struct ProcessContext {
  StatusPage page;                  // default: none
  FaultInjector* faults = nullptr;  // they outlive the groups; null: none
};

struct GroupDescription {
  std::string name = "world";
  BackendOptions options;
  std::shared_ptr<Store> store;  // of this group alone
  BackendFactory make_backend;   // for sub-groups
  std::string backend_reason;
  bool detail = false;  // compare calls between nodes, too
  // Of operations without one of their own; nothing: options.timeout.
  std::optional<std::chrono::milliseconds> call_timeout = {};
  // How long ranks wait for each other to come to a new group; nothing: as long as the store waits for keys.
  std::optional<std::chrono::milliseconds> patience = {};
  bool is_programs_timeout = false;  // the program has set that one
  std::uint64_t identity = 0;        // the same on all ranks of the group, and no other group's; 0: unknown
  bool is_shown = true;              // on the status page
  ProcessContext process = {};
};

// Thread-safe.
class GroupCore {
 public:
  GroupCore(GroupDescription description, std::unique_ptr<Backend> backend);

  // While an exception unwinds the stack what runs is aborted, and the other ranks of this node are told at once.
  ~GroupCore();
  GroupCore(const GroupCore&) = delete;
  GroupCore& operator=(const GroupCore&) = delete;

  // Collective over all ranks: those of each node meet, then all connect. `options.node_group` is found out.
  static std::unique_ptr<GroupCore> open(GroupDescription description);

  const GroupDescription& description() const { return description_; }
  int rank() const { return description_.options.rank; }
  int size() const { return description_.options.size; }
  int world_rank_of(int rank) const { return internal::world_rank_of(rank, description_.options.world_ranks); }
  StatusPage page() const { return description_.process.page; }
  Backend& backend() { return *backend_; }
  // The ranks of this node.
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

  // A new group of the ranks `members` (of this group, this one among them), that no other call of this gave.
  std::unique_ptr<GroupCore> make_group(std::span<const int> members, std::string name);
  // The same where every rank of this group calls it: `members` are those of this color. Null for a negative one.
  std::unique_ptr<GroupCore> split_off(int color, std::span<const int> members, std::string name);
  void monitored_barrier(std::optional<std::chrono::milliseconds> timeout);

 private:
  // Of an operation for which the program gave this one, or none.
  std::chrono::milliseconds timeout_of(std::optional<std::chrono::milliseconds> programs) const;
  void require_memory(const Call& call) const;
  GroupDescription describe_group(std::span<const int> members, std::string name);
  OperationQueue& queue_of(const Call& call);
  // Counts the call.
  std::optional<wire::Fault> due_fault(Operation operation);

  const GroupDescription description_;
  const std::shared_ptr<Backend> backend_;  // shared with the operations under way
  const std::string backend_name_;
  const std::shared_ptr<GroupProgress> progress_;

  mutable std::mutex mutex_;
  std::string closed_by_;
  std::map<std::string, int> groups_made_;  // by list of ranks
  int monitored_barriers_ = 0;
  std::map<std::pair<Operation, int>, std::unique_ptr<OperationQueue>> lanes_;  // send and recv, by peer
  OperationQueue collectives_;
};

}  // namespace ddp::internal
