// This library is a profiler plug-in of NCCL: NCCL loads it into a program and calls it before each collective. It
// shows the calls of a program that ddplaunch has started, whatever the program is written in. It must never take the
// program down, so it uses no part of the C++ library, throws nothing, and returns no error. It stays loaded when NCCL
// unloads it. See docs/development/decisions/0074-nccl-says-what-is-launched.md.
#include <string.h>  // NOLINT(modernize-deprecated-headers): the C library's functions only

#include "nccl_profiler/abi.h"
#include "nccl_profiler/communicators.h"
#include "nccl_profiler/kernels.h"

namespace ddp::nccl_profiler {
namespace {

struct Name {
  const char* nccl;
  std::uint8_t number;
  std::uint8_t bytes = 0;  // size of an element
};

constexpr Name function(const char* nccl, std::string_view name) {
  return {nccl, wire::number_of(wire::kOperationNames, name)};
}
constexpr Name type(const char* nccl, std::string_view name, std::uint8_t bytes) {
  return {nccl, wire::number_of(wire::kTypeNames, name), bytes};
}

// The tables are in the order in which version 1 of the interface counts. What has no name on the page gets the number
// behind the last name.
constexpr std::uint8_t kOtherOperation = wire::kOperationNames.size();
constexpr Name kFunctions[] = {function("Broadcast", "broadcast"),
                               function("Reduce", "reduce"),
                               function("AllGather", "all_gather"),
                               function("ReduceScatter", "reduce_scatter"),
                               function("AllReduce", "all_reduce"),
                               function("SendRecv", ""),
                               function("Send", "send"),
                               function("Recv", "recv"),
                               function("AlltoAll", "all_to_all"),
                               function("Gather", "gather"),
                               function("Scatter", "scatter")};
constexpr std::uint8_t kOtherType = wire::kTypeNames.size();
constexpr Name kTypes[] = {
    type("ncclInt8", "i8", 1),       type("ncclUint8", "u8", 1),    type("ncclInt32", "i32", 4),
    type("ncclUint32", "", 4),       type("ncclInt64", "i64", 8),   type("ncclUint64", "", 8),
    type("ncclFloat16", "f16", 2),   type("ncclFloat32", "f32", 4), type("ncclFloat64", "f64", 8),
    type("ncclBfloat16", "bf16", 2), type("ncclFloat8e4m3", "", 1), type("ncclFloat8e5m2", "", 1)};

template <std::size_t N>
Name find(const Name (&names)[N], const char* name, std::uint8_t other) {
  if (name == nullptr) return {"", other};
  for (const Name& one : names) {
    if (::strcmp(one.nccl, name) == 0) return one;
  }
  return {"", other};
}
template <std::size_t N>
Name find(const Name (&names)[N], std::uint8_t number, std::uint8_t other) {
  return number < N ? names[number] : Name{"", other};
}

Call call_of(const Name& function, const Name& type, std::size_t count, int peer) {
  return {.operation = function.number, .type = type.number, .count = count, .bytes = count * type.bytes, .peer = peer};
}

// Only operations with a root have one: NCCL gives a number for all of them.
int root_of(const Name& function, int root) {
  const std::uint8_t number = function.number;
  return number == kReduce || number == kBroadcast || number == kGather || number == kScatter ? root : -1;
}

template <typename Function, typename Type>
std::uint64_t collective(Communicator& to, Function function, Type type, std::size_t count, int root) {
  const Name operation = find(kFunctions, function, kOtherOperation);
  return add_collective(to, call_of(operation, find(kTypes, type, kOtherType), count, root_of(operation, root)));
}

template <typename Function, typename Type>
void transfer(Communicator& to, Function function, Type type, std::size_t count, int peer) {
  const Name operation = find(kFunctions, function, kOtherOperation);
  const bool is_known = operation.number == kSend || operation.number == kRecv;
  if (is_known) add_transfer(to, call_of(operation, find(kTypes, type, kOtherType), count, peer));
}

// Until version 3, the first call says which communicator it belongs to.
template <typename Descriptor>
void name(Communicator& communicator, const Descriptor& call) {
  if (communicator.is_named.load(std::memory_order_relaxed)) return;
  show(communicator, call.communicator, call.name, 0, call.event.rank);
}

// These return what NCCL keeps for the event.

// From version 5 on, the program's calls are counted. NCCL merges some before it launches them.
void* take_event_v5(Communicator& to, const Event& event) {
  if (event.type == kCollApi) {
    const auto& call = reinterpret_cast<const CollApi&>(event);
    if (call.is_captured) {
      miss_calls(to);
      return nullptr;
    }
    return handle_of(to, collective(to, call.function, call.type, call.count, call.root));
  }
  if (event.type == kColl) queue_kernel(event.parent, reinterpret_cast<const Coll&>(event).channels);
  if (event.type == kKernelCh) begin_kernel(event.parent);
  if (event.type == kColl || event.type == kKernelCh) return event.parent;
  if (event.type == kP2pApi && reinterpret_cast<const P2pApi&>(event).is_captured) miss_calls(to);
  if (event.type != kP2p) return nullptr;
  const auto& call = reinterpret_cast<const P2p&>(event);
  transfer(to, call.function, call.type, call.count, call.peer);
  return nullptr;
}

// NCCL does not count the calls that a CUDA graph repeats, so their sequence numbers do not grow.
template <typename Descriptor>
std::uint64_t take_launch(Communicator& to, const Descriptor& call) {
  if (is_repeated(to, find(kFunctions, call.function, kOtherOperation).number, call.sequence)) {
    miss_calls(to);
    return 0;
  }
  return collective(to, call.function, call.type, call.count, call.root);
}

// Until version 4, NCCL asks for the parts of a group only if the group has a handle.
void* handle_of_group() {
  static char group;
  return &group;
}

void* take_event_v4(Communicator& to, const Event& event) {
  const std::uint64_t type = event.type & 0xffU;
  if (type == kGroup) return handle_of_group();
  if (type == kKernelCh) {
    begin_kernel(event.parent);
    return event.parent;
  }
  if (type == kColl) {
    const auto& call = reinterpret_cast<const Coll&>(event);
    void* const handle = handle_of(to, take_launch(to, call));
    queue_kernel(handle, call.channels);
    return handle;
  }
  if (type != kP2p) return nullptr;
  const auto& call = reinterpret_cast<const P2p&>(event);
  transfer(to, call.function, call.type, call.count, call.peer);
  return nullptr;
}

template <typename Collective, typename Transfer>
void* take_named_event(Communicator& to, const Event& event) {
  const std::uint64_t type = event.type & 0xffU;
  if (type == kColl) {
    const auto& call = reinterpret_cast<const Collective&>(event);
    name(to, call);
    take_launch(to, call);
  } else if (type == kP2p) {
    const auto& call = reinterpret_cast<const Transfer&>(event);
    name(to, call);
    transfer(to, call.function, call.type, call.count, call.peer);
  }
  return type == kGroup ? handle_of_group() : nullptr;
}

using TakeEvent = void*(Communicator& to, const Event& event);

// NCCL reports nothing more of an event without a handle.
template <TakeEvent* take_event>
int start(void* context, void** handle, const Event* event) {
  void* taken = nullptr;
  if (context != nullptr && event != nullptr) taken = take_event(*static_cast<Communicator*>(context), *event);
  if (handle != nullptr) *handle = taken;
  return kSuccess;
}
int stop(void* /*handle*/) {
  return kSuccess;
}
int record(void* handle, int state, void* /*arguments*/) {
  if (state == kKernelChStop) end_kernel(handle);
  return kSuccess;
}
int finalize(void* context) {
  if (context != nullptr) leave(*static_cast<Communicator*>(context));
  return kSuccess;
}

constexpr int kShowsCalls = 5;    // the first version that shows the program's calls, and not only launches
constexpr int kShowsKernels = 4;  // the first version whose kernels are followed

// The mask is one for all communicators. If nothing is shown, it is left alone, and NCCL reports nothing.
Communicator* begin(void** context, int* mask, int version, int ranks = 0) {
  if (context == nullptr || mask == nullptr) return nullptr;
  *context = nullptr;
  if (!is_shown()) return nullptr;
  const bool shows_kernels = version >= kShowsKernels && follows_kernels();
  Communicator* const taken = take(version, ranks, shows_kernels);
  *context = taken;
  std::uint64_t events = version >= kShowsCalls ? kCollApi | kP2pApi | kP2p : kColl | kP2p;
  if (shows_kernels) events |= kKernelCh;
  __atomic_store_n(mask, static_cast<int>(events), __ATOMIC_RELAXED);
  return taken;
}

template <int version>
int init_v1(void** context, int* mask) {
  begin(context, mask, version);
  return kSuccess;
}
int init_v4(void** context, int* mask, const char* name, std::uint64_t id, int /*nodes*/, int ranks, int rank, Log*) {
  Communicator* const taken = begin(context, mask, 4, ranks);
  if (taken != nullptr) show(*taken, id, name, ranks, rank);
  return kSuccess;
}
template <int version>
int init_v5(void** context, std::uint64_t id, int* mask, const char* name, int /*nodes*/, int ranks, int rank, Log*) {
  Communicator* const taken = begin(context, mask, version, ranks);
  if (taken != nullptr) show(*taken, id, name, ranks, rank);
  return kSuccess;
}

constexpr const char* kName = "ddplaunch";

}  // namespace
}  // namespace ddp::nccl_profiler

