#include "runtime/group/group_core.h"

#include <ddp/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <optional>

#include "base/text.h"
#include "runtime/error_file.h"
#include "runtime/host/contract.h"
#include "runtime/host/host_group.h"
#include "runtime/progress/board.h"

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

std::vector<std::string> numbers(std::span<const int> ranks) {
  std::vector<std::string> result;
  for (const int rank : ranks) result.push_back(std::to_string(rank));
  return result;
}

}  // namespace

using std::chrono::milliseconds;

// Shows each collective to the ranks of this machine, and has the backend carry it out. May outlive the group, when an
// exception ends it.
class GroupCore::Runner : public CallRunner {
 public:
  Runner(const GroupDescription& description, std::shared_ptr<Backend> backend, std::shared_ptr<GroupProgress> progress)
      : group_(description.name),
        rank_(description.options.rank),
        size_(description.options.size),
        host_(description.options.host),
        compares_all_(description.detail && !(host_ && host_->holds_all())),
        backend_(std::move(backend)),
        progress_(std::move(progress)) {}

  void called(const Call& call) override { progress_->called(call); }

  std::size_t begins_ahead() const override { return backend_->begins_ahead(); }

  bool begin(std::span<const Call* const> calls) override {
    std::vector<const Call*> moving;
    for (const Call* call : calls) {
      const bool is_collective = !is_transfer(call->operation);
      if (is_collective) guarded(*call, [&] { show(*call); });
      if (is_collective && compares_all_) return false;
      if (!moves_nothing(*call)) moving.push_back(call);
    }
    if (moving.empty()) return false;
    // Which of several fails to begin cannot be known; the first is named.
    const bool begun = guarded(*calls.front(), [&] { return backend_->begin(moving); });
    for (const Call* call : calls) {
      if (begun) progress_->started(*call);
    }
    return begun;
  }

  void join_stream(const Call& call) override { backend_->join_stream(call); }

  void run(const Call& call) override {
    guarded(call, [&] {
      if (!is_transfer(call.operation)) {
        show(call);
        if (compares_all_) compare_all(call);
      }
      progress_->started(call);
      if (!moves_nothing(call)) backend_->run(call);
    });
    if (host_ && !is_transfer(call.operation)) host_->own_area().done = call.sequence;
    progress_->finished(call);
  }

  std::string describe(const Call& call) const override {
    return "rank " + std::to_string(rank_) + (group_ == "world" ? "" : " of group '" + group_ + "'") + ": " +
           ddp::describe(call);
  }
  OperationError::Operation identify(const Call& call) const override {
    return {group_, rank_, std::string(to_string(call.operation)), call.sequence};
  }

 private:
  void show(const Call& call) {
    if (!host_ || shown_ >= call.sequence) return;
    shown_ = call.sequence;
    show_call(*host_, call);
    if (!compares_all_) compare_calls(*host_, call);
  }

  // Between machines: a collective before the collective, in which each rank says what it calls. All ranks hear of a
  // difference in it.
  void compare_all(const Call& call) {
    constexpr std::size_t kBytes = 256;
    std::vector<char> own(kBytes);
    std::memcpy(own.data(), &call.fingerprint, sizeof call.fingerprint);
    const std::string text = describe_with_place(call);
    std::copy_n(text.begin(), std::min(text.size(), kBytes - sizeof call.fingerprint - 1),
                own.begin() + sizeof call.fingerprint);
    std::vector<char> all(kBytes * static_cast<std::size_t>(size_));
    Call question;
    question.operation = Operation::all_gather;
    question.input = {own.data(), own.size(), DataType::u8};
    question.output = {all.data(), all.size(), DataType::u8};
    question.timeout = call.timeout;
    question.sequence = call.sequence | std::uint64_t{1} << 61;
    question.fingerprint = fingerprint_of(question, size_);
    backend_->run(question);
    for (int other = 0; other < size_; ++other) {
      const char* said = all.data() + kBytes * static_cast<std::size_t>(other);
      if (std::memcmp(said, own.data(), sizeof call.fingerprint) == 0) continue;
      throw Error(ErrorKind::mismatch, describe_difference(rank_, text, other, said + sizeof call.fingerprint), other);
    }
  }

  template <typename Deed>
  decltype(std::declval<Deed>()()) guarded(const Call& call, Deed&& deed) {
    try {
      return deed();
    } catch (const Error& error) {
      fail(call, error);
    }
  }

