#include "launcher/run/ranks/worker_page.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/printable.h"
#include "launcher/limits.h"
#include "wire/call_names.h"

namespace ddp::launcher {
namespace {

// Returns the text up to its end, fit for a terminal.
template <std::size_t N>
std::string text_of(const std::array<char, N>& text) {
  return base::printable({text.data(), ::strnlen(text.data(), N)});
}

template <std::size_t N>
std::string place_of(const std::array<char, N>& file, std::int32_t line) {
  const std::string path = text_of(file);
  if (path.empty() || line <= 0) return "";
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(line);
}

std::string what_of(const wire::PageCall& call) {
  const std::string_view operation = wire::name_of(wire::kOperationNames, call.operation);
  std::string text(operation);
  const bool reduces = operation == "all_reduce" || operation == "reduce" || operation == "reduce_scatter";
  // PyTorch's recorder does not record the reduction.
  if (reduces && call.op < wire::kReductionNames.size())
    text += " " + std::string(wire::name_of(wire::kReductionNames, call.op));
  if (call.peer >= 0) text += " root " + std::to_string(call.peer);
  if (operation == "barrier") return text;
  return text + " " + std::string(wire::name_of(wire::kTypeNames, call.type)) + "[" + std::to_string(call.count) + "]";
}

std::vector<TransferView> read_transfers(const wire::PageGroup& group) {
  std::vector<TransferView> transfers;
  for (const wire::PageTransfer& transfer : group.transfers) {
    const std::uint64_t before = transfer.number.load(std::memory_order_acquire);
    if (before == 0 || transfer.peer < 0 || transfer.peer >= group.size) continue;
    const TransferView view{
        wire::name_of(wire::kOperationNames, transfer.operation) == "send",
        transfer.peer,
        before,
        transfer.is_done.load(std::memory_order_acquire) != 0,
        transfer.waiters.load(wire::kRelaxed) > 0,
        transfer.called_at,
        std::string(wire::name_of(wire::kTypeNames, transfer.type)) + "[" + std::to_string(transfer.count) + "]",
        place_of(transfer.file, transfer.line)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (transfer.number.load(wire::kRelaxed) == before) transfers.push_back(view);
  }
  std::ranges::sort(transfers, [](const TransferView& a, const TransferView& b) {
    return std::pair(a.is_done, a.called_at) < std::pair(b.is_done, b.called_at);
  });
  return transfers;
}

// Returns the number of places that may be in use. The memory of the others need not be touched.
std::size_t places_of(const wire::StatusPageLayout& page) {
  return std::min<std::size_t>(page.places.load(std::memory_order_acquire), wire::kPageGroups);
}

void read_worker(const wire::PageWorker& worker, PageView& view) {
  view.steps = worker.steps.load(wire::kRelaxed);
  view.more_time_until = worker.more_time_until.load(wire::kRelaxed);
  // The worker writes this in a few nanoseconds. If it never becomes consistent, the writer is dead or broken.
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t before = worker.changes.load(std::memory_order_acquire);
    view.phase = phase_of_page(worker.phase);
    view.phase_name = text_of(worker.name);
    view.phase_place = place_of(worker.file, worker.line);
    view.phase_since = worker.since;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && worker.changes.load(wire::kRelaxed) == before) return;
  }
}

// Returns the UUID as the driver writes it, or an empty text if the worker has written none.
std::string gpu_uuid_of(const wire::StatusPageLayout& page) {
  if (page.has_gpu_uuid.load(std::memory_order_acquire) != 1) return "";
  std::string text;
  for (std::size_t i = 0; i < page.gpu_uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += base::hex64(page.gpu_uuid[i]).substr(14);
  }
  return text;
}

bool is_stale(const wire::PageGroup& group, std::uint64_t now) {
  const auto latest = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kLatestSample).count());
  const std::uint64_t sampled_at = group.sampled_at.load(wire::kRelaxed);
  return sampled_at != 0 && now > latest && sampled_at < now - latest;
}

// Returns whether a reader that follows the calls of a group has done so until now, or almost.
bool is_recent(std::uint64_t followed_until, std::uint64_t now) {
  const auto few_samples =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(6 * limits::kHangSampleInterval).count());
  return followed_until != 0 && now - std::min(now, followed_until) <= few_samples;
}

