#include "runtime/group/group_core.h"

#include <ddp/error.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/call/called_from.h"
#include "runtime/group/fault_injector.h"
#include "runtime/group/group_errors.h"
#include "runtime/group/group_runner.h"
#include "runtime/peers/lost_rank.h"
#include "runtime/peers/node_group.h"
#include "runtime/peers/wait_for_ranks.h"
#include "runtime/progress/error_file.h"
#include "runtime/progress/group_progress.h"

namespace ddp::internal {
namespace {

std::vector<std::string> numbers(std::span<const int> ranks) {
  std::vector<std::string> result;
  for (const int rank : ranks) result.push_back(std::to_string(rank));
  return result;
}

// Returns a function that throws if one of these ranks of the group has ended or left the group. It knows only ranks of
// this node. It does not keep the group alive, because the group's end shows the other ranks that this rank has left.
std::function<void()> gone_ranks_check(const std::shared_ptr<NodeGroup>& group, std::vector<int> ranks) {
  return [group = std::weak_ptr(group), ranks = std::move(ranks)] {
    const std::shared_ptr<NodeGroup> node = group.lock();
    for (std::size_t peer = 0; node && peer < node->size(); ++peer) {
      const int rank = node->rank_of(peer);
      if (peer == node->own() || !node->ended(peer) || std::ranges::find(ranks, rank) == ranks.end()) continue;
      throw gone_error(rank, false);
    }
  };
}

void meet_ranks(GroupDescription& group) {
  const BackendOptions& options = group.options;
  const Meeting meeting{options.rank,          options.size,   options.timeout,   options.node_name,
                        options.check_members, group.patience, group.process.page};
  group.options.node_group = NodeGroup::meet(meeting, *group.store);
  group.options.lost_rank = group.options.node_group->holds_all()
                                ? nullptr
                                : std::make_shared<LostRank>(group.options.node_group, group.store);
}

}  // namespace

using std::chrono::milliseconds;

std::uint64_t identity_of(std::string_view place, std::uint64_t within) {
  base::Fnv1a64 hash;
  hash.update(place);
  return std::max<std::uint64_t>(base::mix(within, hash.value()), 1);
}

GroupCore::GroupCore(GroupDescription description, std::unique_ptr<Backend> backend)
    : description_(std::move(description)),
      leaving_(nullptr,
               [node = description_.options.node_group](void*) {
                 if (node) node->say_left();
               }),
      backend_(std::move(backend)),
      backend_name_(backend_->name()),
      progress_(std::make_shared<GroupProgress>(page(), description_.is_shown, description_.name, description_.identity,
                                                rank(), size(), ring())),
      collectives_(std::make_shared<GroupRunner>(description_, backend_, progress_)) {
  if (progress_->place() != nullptr) backend_->mark_on(*page().memory(), *progress_->place());
}

GroupCore::~GroupCore() {
  if (std::uncaught_exceptions() == 0) return;
  if (description_.options.node_group) description_.options.node_group->say_failed();
  backend_->abort();
}

OperationQueue& GroupCore::queue_of(const Call& call) {
  if (!is_transfer(call.operation)) return collectives_;
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[{call.operation, call.peer}];
  if (!lane) {
    lane = std::make_unique<OperationQueue>(std::make_shared<GroupRunner>(description_, backend_, progress_));
    if (!closed_by_.empty()) lane->close(closed_by_);
  }
  return *lane;
}

void GroupCore::require_open(const std::string& function) const {
  const std::lock_guard lock(mutex_);
  if (!closed_by_.empty()) throw closed_group_error(rank(), function, closed_by_);
}

// Backends do not check their arguments, so the memory is checked here.
void GroupCore::require_memory(const Call& call) const {
  const auto check = [&](const ConstBuffer& buffer) {
    const bool reachable = buffer.device == DeviceType::cpu || backend_->gpu().has_value();
    if (buffer.count == 0 || (buffer.data != nullptr && reachable)) return;
    const std::string what = std::string(to_string(call.operation)) + ": " + internal::describe(buffer);
    if (buffer.data == nullptr) throw no_memory_error(what);
    throw Error(ErrorKind::unavailable, out_of_reach_text(what, backend_name_) + ".");
  };
  if (call.input_parts.empty()) check(call.input);  // with parts, the input only describes them
  check(call.output);
  for (const ConstBuffer& part : call.input_parts) check(part);
  for (const Buffer& part : call.output_parts) check(part);
}

milliseconds GroupCore::timeout_of(std::optional<milliseconds> programs) const {
  return programs.value_or(description_.call_timeout.value_or(description_.options.timeout));
}

Work GroupCore::push(Call call, const CallOptions& options, CallSite site) {
  require_memory(call);
  call.timeout = timeout_of(options.timeout);
  call.is_programs_timeout = options.timeout || description_.is_programs_timeout;
  call.name = options.name;
  call.stream = options.stream;
  call.site = CalledFrom::outermost(site);
  backend_->check(call);
  OperationQueue& queue = queue_of(call);
  if (const auto fault = due_fault(call.operation)) {
    const FaultOutcome outcome = carry_out(*fault, call, size());
    if (outcome == FaultOutcome::skip) return queue.skip(std::move(call));
    if (outcome == FaultOutcome::call_barrier_first) {
      Call barrier;
      barrier.timeout = call.timeout;
      barrier.is_programs_timeout = call.is_programs_timeout;
      barrier.site = call.site;
      barrier.fingerprint = fingerprint_of(barrier, size());
      [[maybe_unused]] const Work nobody_waits = queue.push(std::move(barrier));
    }
  }
  call.fingerprint = fingerprint_of(call, size());
  return queue.push(std::move(call));
}

std::optional<wire::Fault> GroupCore::due_fault(Operation operation) {
  FaultInjector* faults = description_.process.faults;
  return faults == nullptr ? std::nullopt : faults->due(world_rank_of(rank()), operation);
}

void GroupCore::abort() {
  close(kAbortedText);
  if (description_.options.node_group) description_.options.node_group->say_failed();
  backend_->abort();
}

void GroupCore::close(const std::string& reason) {
  collectives_.close(reason);
  const std::lock_guard lock(mutex_);
  if (closed_by_.empty()) closed_by_ = reason;
  for (auto& [key, lane] : lanes_) lane->close(reason);
}

std::unique_ptr<GroupCore> GroupCore::make_group(std::span<const int> members, std::string name) {
  require_open("new_group");
  GroupDescription made = describe_group(members, std::move(name));
  try {
    return open(made);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timeout && error.kind() != ErrorKind::peer_lost) throw;
    const std::string text = new_group_text(rank(), made.name, base::join(numbers(members), ", "), error);
    // The number of a late rank is its rank in the new group, which is no world rank.
    record_error(error.kind(), text,
                 error.kind() == ErrorKind::peer_lost ? world_rank_of(error.peer()) : Error::kNobody);
    throw Error(error.kind(), text, error.peer());
  }
}