  [[noreturn]] void fail(const Call& call, const Error& error) {
    std::optional<Error> cause;
    if (!is_transfer(call.operation)) {
      // Whatever the backend says: if the ranks have called different things, that is why.
      if (host_ && error.kind() != ErrorKind::mismatch) cause = difference(call);
      if (host_) host_->say_failed();
      backend_->abort();
    }
    if (!cause && error.kind() == ErrorKind::peer_lost && error.peer() == Error::kNobody) cause = dead_peer(error);
    const Error& told = cause ? *cause : error;
    const OperationError failure(told.kind(), describe(call) + ": " + told.what(), told.peer(), identify(call));
    // So that the launcher can tell a victim from the rank that failed first. What was aborted was so because of
    // something else.
    if (failure.kind() != ErrorKind::aborted) record_error(failure.kind(), failure.what());
    throw failure;
  }

  // A rank of this machine that has ended without a word, where the backend knows only that somebody has.
  std::optional<Error> dead_peer(const Error& error) const {
    for (std::size_t peer = 0; host_ && peer < host_->size(); ++peer) {
      if (peer == host_->own() || host_->area(peer).state != RankState::working || !host_->gone(peer)) continue;
      const int rank = host_->rank_of(peer);
      return Error(ErrorKind::peer_lost, "rank " + std::to_string(rank) + " has ended (" + error.what() + ")", rank);
    }
    return std::nullopt;
  }

  std::optional<Error> difference(const Call& call) const {
    try {
      compare_calls(*host_, call);
      return std::nullopt;
    } catch (const Error& mismatch) {
      return mismatch;
    }
  }

  const std::string group_;
  const int rank_;
  const int size_;
  const std::shared_ptr<HostGroup> host_;
  const bool compares_all_;
  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<GroupProgress> progress_;
  std::atomic<std::uint64_t> shown_ = 0;  // begin() and run() may come from two threads
};

GroupCore::GroupCore(GroupDescription description, std::unique_ptr<Backend> backend)
    : description_(std::move(description)),
      backend_(std::move(backend)),
      backend_name_(backend_->name()),
      progress_(std::make_shared<GroupProgress>(process_board(), description_.name, rank(), size())),
      collectives_(std::make_shared<Runner>(description_, backend_, progress_)) {}

GroupCore::~GroupCore() {
  if (std::uncaught_exceptions() == 0) return;
  if (description_.options.host) description_.options.host->say_failed();
  backend_->abort();
}

OperationQueue& GroupCore::queue_of(const Call& call) {
  if (!is_transfer(call.operation)) return collectives_;
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[{call.operation, call.peer}];
  if (!lane) {
    lane = std::make_unique<OperationQueue>(std::make_shared<Runner>(description_, backend_, progress_));
    if (!closed_by_.empty()) lane->close(closed_by_);
  }
  return *lane;
}

void GroupCore::require_open(const std::string& function) const {
  const std::lock_guard lock(mutex_);
  if (closed_by_.empty()) return;
  throw Error(ErrorKind::aborted, "rank " + std::to_string(rank()) + ": " + function + ": " + closed_by_);
}

// Backends trust what they get.
void GroupCore::require_memory(const Call& call) const {
  const auto check = [&](const ConstBuffer& buffer) {
    const bool reachable = buffer.device == DeviceType::cpu || backend_->has_gpu();
    if (buffer.count == 0 || (buffer.data != nullptr && reachable)) return;
    const std::string what = std::string(to_string(call.operation)) + ": " + ddp::describe(buffer);
    if (buffer.data == nullptr) throw Error(ErrorKind::invalid_argument, what + " has no memory (a null pointer)");
    throw Error(ErrorKind::unavailable,
                what + " is in GPU memory, which backend " + backend_name_ + " cannot reach. Use nccl.");
  };
  if (call.input_parts.empty()) check(call.input);  // else it stands for the parts
  check(call.output);
  for (const ConstBuffer& part : call.input_parts) check(part);
  for (const Buffer& part : call.output_parts) check(part);
}

Work GroupCore::push(Call call, const CallOptions& options, CallSite site) {
  require_memory(call);
  call.timeout = options.timeout.value_or(description_.options.timeout);
  call.name = options.name;
  call.stream = options.stream;
  call.site = site;
  call.fingerprint = fingerprint_of(call, size());
  OperationQueue& queue = queue_of(call);
  return queue.push(std::move(call));
}

