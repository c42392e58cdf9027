#include "support/fake_gpu/fake_comm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

#include "runtime/reduction/reduction.h"
#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/fake_profiler.h"

namespace fake_gpu {
namespace {

Meeting* enter_place(const std::string& place) {
  const int descriptor = ::open(place.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  return static_cast<Meeting*>(memory);
}

// Collects the operations between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::map<std::pair<Comm*, void*>, std::vector<Operation>> operations;
};
thread_local Group group;

bool is_one(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

Meeting::Place own_place(const Comm& comm) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const char* id = std::getenv("NCCL_HOSTID");
  return {std::hash<std::string_view>()(id == nullptr ? host.data() : id), comm.device};
}

// NCCL refuses ranks on one GPU; since version 2.30 a variable allows them.
bool has_duplicate_gpu(const Comm& comm) {
  if (is_one("NCCL_MULTI_RANK_GPU_ENABLE") && version() >= 23000) return false;
  const Meeting::Place own = comm.meeting->places[comm.rank];
  for (int rank = 0; rank < comm.size; ++rank) {
    const Meeting::Place& other = comm.meeting->places[rank];
    if (rank != comm.rank && other.host == own.host && other.device == own.device) return true;
  }
  return false;
}

// Waits until all ranks have called these functions, if it is the first time.
void connect(Comm& comm, const std::vector<Function>& fresh) {
  try {
    for (const Function function : fresh) {
      ++comm.meeting->connected[function];
      comm.until([&] { return comm.meeting->connected[function] >= static_cast<std::uint32_t>(comm.size); });
    }
  } catch (const Aborted&) {
  }
  comm.connecting = false;
}

void run_on_stream(Comm& comm, void* stream, std::vector<Operation> operations) {
  stream_of(stream).push([&comm, operations = std::move(operations)] {
    const auto run = [&comm](const Operation& operation) {
      try {
        operation.action(comm);
      } catch (const Aborted&) {
      }
    };
    std::vector<std::thread> transfers;
    for (const Operation& operation : operations) {
      if (operation.function == transfer) transfers.emplace_back([&] { run(operation); });
    }
    for (const Operation& operation : operations) {
      if (operation.function != transfer) run(operation);
    }
    for (std::thread& each : transfers) each.join();
    --comm.pending;
  });
}

int start(Comm& comm, void* stream, std::vector<Operation> operations) {
  if (is_one("FAKE_NCCL_FAIL_FIRST")) comm.failure = kSystemError;
  if (stream_error(stream, "NCCL") == kInvalidHandle) return kUnhandledCudaError;
  if (stream_of(stream).device != comm.device) return kInvalidArgument;
  std::vector<Function> fresh;
  for (const Operation& operation : operations) {
    if (operation.function != transfer && comm.known.insert(operation.function).second) {
      fresh.push_back(operation.function);
    }
  }
  if (!stream_of(stream).captures()) ++comm.pending;
  {
    const std::lock_guard lock(comm.mutex);
    comm.called.emplace_back(stream, std::move(operations));
  }
  if (comm.is_blocking) {
    connect(comm, fresh);
    put_on_streams(comm);
    return comm.aborted ? kInvalidUsage : comm.failure.load();
  }
  comm.checks_left = 2;
  if (!fresh.empty()) {
    comm.connecting = true;
    std::thread([&comm, fresh] { connect(comm, fresh); }).detach();
  }
  return kInProgress;
}

}  // namespace

int version() {
  const char* text = std::getenv("FAKE_NCCL_VERSION");
  return text == nullptr ? 22907 : std::atoi(text);
}

void put_on_streams(Comm& comm) {
  std::vector<std::pair<void*, std::vector<Operation>>> called;
  {
    const std::lock_guard lock(comm.mutex);
    called.swap(comm.called);
  }
  for (auto& [stream, operations] : called) run_on_stream(comm, stream, std::move(operations));
}

Comm* make_comm() {
  static std::mutex mutex;
  static auto* all = new std::vector<std::unique_ptr<Comm>>;
  const std::lock_guard lock(mutex);
  return all->emplace_back(std::make_unique<Comm>()).get();
}

std::string make_place() {
  const int descriptor = ::memfd_create("fake-nccl", MFD_CLOEXEC);
  if (::ftruncate(descriptor, sizeof(Meeting)) != 0) std::abort();
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
}

void join(Comm& comm, const std::string& place) {
  comm.meeting = enter_place(place);
  if (comm.meeting == nullptr) {
    comm.failure = kSystemError;
    return;
  }
  comm.meeting->places[comm.rank] = own_place(comm);
  ++comm.meeting->joined;
  try {
    comm.until([&] { return comm.meeting->joined >= static_cast<std::uint32_t>(comm.size); });
    if (has_duplicate_gpu(comm)) comm.failure = kInvalidUsage;
    begin_profile(comm, std::hash<std::string>()(place));
    comm.connected = true;
  } catch (const Aborted&) {
  }
}

std::size_t size_of_type(int type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

ddp::DataType type_of(int type) {
  using ddp::DataType;
  constexpr DataType kTypes[] = {DataType::i8,  DataType::u8,  DataType::i32, DataType::i32, DataType::i64,
                                 DataType::i64, DataType::f16, DataType::f32, DataType::f64, DataType::bf16};
  return kTypes[type];
}

Reduction::Reduction(const Comm& comm, int type_, int op_number) : type(type_) {
  constexpr ddp::ReduceOp::Kind kKinds[] = {ddp::ReduceOp::sum, ddp::ReduceOp::product, ddp::ReduceOp::max,
                                            ddp::ReduceOp::min, ddp::ReduceOp::average};
  if (op_number >= kFirstUserOp) {
    own_factor = comm.user_ops.at(op_number);
  } else {
    op = kKinds[op_number];
    if (op.kind == ddp::ReduceOp::average) {
      op = ddp::ReduceOp::sum;
      own_factor = 1.0 / comm.size;
    }
  }
}

void Reduction::fill(const Comm& comm, const void* from, std::size_t bytes) const {
  comm.require_use(from, bytes);
  std::memcpy(comm.slot(comm.rank), from, bytes);
  const std::size_t count = bytes / size_of_type(type);
  if (own_factor != 1) ddp::internal::scale({comm.slot(comm.rank), count, type_of(type)}, own_factor);
}

// Like NCCL, ignores a NaN if there is another value.
template <typename T>
void extreme_of_numbers(const Comm& comm, bool is_min, T* to, std::size_t count) {
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (std::size_t i = 0; i < count; ++i) {
    Number result = std::numeric_limits<Number>::quiet_NaN();
    for (int rank = 0; rank < comm.size; ++rank) {
      const auto value = static_cast<Number>(reinterpret_cast<const T*>(comm.slot(rank))[i]);
      result = is_min ? std::fmin(result, value) : std::fmax(result, value);
    }
    to[i] = T(result);
  }
}

void Reduction::reduce(const Comm& comm, void* to, std::size_t bytes) const {
  comm.require_use(to, bytes);
  const bool is_min = op.kind == ddp::ReduceOp::min;
  if (is_min || op.kind == ddp::ReduceOp::max) {
    const std::size_t count = bytes / size_of_type(type);
    switch (type_of(type)) {
      case ddp::DataType::f32:
        return extreme_of_numbers(comm, is_min, static_cast<float*>(to), count);
      case ddp::DataType::f64:
        return extreme_of_numbers(comm, is_min, static_cast<double*>(to), count);
      case ddp::DataType::f16:
        return extreme_of_numbers(comm, is_min, static_cast<ddp::Float16*>(to), count);
      case ddp::DataType::bf16:
        return extreme_of_numbers(comm, is_min, static_cast<ddp::BFloat16*>(to), count);
      default:
        break;
    }
  }
  std::vector<ddp::internal::ReductionSource> sources;
  for (int rank = 0; rank < comm.size; ++rank) sources.push_back({comm.slot(rank), 1});
  ddp::internal::reduce(type_of(type), op, sources, {&to, 1}, bytes / size_of_type(type));
}

int add(void* handle, void* stream, Operation operation) {
  Comm& comm = comm_of(handle);
  // The caller must check the communicator's state before it calls NCCL again, if a call is in progress.
  if (!comm.is_ready()) return kInvalidUsage;
  if (group.depth > 0) {
    group.operations[{&comm, stream}].push_back(std::move(operation));
    return kSuccess;
  }
  return start(comm, stream, {std::move(operation)});
}

void start_group() {
  ++group.depth;
}

int end_group() {
  if (--group.depth > 0) return kSuccess;
  int result = kSuccess;
  for (auto& [key, operations] : std::exchange(group.operations, {})) {
    result = std::max(result, start(*key.first, key.second, std::move(operations)));
  }
  return result;
}

}  // namespace fake_gpu
