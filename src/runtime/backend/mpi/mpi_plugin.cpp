// libddp_mpi.so: the only file that includes MPI. For programs started by mpirun, on host memory.
//
// MPI belongs to the process, not to a group: it can be begun once and, after its end, never again. So the first group
// begins it, and it ends with the process: a program may make one group after another, and the thread that runs the
// exit handlers is the one that began MPI, as MPI demands. A process that fails must not end MPI, because that waits
// for all ranks, and those wait for this one: it leaves without, and mpirun then ends the others.
#include <ddp/error.h>

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/text.h"
#include "runtime/backend/plugin.h"
#include "runtime/backend/polling.h"
#include "wire/worker_env.h"

namespace ddp {
namespace {

// MPI moves data within our looks at it, so sleeping between them costs bandwidth: not before this much time.
constexpr std::chrono::milliseconds kSpin{1000};

// MPI counts in int; longer buffers go in pieces.
constexpr std::size_t kMostElements = INT_MAX;

// An operation has failed and may still be under way, so MPI_Finalize would wait for it.
std::atomic<bool> operation_failed = false;

void require_mpi(int code, const std::string& deed) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorKind::internal, "MPI cannot " + deed + " (" + text + ")");
}

void finalize_at_exit(int status, void* /*unused*/) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (status == 0 && !operation_failed && finalized == 0) MPI_Finalize();
}

void initialize_once() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized != 0) {
    // The program did it; its end is the program's as well.
    require_mpi(MPI_Query_thread(&level), "say its thread level");
  } else {
    require_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "begin");
    ::on_exit(finalize_at_exit, nullptr);
  }
  if (level < MPI_THREAD_SERIALIZED) {
    throw Error(ErrorKind::unavailable,
                "MPI was begun without thread support; call MPI_Init_thread with MPI_THREAD_SERIALIZED, or leave it to "
                "ddp::init().");
  }
}

MPI_Datatype theirs(DataType type) {
  switch (type) {
    case DataType::f32:
      return MPI_FLOAT;
    case DataType::f64:
      return MPI_DOUBLE;
    case DataType::i8:
      return MPI_INT8_T;
    case DataType::i16:
      return MPI_INT16_T;
    case DataType::i32:
      return MPI_INT32_T;
    case DataType::i64:
      return MPI_INT64_T;
    case DataType::u8:
      return MPI_UINT8_T;
    default:
      throw Error(ErrorKind::unavailable, "backend mpi does not know " + std::string(to_string(type)));
  }
}