// NCCL looks up the newest of these that it knows.
extern "C" {
#define DDP_PLUGIN(Init) __attribute__((visibility("default"))) ddp::nccl_profiler::Plugin<ddp::nccl_profiler::Init>
using namespace ddp::nccl_profiler;
DDP_PLUGIN(InitV1)
ncclProfiler_v1 = {kName, init_v1<1>, start<take_named_event<CollV1, P2pV1>>, stop, record, finalize, {}};
DDP_PLUGIN(InitV1)
ncclProfiler_v2 = {kName, init_v1<2>, start<take_named_event<CollV2, P2pV2>>, stop, record, finalize, {}};
DDP_PLUGIN(InitV1)
ncclProfiler_v3 = {kName, init_v1<3>, start<take_named_event<CollV2, P2pV2>>, stop, record, finalize, {}};
DDP_PLUGIN(InitV4) ncclProfiler_v4 = {kName, init_v4, start<take_event_v4>, stop, record, finalize, {}};
DDP_PLUGIN(InitV5) ncclProfiler_v5 = {kName, init_v5<5>, start<take_event_v5>, stop, record, finalize, {}};
DDP_PLUGIN(InitV5) ncclProfiler_v6 = {kName, init_v5<6>, start<take_event_v5>, stop, record, finalize, {}};
DDP_PLUGIN(InitV5) ncclProfiler_v7 = {kName, init_v5<7>, start<take_event_v5>, stop, record, finalize, {}};
}
