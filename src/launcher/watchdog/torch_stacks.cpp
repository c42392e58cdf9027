#include "launcher/watchdog/torch_stacks.h"

#include <algorithm>
#include <array>
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
  // A place with a directory belongs to a library, as in "all_reduce (distributed/distributed_c10d.py:2501)".
  for (const std::string& frame : python.threads.front().frames) {
    const std::size_t bracket = frame.rfind(" (");
    if (bracket == std::string::npos || !frame.ends_with(')')) continue;
    const std::string place = frame.substr(bracket + 2, frame.size() - bracket - 3);
    if (place.find(".py:") == std::string::npos) continue;
    if (place.find('/') == std::string::npos) {
      call.place = place;
      return call;
    }
    if (place.starts_with("distributed/distributed_c10d.py:")) call.function = frame.substr(0, bracket);
  }
  return call;
}

}  // namespace ddp::launcher