std::optional<LaunchView> launches_of(const wire::PageGroup& group) {
  const auto launches = static_cast<wire::Launches>(group.launches.load(wire::kRelaxed));
  if (launches == wire::Launches::none) return std::nullopt;
  constexpr std::uint64_t kNumber = (std::uint64_t{1} << wire::kPeerShift) - 1;
  const std::uint64_t one = group.waits_for_one.load(wire::kRelaxed);
  LaunchView view{launches == wire::Launches::all, group.waits_for_all.load(wire::kRelaxed), one & kNumber,
                  static_cast<int>(one >> wire::kPeerShift) - 1};
  view.kernels_from = group.kernels_from.load(wire::kRelaxed);
  return view;
}

// Nothing is known of what is done, so the launches count as done until the other ranks are looked at. What a GPU has
// begun and ended is known if kernels are followed.
void show_launches(GroupView& group, const LaunchView& launches, std::uint64_t gpu_started,
                   std::uint64_t gpu_finished) {
  const bool shows_kernels = launches.kernels_from > 0;
  group.launches = launches;
  group.launches->is_named = !group.name.empty();
  if (group.name.empty()) group.name = name_of_communicator(group.identity);
  group.is_sampled = true;
  group.started = group.called;
  group.finished = group.called;
  group.gpu_queued = group.called;
  group.gpu_started = shows_kernels ? std::min(gpu_started, group.called) : group.called;
  group.gpu_finished = shows_kernels ? std::min(gpu_finished, group.gpu_started) : group.called;
}

// Before its first steps are done a rank may compile, allocate, and connect.
bool is_at_first_step(const PageView& view) {
  const bool has_worked =
      std::ranges::any_of(view.groups, [](const GroupView& group) { return group.finished >= limits::kHangWarmCalls; });
  return view.phase == RankPhase::training && view.steps == 0 && !has_worked;
}

}  // namespace

std::string describe(const CallView& call) {
  return (call.what.empty() ? "a collective" : call.what) + (call.name.empty() ? "" : " ('" + call.name + "')");
}

std::string describe_with_place(const CallView& call) {
  return describe(call) + (call.place.empty() ? "" : " at " + call.place);
}

std::string describe(const TransferView& transfer) {
  return (transfer.is_send ? "send " + transfer.what + " to" : "recv " + transfer.what + " from") + " rank " +
         std::to_string(transfer.peer);
}

GroupKey key_of(std::uint64_t identity, const std::string& name, int size) {
  return identity != 0 ? GroupKey{identity, "", 0} : GroupKey{0, name, size};
}

std::string name_of_communicator(std::uint64_t identity) {
  return "communicator " + base::hex64(identity).substr(0, 8);
}

wire::Progress progress_of(const PageView& page) {
  if (!page.is_written) return wire::Progress::unknown;
  const bool has_worked = std::ranges::any_of(page.groups, [](const GroupView& group) {
    return group.finished + group.transfers_finished >= limits::kOperationsOfProgress;
  });
  return page.steps > 0 || has_worked ? wire::Progress::some : wire::Progress::none;
}