void GroupCore::abort() {
  close("the process group was aborted");
  if (description_.options.host) description_.options.host->say_failed();
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
    const std::string what = "rank " + std::to_string(rank()) + ": new_group '" + made.name + "' of ranks " +
                             base::join(numbers(members), ", ") + ": ";
    if (error.kind() == ErrorKind::peer_lost) throw Error(ErrorKind::peer_lost, what + error.what(), error.peer());
    throw Error(ErrorKind::timeout,
                what +
                    "some of them did not come. All of them must call new_group with the same ranks in the same "
                    "order (" +
                    error.what() + ")",
                error.peer());
  }
}

std::unique_ptr<GroupCore> GroupCore::split_off(int color, std::span<const int> members, std::string name) {
  if (!backend_->can_split()) return color < 0 ? nullptr : make_group(members, std::move(name));
  if (color < 0) {
    backend_->split({}, nullptr, color);
    return nullptr;
  }
  GroupDescription made = describe_group(members, std::move(name));
  made.options.host = HostGroup::meet(made.options, *made.store);
  auto backend = backend_->split(made.options, made.store, color);
  return std::make_unique<GroupCore>(std::move(made), std::move(backend));
}

GroupDescription GroupCore::describe_group(std::span<const int> members, std::string name) {
  GroupDescription made = description_;
  made.options.world_ranks.clear();
  if (!made.options.world_store) made.options.world_store = description_.store;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::vector<int>& world = description_.options.world_ranks;
    made.options.world_ranks.push_back(world.empty() ? members[i] : world[static_cast<std::size_t>(members[i])]);
    if (members[i] == rank()) made.options.rank = static_cast<int>(i);
  }
  made.options.size = static_cast<int>(members.size());
  // Not kept alive by the part: its end is what tells the other ranks that this one has left.
  made.options.look_around = [whole = std::weak_ptr(description_.options.host),
                              all = std::vector<int>(members.begin(), members.end())] {
    const std::shared_ptr<HostGroup> host = whole.lock();
    for (std::size_t peer = 0; host && peer < host->size(); ++peer) {
      const int rank = host->rank_of(peer);
      if (peer == host->own() || !host->ended(peer) || std::find(all.begin(), all.end(), rank) == all.end()) continue;
      throw Error(ErrorKind::peer_lost,
                  "rank " + std::to_string(rank) + " has ended, or left the group that this is a part of", rank);
    }
  };
  const std::string list = base::join(numbers(members), ",");
  made.name = name.empty() ? "ranks " + list : std::move(name);
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++groups_made_[list];
  }
  made.store = make_prefix_store("group/" + list + "/" + std::to_string(number), description_.store);
  return made;
}

std::unique_ptr<GroupCore> GroupCore::open(GroupDescription description) {
  description.options.host = HostGroup::meet(description.options, *description.store);
  auto backend = description.make_backend(description.options, description.store);
  return std::make_unique<GroupCore>(std::move(description), std::move(backend));
}

// Each rank says that it came; rank 0 says that all have. Whoever does not hear that in time looks who is missing.
void GroupCore::monitored_barrier(milliseconds timeout) {
  require_open("monitored_barrier");
  Store& store = *description_.store;
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
  std::string given_up;  // what rank 0 said of it
  try {
    if (rank() == 0) {
      store.wait(keys, timeout);
      store.set(all_came, "");
      // Whoever came to this one has left the one before.
      for (const std::string& key : keys_of(number - 1)) store.delete_key(key);
      store.delete_key(prefix_of(number - 1) + "all");
    } else {
      store.wait({&all_came, 1}, timeout);
      given_up = store.get(all_came);
    }
    if (given_up.empty()) return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::timeout) throw;
  }
  std::vector<int> missing;
  for (int other = 0; given_up.empty() && other < size(); ++other) {
    if (!store.check({&keys[static_cast<std::size_t>(other)], 1})) missing.push_back(other);
  }
  std::string who = missing.empty()
                        ? "rank 0 came too late, or had given up"
                        : (missing.size() == 1 ? "rank " : "ranks ") + base::rank_list(missing) + " did not come";
  if (!given_up.empty()) who = "rank 0 had given up before all came: " + given_up;
  // Whoever comes later knows at once.
  if (rank() == 0) store.set(all_came, who + " within " + base::human_duration(timeout));
  const OperationError failure(ErrorKind::timeout,
                               "rank " + std::to_string(rank()) + ": monitored_barrier #" + std::to_string(number) +
                                   ": " + who + (given_up.empty() ? " within " + base::human_duration(timeout) : ""),
                               missing.empty() ? 0 : missing[0],
                               {description_.name, rank(), "monitored_barrier", static_cast<std::uint64_t>(number)});
  record_error(failure.kind(), failure.what());
  throw failure;
}

}  // namespace ddp
