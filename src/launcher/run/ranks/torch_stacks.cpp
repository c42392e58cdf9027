#include "launcher/run/ranks/torch_stacks.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace ddp::launcher {
namespace {

// Maps a part of a frame's text to the operation that it indicates.
using Row = std::pair<std::string_view, std::string_view>;

// These are frames of the waiting thread, those nearest to the program first. If the name is empty, Gloo's threads show
// it.
constexpr std::array kWaits = {
    // A thread may spin in these until its GPU is done.
    Row{"cudaStreamSynchronize", kGpuSynchronization},
    Row{"cudaDeviceSynchronize", kGpuSynchronization},
    Row{"cudaEventSynchronize", kGpuSynchronization},
    Row{"cuStreamSynchronize", kGpuSynchronization},
    Row{"cuCtxSynchronize", kGpuSynchronization},
    Row{"cuEventSynchronize", kGpuSynchronization},
    Row{"cuMemcpyDtoH", kGpuSynchronization},
    Row{"ProcessGroupGloo::monitoredBarrier", "monitored_barrier"},
    Row{"ProcessGroupGloo::RecvWork::wait", "recv"},
    Row{"ProcessGroupGloo::SendWork::wait", "send"},
    Row{"c10d::Reducer::finalize_backward", "all_reduce"},  // DistributedDataParallel reduces gradients here
    Row{"c10d::Work::wait", ""},
};

// These are frames of Gloo's threads. PyTorch's wheels name libtorch's classes; Debian's packages name only exported
// functions.
constexpr std::array kOperations = {
    Row{"AsyncAllreduceCoalescedWork", "all_reduce_coalesced"},
    Row{"AsyncAllreduce", "all_reduce"},
    Row{"AsyncSparseAllreduce", "all_reduce"},
    Row{"AsyncBroadcast", "broadcast"},
    Row{"AsyncBarrier", "barrier"},
    Row{"AsyncAllgatherCoalesced", "all_gather_coalesced"},
    Row{"AsyncAllgather", "all_gather"},
    Row{"AsyncReduceScatter", "reduce_scatter"},
    Row{"AsyncReduce", "reduce"},
    Row{"AsyncGather", "gather"},
    Row{"AsyncScatter", "scatter"},
    Row{"AsyncAlltoall", "all_to_all"},
    Row{"gloo::broadcast(", "broadcast"},
    Row{"gloo::barrier(", "barrier"},
    Row{"gloo::allgather(", "all_gather"},
    Row{"gloo::allgatherv(", "all_gather"},
    Row{"gloo::reduce(", "reduce"},
    Row{"gloo::gather(", "gather"},
    Row{"gloo::scatter(", "scatter"},
    Row{"gloo::alltoall(", "all_to_all"},
    Row{"gloo::alltoallv(", "all_to_all"},
};

// These are functions of torch.distributed that wait in native code. The names of their variants begin in the same way:
// all_gather_into_tensor, _reduce_scatter_base.
constexpr std::array<std::string_view, 11> kFunctions = {
    "all_reduce",     "all_gather", "all_to_all", "monitored_barrier", "barrier", "broadcast",
    "reduce_scatter", "reduce",     "gather",     "scatter",           "recv"};
// These wait in other functions of torch.distributed, for ranks that have not called them.
constexpr std::array<std::string_view, 3> kMakers = {"init_process_group", "new_group", "split_group"};

// Splits a frame of py-spy, such as "all_reduce (distributed/distributed_c10d.py:2501)". Both are empty if it is none.
struct PythonFrame {
  std::string_view function;
  std::string_view place;

  bool is_of_torch_distributed() const {
    return place.starts_with("distributed/distributed_c10d.py:") || place.starts_with("distributed/c10d_logger.py:") ||
           place.starts_with("distributed/rendezvous.py:");
  }
  // Returns whether it is a function of Python's library, as in "wait (python3.13/threading.py:359)".
  bool is_of_python() const { return place.starts_with("python3.") || place.starts_with('<'); }
};
PythonFrame python_frame(std::string_view frame) {
  const std::size_t bracket = frame.rfind(" (");
  if (bracket == std::string_view::npos || !frame.ends_with(')')) return {};
  const std::string_view place = frame.substr(bracket + 2, frame.size() - bracket - 3);
  if (place.find(".py:") == std::string_view::npos && !place.starts_with('<')) return {};
  return {frame.substr(0, bracket), place};
}

bool has(const std::vector<std::string>& frames, std::string_view part) {
  return std::ranges::any_of(frames, [&](const std::string& frame) { return frame.find(part) != std::string::npos; });
}

template <std::size_t N>
const Row* row_of(const std::array<Row, N>& table, const std::vector<std::string>& frames) {
  const auto* found = std::ranges::find_if(table, [&](const Row& row) { return has(frames, row.first); });
  return found == table.end() ? nullptr : found;
}

}  // namespace