PageView read_page(const wire::StatusPageLayout& page, std::uint64_t now) {
  PageView view;
  view.writer = page.writer.load(wire::kRelaxed);
  view.is_written = view.writer != 0;
  if (!view.is_written) return view;
  read_worker(page.worker, view);
  // A process cannot have more threads, so a larger number shows that the memory is damaged.
  constexpr std::uint32_t kMostThreads = 1U << 22;
  view.calling_threads = static_cast<int>(std::min(page.worker.calling_threads.load(wire::kRelaxed), kMostThreads));
  view.waiting_threads = static_cast<int>(std::min(page.worker.waiting_threads.load(wire::kRelaxed), kMostThreads));
  constexpr std::uint32_t kMostInts = 1U << 30;
  view.worlds_entered = static_cast<int>(std::min(page.worlds_entered.load(wire::kRelaxed), kMostInts));
  view.awaited_world = static_cast<int>(std::min(page.awaited_world.load(wire::kRelaxed), kMostInts));
  view.gpu_uuid = gpu_uuid_of(page);
  view.progress_done = page.progress_done.load(wire::kRelaxed);
  view.progress_total = page.progress_total.load(wire::kRelaxed);
  view.other_progress = page.other_progress.load(wire::kRelaxed);
  view.optimizer_steps = page.optimizer_steps.load(wire::kRelaxed);
  view.blocked_threads = static_cast<int>(std::min(page.blocked_threads.load(wire::kRelaxed), kMostThreads));
  view.blocked_thread = page.worker.blocked_thread.load(wire::kRelaxed);
  view.continuations = static_cast<int>(std::min(page.continuations.load(wire::kRelaxed), kMostThreads));
  view.polled_at = page.worker.polled_at.load(wire::kRelaxed);
  view.handed_on = page.worker.handed_on.load(wire::kRelaxed);
  const auto places = static_cast<int>(places_of(page));
  for (int place = 0; place < places; ++place) {
    const wire::PageGroup& group = page.groups[static_cast<std::size_t>(place)];
    const std::uint32_t use = group.in_use.load(std::memory_order_acquire);
    if (use != wire::kPageInUse && use != wire::kPageLeft) continue;
    const int size = group.size;
    const int rank = group.rank;
    if (size < 1 || rank < 0 || rank >= size) continue;
    const auto launches = launches_of(group);
    if (launches && page.records_launches.load(wire::kRelaxed) != 0) continue;
    // Later numbers are read first, because a finished collective was called before.
    const std::uint64_t gpu_finished = group.gpu_finished.load(std::memory_order_acquire);
    const std::uint64_t gpu_started = group.gpu_started.load(std::memory_order_acquire);
    const std::uint64_t gpu_queued = group.gpu_queued.load(std::memory_order_acquire);
    const std::uint64_t finished = group.finished.load(std::memory_order_acquire);
    const std::uint64_t started = group.started.load(std::memory_order_acquire);
    const std::uint64_t called = group.called.load(std::memory_order_acquire);
    const std::uint64_t transfers_finished = group.transfers_finished.load(std::memory_order_acquire);
    const std::uint64_t transfers_called = group.transfers_called.load(wire::kRelaxed);
    const std::uint64_t sampled_at = group.sampled_at.load(std::memory_order_acquire);
    const bool is_final = sampled_at == wire::kSampledAtEnd;
    view.groups.push_back({text_of(group.name), rank, size, place, called, started, finished, transfers_called,
                           transfers_finished, use == wire::kPageLeft || is_final || is_stale(group, now)});
    view.groups.back().is_sampled = sampled_at != 0;
    view.groups.back().is_live = sampled_at == 0 || is_recent(group.followed_until.load(wire::kRelaxed), now);
    view.groups.back().is_final = is_final;
    view.groups.back().identity = group.identity;
    view.groups.back().blocked = static_cast<int>(std::min(group.blocked.load(wire::kRelaxed), kMostThreads));
    if (transfers_called > 0) view.groups.back().transfers = read_transfers(group);
    if (launches) {
      show_launches(view.groups.back(), *launches, gpu_started, gpu_finished);
      continue;
    }
    // A GPU that had hung may write values that belong to an earlier group in this place.
    if (gpu_finished > gpu_started || gpu_started > gpu_queued || gpu_queued > called) continue;
    GroupView& seen = view.groups.back();
    seen.gpu_queued = gpu_queued;
    seen.gpu_started = gpu_started;
    seen.gpu_finished = gpu_finished;
  }
  if (is_at_first_step(view)) view.phase = RankPhase::first_step;
  return view;
}