MPI_Op theirs(ReduceOp op) {
  switch (op.kind) {
    case ReduceOp::sum:
    case ReduceOp::average:  // of values that have been multiplied
    case ReduceOp::premultiplied_sum:
      return MPI_SUM;
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::bit_and:
      return MPI_BAND;
    case ReduceOp::bit_or:
      return MPI_BOR;
    case ReduceOp::bit_xor:
      return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

void multiply(const Buffer& buffer, double factor) {
  if (buffer.type == DataType::f32) {
    for (float& value : buffer.as<float>()) value *= static_cast<float>(factor);
  } else {
    for (double& value : buffer.as<double>()) value *= factor;
  }
}

// `count` elements that MPI takes for one element of `extent` bytes.
class SpacedType {
 public:
  SpacedType(std::size_t count, MPI_Datatype element, std::size_t extent) {
    MPI_Datatype block = MPI_DATATYPE_NULL;
    require_mpi(MPI_Type_contiguous(static_cast<int>(count), element, &block), "make a type");
    const int code = MPI_Type_create_resized(block, 0, static_cast<MPI_Aint>(extent), &type_);
    MPI_Type_free(&block);
    require_mpi(code, "make a type");
    require_mpi(MPI_Type_commit(&type_), "make a type");
  }
  // MPI keeps the type for as long as an operation needs it.
  ~SpacedType() { MPI_Type_free(&type_); }
  SpacedType(const SpacedType&) = delete;
  SpacedType& operator=(const SpacedType&) = delete;

  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// The checker knows MPI_Wait and not MPI_Test. NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
class MpiBackend : public Backend {
 public:
  explicit MpiBackend(const BackendOptions& options) : options_(options) {
    initialize_once();
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != options.rank || size != options.size) {
      throw Error(ErrorKind::mismatch,
                  "MPI says rank " + std::to_string(rank) + " of " + std::to_string(size) + ", the environment rank " +
                      std::to_string(options.rank) + " of " + std::to_string(options.size) +
                      ". Start the program with mpirun and not with ddplaunch, and without RANK being set.");
    }
    // Our own communicator: what the program itself sends is not mistaken for ours, and its error handling stays its.
    deed_ = "meet the other ranks";
    timeout_ = options.timeout;
    MPI_Request request = MPI_REQUEST_NULL;
    try {
      wait(Polling(timeout_, kSpin), MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), request);
    } catch (...) {
      operation_failed = true;
      throw;
    }
    require_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "set an error handler");
  }

  ~MpiBackend() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (usable_ && finalized == 0) MPI_Comm_free(&communicator_);
  }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  std::string_view name() const override { return "mpi"; }

  void run(const Call& call) override {
    require_host(call.input);
    require_host(call.output);
    timeout_ = call.timeout;
    deed_ = to_string(call.operation);
    try {
      run_on_host(call, Polling(timeout_, kSpin));
    } catch (...) {
      usable_ = false;
      operation_failed = true;
      throw;
    }
  }

 private:
  void run_on_host(const Call& call, const Polling& polling) {
    switch (call.operation) {
      case Operation::all_reduce:
        return all_reduce(call, polling);
      case Operation::broadcast:
        return broadcast(call.output, call.peer, polling);
      case Operation::all_gather:
        return call.output_parts.empty() ? all_gather(call.output, call.input, polling)
                                         : all_gather_parts(call, polling);
      case Operation::barrier:
        return barrier(polling);
      default:
        throw Error(ErrorKind::unavailable, "backend mpi has no " + deed_);
    }
  }

  void all_reduce(const Call& call, const Polling& polling) {
    const Buffer& buffer = call.output;
    const double factor = call.op.kind == ReduceOp::average ? 1.0 / options_.size : call.op.factor;
    if (factor != 1) multiply(buffer, factor);
    for_pieces(buffer, [&](const Buffer& piece) {
      MPI_Request request = MPI_REQUEST_NULL;
      wait(polling,
           MPI_Iallreduce(MPI_IN_PLACE, piece.data, static_cast<int>(piece.count), theirs(piece.type), theirs(call.op),
                          communicator_, &request),
           request);
    });
  }

  void broadcast(const Buffer& buffer, int root, const Polling& polling) {
    for_pieces(buffer, [&](const Buffer& piece) {
      MPI_Request request = MPI_REQUEST_NULL;
      wait(polling,
           MPI_Ibcast(piece.data, static_cast<int>(piece.count), theirs(piece.type), root, communicator_, &request),
           request);
    });
  }

  void all_gather(const Buffer& output, const ConstBuffer& input, const Polling& polling) {
    const std::size_t own_part = static_cast<std::size_t>(options_.rank) * input.count;
    const bool in_place = input.data == output.slice(own_part, input.count).data;
    std::size_t first = 0;
    for_pieces(input, [&](const ConstBuffer& piece) {
      // The pieces of two ranks lie as far apart as their whole inputs do.
      const SpacedType spaced(piece.count, theirs(piece.type), input.bytes());
      MPI_Request request = MPI_REQUEST_NULL;
      wait(polling,
           MPI_Iallgather(in_place ? MPI_IN_PLACE : piece.data, static_cast<int>(piece.count), theirs(piece.type),
                          output.slice(first, 0).data, 1, spaced.type(), communicator_, &request),
           request);
      first += piece.count;
    });
  }

  void all_gather_parts(const Call& call, const Polling& polling) {
    const Buffer& own = call.output_parts[static_cast<std::size_t>(options_.rank)];
    if (own.data != call.input.data && own.count > 0) std::memcpy(own.data, call.input.data, own.bytes());
    for (int root = 0; root < options_.size; ++root) {
      broadcast(call.output_parts[static_cast<std::size_t>(root)], root, polling);
    }
  }

  void barrier(const Polling& polling) {
    MPI_Request request = MPI_REQUEST_NULL;
    wait(polling, MPI_Ibarrier(communicator_, &request), request);
  }

  static void require_host(const ConstBuffer& buffer) {
    if (buffer.device == DeviceType::cpu) return;
    throw Error(ErrorKind::unavailable,
                "backend mpi works on host memory only; this buffer is in GPU memory. Use nccl.");
  }

  template <typename Piece, typename Function>
  static void for_pieces(const Piece& buffer, Function&& function) {
    for (std::size_t first = 0; first < buffer.count; first += kMostElements) {
      function(buffer.slice(first, std::min(kMostElements, buffer.count - first)));
    }
  }

  // Waits for what `begun` says was begun. MPI cannot take a collective back: after a time-out it still has the buffer.
  void wait(const Polling& polling, int begun, MPI_Request& request) const {
    require_mpi(begun, deed_);
    while (true) {
      int done = 0;
      require_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), deed_);
      if (done != 0) return;
      if (!polling.pause()) {
        throw Error(ErrorKind::timeout, "a rank did not take part within " + base::human_duration(timeout_) + " (mpi)");
      }
    }
  }

  const BackendOptions options_;
  std::string deed_;
  std::chrono::milliseconds timeout_{0};  // of the operation that runs
  bool usable_ = true;
  MPI_Comm communicator_ = MPI_COMM_NULL;
};
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

ProbeResult probe(const BackendOptions& options) {
  const bool under_mpirun = std::getenv(wire::env::kOmpiRank) != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (under_mpirun || options.size == 1) return {};
  return {std::string("the program was not started by mpirun (") + wire::env::kOmpiRank + " is not set)", ""};
}

// MPI finds the ranks by itself, without the store. NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<Backend> create(const BackendOptions& options, std::shared_ptr<Store> /*store*/) {
  return std::make_unique<MpiBackend>(options);
}

}  // namespace
}  // namespace ddp

extern "C" DDP_EXPORT const ddp::BackendPlugin* ddp_backend_plugin() {
  static const ddp::BackendPlugin plugin{ddp::kBackendPluginAbi, "mpi", ddp::probe, ddp::create};
  return &plugin;
}