AwaitedOperation awaited_operation(const RankStacks& native) {
  if (native.threads.empty()) return {};
  const std::vector<std::string>& first = native.threads.front().frames;
  const Row* const wait = row_of(kWaits, first);
  if (wait == nullptr) return {has(first, "PyEval_") ? GroupWait::none : GroupWait::unknown, ""};
  if (!wait->second.empty()) return {GroupWait::operation, std::string(wait->second)};
  std::set<std::string_view> carried_out;
  for (const ThreadStack& thread : native.threads) {
    if (!has(thread.frames, "AsyncWork::execute")) continue;
    const Row* const row = row_of(kOperations, thread.frames);
    carried_out.insert(row == nullptr ? "" : row->second);
  }
  // If Gloo carries out several operations at once, the awaited one is unknown.
  return {GroupWait::operation, carried_out.size() == 1 ? std::string(*carried_out.begin()) : ""};
}

std::vector<std::string> frames_of_wait(const RankStacks& native) {
  if (native.threads.empty()) return {};
  const std::vector<std::string>& first = native.threads.front().frames;
  const Row* const wait = row_of(kWaits, first);
  if (wait == nullptr) return {};
  const auto shows_it = [&](const std::string& frame) { return frame.find(wait->first) != std::string::npos; };
  return {std::ranges::find_if(first, shows_it), first.end()};
}

bool is_recorded(std::string_view operation) {
  return operation != "monitored_barrier" && operation != "recv" && operation != "send";
}

PythonCall python_call(const RankStacks& python) {
  PythonCall call;
  if (python.threads.empty()) return call;
  // A place with a directory belongs to a library.
  for (const std::string& text : python.threads.front().frames) {
    const PythonFrame frame = python_frame(text);
    if (frame.place.empty() || frame.place.starts_with('<')) continue;
    if (frame.place.find('/') == std::string_view::npos) {
      call.place = frame.place;
      return call;
    }
    if (frame.place.starts_with("distributed/distributed_c10d.py:")) call.function = frame.function;
  }
  return call;
}

AwaitedOperation awaited_in_python(const RankStacks& python) {
  if (python.threads.empty() || python.threads.front().frames.empty()) return {};
  const std::vector<std::string>& frames = python.threads.front().frames;
  const PythonFrame innermost = python_frame(frames.front());
  if (!innermost.is_of_torch_distributed())
    return {innermost.is_of_python() ? GroupWait::none : GroupWait::unknown, ""};
  std::string_view name = innermost.function;
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  const auto is_variant = [&](std::string_view function) { return name.starts_with(function); };
  const auto* const found = std::ranges::find_if(kFunctions, is_variant);
  // A function for objects packs and unpacks them itself, and calls another one to exchange them.
  const bool is_exchange = found != kFunctions.end() && name.find("_object") == std::string_view::npos;
  if (is_exchange || name == "send") return {GroupWait::operation, std::string(is_exchange ? *found : name)};
  for (const std::string& text : frames) {
    const PythonFrame frame = python_frame(text);
    if (!frame.is_of_torch_distributed()) break;
    if (std::ranges::find(kMakers, frame.function) != kMakers.end()) {
      return {GroupWait::operation, std::string(frame.function)};
    }
  }
  return {GroupWait::none, ""};
}

void add_wait_by_stack(RankView& view, int size, const CallView& call) {
  GroupView group;
  group.name = "world";
  group.rank = view.rank;
  group.size = size;
  group.called = group.started = 1;
  group.is_sampled = group.is_by_stack = true;
  view.page.groups.push_back(group);
  if (call.what.empty()) return;
  view.calls.resize(view.page.groups.size());
  view.calls.back() = {call};
  view.calls.back().front().sequence = 1;
  view.calls.back().front().fingerprint = std::hash<std::string>()(call.what);
}

std::optional<GroupView> take_wait_by_stack(RankView& view) {
  if (view.page.groups.empty() || !view.page.groups.back().is_by_stack) return std::nullopt;
  const GroupView group = view.page.groups.back();
  view.page.groups.pop_back();
  if (view.calls.size() > view.page.groups.size()) view.calls.pop_back();
  return group;
}

}  // namespace ddp::launcher