std::uint64_t page_version(const wire::StatusPageLayout& page, std::uint64_t now) {
  std::uint64_t version = 1;  // 0 means that the page was not sampled
  const auto add = [&](std::uint64_t value) { version = base::mix(version, value); };
  add(static_cast<std::uint64_t>(page.writer.load(wire::kRelaxed)));
  add(page.worker.changes.load(wire::kRelaxed));
  add(page.worker.steps.load(wire::kRelaxed));
  add(page.worker.more_time_until.load(wire::kRelaxed));
  add(page.worker.waiting_threads.load(wire::kRelaxed));
  add(page.worlds_entered.load(wire::kRelaxed));
  add(page.awaited_world.load(wire::kRelaxed));
  add(page.other_progress.load(wire::kRelaxed));
  add(page.optimizer_steps.load(wire::kRelaxed));
  add(page.blocked_threads.load(wire::kRelaxed));
  add(page.has_gpu_uuid.load(wire::kRelaxed));
  const std::size_t places = places_of(page);
  for (std::size_t place = 0; place < places; ++place) {
    const wire::PageGroup& group = page.groups[place];
    const std::uint32_t use = group.in_use.load(wire::kRelaxed);
    add(use);
    if (use == wire::kPageFree) continue;
    add(is_stale(group, now) ? 1 : 0);
    add(group.sampled_at.load(wire::kRelaxed) == wire::kSampledAtEnd ? 1 : 0);
    for (const auto* number : {&group.called, &group.started, &group.finished, &group.transfers_called,
                               &group.transfers_finished, &group.gpu_queued, &group.gpu_started, &group.gpu_finished}) {
      add(number->load(wire::kRelaxed));
    }
  }
  return version;
}

std::vector<Arrival> read_arrivals(const wire::StatusPageLayout& page, int place) {
  std::vector<Arrival> arrivals;
  arrivals.reserve(wire::kPageCalls);
  for (const wire::PageCall& call : page.groups.at(static_cast<std::size_t>(place)).calls) {
    const std::uint64_t sequence = call.sequence.load(std::memory_order_acquire);
    const std::uint64_t called_at = call.called_at;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (sequence != 0 && call.sequence.load(wire::kRelaxed) == sequence) arrivals.push_back({sequence, called_at});
  }
  return arrivals;
}

std::vector<RawStack> read_stacks(const wire::StatusPageLayout& page) {
  std::vector<RawStack> stacks;
  const std::uint32_t request = page.stacks.request.load();
  for (const wire::PageStack& stack : page.stacks.stacks) {
    if (request == 0 || stack.answers.load(std::memory_order_acquire) != request) continue;
    const std::size_t depth = std::min<std::size_t>(stack.depth, stack.addresses.size());
    stacks.push_back({stack.thread, {stack.addresses.begin(), stack.addresses.begin() + static_cast<long>(depth)}});
  }
  return stacks;
}

std::vector<CallView> read_calls(const wire::StatusPageLayout& page, int place) {
  std::vector<CallView> calls;
  for (const wire::PageCall& call : page.groups.at(static_cast<std::size_t>(place)).calls) {
    const std::uint64_t before = call.sequence.load(std::memory_order_acquire);
    const CallView view{before,        call.fingerprint,   call.called_at,
                        what_of(call), text_of(call.name), place_of(call.file, call.line),
                        call.peer};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before != 0 && call.sequence.load(wire::kRelaxed) == before) calls.push_back(view);
  }
  std::ranges::sort(calls, [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return calls;
}

WorkerPage::WorkerPage(int rank, int local_rank, int attempt) {
  base::UniqueFd memory(::memfd_create("ddp-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), sizeof(wire::StatusPageLayout)) != 0) return;
  // A worker that shrinks the memory would kill the launcher by SIGBUS.
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* mapped = ::mmap(nullptr, sizeof(wire::StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return;
  descriptor_ = std::move(memory);
  page_.reset(static_cast<wire::StatusPageLayout*>(mapped));  // the memory is zero, as the worker's part must be
  page_->magic = wire::kPageMagic;
  page_->version = wire::kPageVersion;
  page_->bytes = sizeof(wire::StatusPageLayout);
  page_->rank = rank;
  page_->local_rank = local_rank;
  page_->attempt = attempt;
  page_->lost_rank = wire::kNoRankLost;
}

void WorkerPage::request_stacks() const {
  if (page_ == nullptr) return;
  page_->stacks.taken = 0;
  ++page_->stacks.request;
}

void WorkerPage::request_stop() const {
  if (page_ != nullptr) page_->stop_request.store(1, std::memory_order_release);
}

void WorkerPage::mark_peer_lost(int rank) const {
  std::int32_t none = wire::kNoRankLost;
  if (page_ != nullptr) page_->lost_rank.compare_exchange_strong(none, rank);
}

}  // namespace ddp::launcher
