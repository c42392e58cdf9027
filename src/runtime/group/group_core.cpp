#include "runtime/group/group_core.h"

#include <ddp/error.h>

#include <algorithm>

#include "base/text.h"
#include "runtime/error_file.h"

namespace ddp {
namespace {

// Whether no rank gives or gets anything, which each can see in its own call.
bool moves_nothing(const Call& call) {
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::broadcast:
      return call.output.count == 0;
    case Operation::all_gather:
      return call.output.count == 0 && std::all_of(call.output_parts.begin(), call.output_parts.end(),
                                                   [](const Buffer& part) { return part.count == 0; });
    case Operation::reduce_scatter:
      return call.input.count == 0;
    default:
      return false;
  }
}

}  // namespace

using std::chrono::milliseconds;

GroupCore::GroupCore(GroupDescription description, std::unique_ptr<Backend> backend)
    : description_(std::move(description)),
      backend_(std::move(backend)),
      backend_name_(backend_->name()),
      collectives_(runner()) {}

// The queue may outlive the group, when an exception ends it: nothing in here holds `this`.
CallRunner GroupCore::runner() {
  const auto describe_call = [group = description_.name, rank = rank()](const Call& call) {
    return "rank " + std::to_string(rank) + (group == "world" ? "" : " of group '" + group + "'") + ": " +
           describe(call);
  };
  const auto guarded = [describe_call, group = description_.name, rank = rank()](const Call& call, auto&& deed) {
    try {
      return deed();
    } catch (const Error& error) {
      const OperationError failure(error.kind(), describe_call(call) + ": " + error.what(), error.peer(),
                                   {group, rank, std::string(to_string(call.operation)), call.sequence});
      // So that the launcher can tell a victim from the rank that failed first.
      record_error(failure.kind(), failure.what());
      throw failure;
    }
  };
  return {[backend = backend_, guarded](const Call& call) {
            return guarded(call, [&] { return !moves_nothing(call) && backend->begin(call); });
          },
          [backend = backend_, guarded](const Call& call) {
            guarded(call, [&] {
              if (!moves_nothing(call)) backend->run(call);
            });
          },
          describe_call};
}

OperationQueue& GroupCore::queue_of(const Call& call) {
  if (call.operation != Operation::send && call.operation != Operation::recv) return collectives_;
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[{call.operation, call.peer}];
  if (!lane) {
    CallRunner transfers = runner();
    transfers.begin = nullptr;
    lane = std::make_unique<OperationQueue>(std::move(transfers));
  }
  return *lane;
}

Work GroupCore::push(Call call, const CallOptions& options, CallSite site) {
  call.timeout = options.timeout.value_or(description_.options.timeout);
  call.name = options.name;
  call.site = site;
  return queue_of(call).push(std::move(call));
}

void GroupCore::abort() {
  close("the process group was aborted");
  backend_->abort();
}

void GroupCore::close(const std::string& reason) {
  collectives_.close(reason);
  const std::lock_guard lock(mutex_);
  for (auto& [key, lane] : lanes_) lane->close(reason);
}

Store& GroupCore::store(const char* function) {
  if (description_.store) return *description_.store;
  throw Error(ErrorKind::unavailable, std::string(function) + ": a group with backend " + backend_name_ +
                                          " has no store to meet in. Use another backend.");
}

std::unique_ptr<GroupCore> GroupCore::make_group(std::span<const int> members, std::string name) {
  store("new_group");
  std::vector<std::string> numbers;
  GroupDescription made = description_;
  for (std::size_t i = 0; i < members.size(); ++i) {
    numbers.push_back(std::to_string(members[i]));
    if (members[i] == rank()) made.options.rank = static_cast<int>(i);
  }
  made.options.size = static_cast<int>(members.size());
  const std::string list = base::join(numbers, ",");
  made.name = name.empty() ? "ranks " + list : std::move(name);
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++groups_made_[list];
  }
  made.store = make_prefix_store("group/" + list + "/" + std::to_string(number), description_.store);
  auto backend = made.make_backend(made.options, made.store);
  return std::make_unique<GroupCore>(std::move(made), std::move(backend));
}

// Each rank says that it came; rank 0 says that all have. Whoever does not hear that in time looks who is missing.
void GroupCore::monitored_barrier(milliseconds timeout) {
  Store& store = this->store("monitored_barrier");
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++monitored_barriers_;
  }
  const auto prefix_of = [](int barrier) { return "monitored_barrier/" + std::to_string(barrier) + "/"; };
  const auto keys_of = [&](int barrier) {
    std::vector<std::string> keys;
    for (int other = 0; other < size(); ++other) keys.push_back(prefix_of(barrier) + std::to_string(other));
    return keys;
  };
  const std::vector<std::string> keys = keys_of(number);
  const std::string all_came = prefix_of(number) + "all";
  store.set(keys[static_cast<std::size_t>(rank())], "");
  try {
    if (rank() == 0) {
      store.wait(keys, timeout);
      store.set(all_came, "");
      // Whoever came to this one has left the one before.
      for (const std::string& key : keys_of(number - 1)) store.delete_key(key);
      store.delete_key(prefix_of(number - 1) + "all");
    } else {
      store.wait({&all_came, 1}, timeout);
    }
    return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timeout) throw;
  }
  std::vector<int> missing;
  for (int other = 0; other < size(); ++other) {
    if (!store.check({&keys[static_cast<std::size_t>(other)], 1})) missing.push_back(other);
  }
  const std::string who = missing.empty()
                              ? "rank 0 came too late"
                              : (missing.size() == 1 ? "rank " : "ranks ") + base::rank_list(missing) + " did not come";
  const OperationError failure(ErrorKind::timeout,
                               "rank " + std::to_string(rank()) + ": monitored_barrier #" + std::to_string(number) +
                                   ": " + who + " within " + base::human_duration(timeout),
                               missing.empty() ? 0 : missing[0],
                               {description_.name, rank(), "monitored_barrier", static_cast<std::uint64_t>(number)});
  record_error(failure.kind(), failure.what());
  throw failure;
}

}  // namespace ddp