std::unique_ptr<GroupCore> GroupCore::split_off(int color, std::span<const int> members, std::string name) {
  if (!backend_->can_split()) return color < 0 ? nullptr : make_group(members, std::move(name));
  if (color < 0) {
    backend_->split({}, nullptr, color);
    return nullptr;
  }
  GroupDescription made = describe_group(members, std::move(name));
  meet_ranks(made);
  auto backend = backend_->split(made.options, made.store, color);
  return std::make_unique<GroupCore>(std::move(made), std::move(backend));
}

GroupDescription GroupCore::describe_group(std::span<const int> members, std::string name) {
  GroupDescription made = description_;
  made.options.world_ranks.clear();
  if (!made.options.world_store) made.options.world_store = description_.store;
  for (std::size_t i = 0; i < members.size(); ++i) {
    made.options.world_ranks.push_back(world_rank_of(members[i]));
    if (members[i] == rank()) made.options.rank = static_cast<int>(i);
  }
  made.options.size = static_cast<int>(members.size());
  made.options.check_members =
      gone_ranks_check(description_.options.node_group, std::vector<int>(members.begin(), members.end()));
  const std::string list = base::join(numbers(members), ",");
  made.name = name.empty() ? "ranks " + list : std::move(name);
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++groups_made_[list];
  }
  const std::string place = "group/" + list + "/" + std::to_string(number);
  made.identity = identity_of(place, description_.identity);
  made.store = make_prefix_store(place, description_.store);
  return made;
}

std::unique_ptr<GroupCore> GroupCore::open(GroupDescription description) {
  meet_ranks(description);
  auto backend = description.make_backend(description.options, description.store);
  return std::make_unique<GroupCore>(std::move(description), std::move(backend));
}

// Each rank reports that it has arrived; rank 0 reports that all ranks have arrived. A rank that does not get this
// report in time checks which ranks are missing.
void GroupCore::monitored_barrier(std::optional<milliseconds> programs) {
  require_open("monitored_barrier");
  const milliseconds timeout = timeout_of(programs);
  Store& store = *description_.store;
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++monitored_barriers_;
  }
  const auto name_of = [](int barrier) { return "monitored_barrier/" + std::to_string(barrier); };
  const std::vector<std::string> keys = keys_of_ranks(name_of(number), size());
  const std::string all_came = name_of(number) + "/all";
  store.set(keys[static_cast<std::size_t>(rank())], "");
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  const auto check_members = gone_ranks_check(description_.options.node_group, std::move(all));
  std::string given_up;  // rank 0's reason for giving up
  const auto fail = [&](ErrorKind kind, const std::string& why, int peer) {
    const std::string what = barrier_text(rank(), number, why);
    record_error(kind, what, world_rank_of(peer));
    throw OperationError(kind, what, peer,
                         {description_.name, rank(), "monitored_barrier", static_cast<std::uint64_t>(number)});
  };
  try {
    if (rank() == 0) {
      wait_for_ranks(store, keys, timeout, page(), check_members);
      store.set(all_came, "");
      // All ranks that have arrived at this barrier have left the previous one, so its keys are deleted.
      for (const std::string& key : keys_of_ranks(name_of(number - 1), size())) store.delete_key(key);
      store.delete_key(name_of(number - 1) + "/all");
    } else {
      wait_for_ranks(store, {&all_came, 1}, timeout, page(), check_members);
      given_up = store.get(all_came);
    }
    page().count_other_progress();
    if (given_up.empty()) return;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::peer_lost && error.peer() != Error::kNobody) {
      fail(error.kind(), error.what(), error.peer());
    }
    if (error.kind() != ErrorKind::timeout) throw;
  }
  std::vector<int> missing;
  for (int other = 0; given_up.empty() && other < size(); ++other) {
    if (!store.check({&keys[static_cast<std::size_t>(other)], 1})) missing.push_back(other);
  }
  const std::string why =
      given_up.empty() ? missing_at_barrier_text(missing, timeout) : barrier_given_up_text(given_up);
  if (rank() == 0) store.set(all_came, why);  // a rank that arrives later then fails immediately
  fail(ErrorKind::timeout, why, missing.empty() ? 0 : missing[0]);
}

}  // namespace ddp::internal
