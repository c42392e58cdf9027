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
#include <string>
#include <vector>

#include "base/text.h"
#include "runtime/backend/plugin.h"
#include "runtime/backend/polling.h"
#include "runtime/group/movement.h"
#include "runtime/reduction/reduction.h"
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
    require_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "begin");
    ::on_exit(finalize_at_exit, nullptr);
  }
  if (level < MPI_THREAD_MULTIPLE) {
    throw Error(ErrorKind::unavailable,
                "MPI was begun without full thread support; call MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave it "
                "to ddp::init(). (This MPI may have been built without it.)");
  }
}

// MPI_DATATYPE_NULL: MPI cannot reduce it, we do it ourselves.
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
      return MPI_DATATYPE_NULL;
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
    MPI_Request request = MPI_REQUEST_NULL;
    try {
      Wait(options.timeout, "meet the other ranks")(MPI_Comm_idup(MPI_COMM_WORLD, &communicator_, &request), request);
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
    try {
      run_on_host(call);
    } catch (...) {
      usable_ = false;
      operation_failed = true;
      throw;
    }
  }

 private:
  void run_on_host(const Call& call) {
    const Wait wait(call.timeout, to_string(call.operation));
    switch (call.operation) {
      case Operation::all_reduce:
        return theirs(call.output.type) != MPI_DATATYPE_NULL ? all_reduce(call, wait) : all_reduce_here(call, wait);
      case Operation::reduce:
        return reduce(call, wait);
      case Operation::reduce_scatter:
        return reduce_scatter(call, call.output, wait);
      case Operation::barrier:
        return barrier(wait);
      case Operation::send:
        return exchange({{call.peer, const_cast<void*>(call.input.data), call.input.bytes()}}, {}, kTransferTag, wait);
      case Operation::recv:
        return exchange({}, {{call.peer, call.output.data, call.output.bytes()}}, kTransferTag, wait);
      default:
        return move(call, wait);
    }
  }

  // Waits for requests of MPI with a deadline. MPI cannot take an operation back: after a time-out it still has the
  // buffer.
  class Wait {
   public:
    Wait(std::chrono::milliseconds timeout, std::string_view deed)
        : timeout_(timeout), polling_(timeout, kSpin), deed_(deed) {}

    void operator()(int begun, MPI_Request& request) const {
      require_mpi(begun, deed_);
      while (true) {
        int done = 0;
        require_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), deed_);
        if (done != 0) return;
        if (!polling_.pause()) {
          throw Error(ErrorKind::timeout,
                      "a rank did not take part within " + base::human_duration(timeout_) + " (mpi)");
        }
      }
    }

   private:
    const std::chrono::milliseconds timeout_;
    const Polling polling_;
    const std::string deed_;
  };

  struct Message {
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  void all_reduce(const Call& call, const Wait& wait) {
    const Buffer& buffer = call.output;
    const double factor = factor_of(call.op, options_.size);
    if (factor != 1) scale(buffer, factor);
    for (std::size_t first = 0; first < buffer.count; first += kMostElements) {
      const Buffer piece = buffer.slice(first, std::min(kMostElements, buffer.count - first));
      MPI_Request request = MPI_REQUEST_NULL;
      wait(MPI_Iallreduce(MPI_IN_PLACE, piece.data, static_cast<int>(piece.count), theirs(piece.type), theirs(call.op),
                          communicator_, &request),
           request);
    }
  }

  // Of types that MPI does not know: each rank reduces its part, and all gather the parts.
  void all_reduce_here(const Call& call, const Wait& wait) {
    Call step = divided(call);
    reduce_scatter(step, step.output, wait);
    Call gathering = call;
    gathering.operation = Operation::all_gather;
    gathering.input = step.output;
    for (const ConstBuffer& part : step.input_parts) {
      gathering.output_parts.emplace_back(const_cast<void*>(part.data), part.count, part.type);
    }
    move(gathering, wait);
  }

  // The parts are reduced in memory of our own, because only the root's buffer may change.
  void reduce(const Call& call, const Wait& wait) {
    Call step = divided(call);
    std::vector<std::byte> result(step.output.bytes());
    const Buffer own(result.data(), step.output.count, step.output.type);
    reduce_scatter(step, own, wait);
    Call gathering = call;
    gathering.operation = Operation::gather;
    gathering.input = own;
    for (const ConstBuffer& part : step.input_parts) {
      gathering.output_parts.emplace_back(const_cast<void*>(part.data), part.count, part.type);
    }
    move(gathering, wait);
  }

  // A reduce_scatter of the call's buffer, into this rank's part of it.
  Call divided(const Call& call) const {
    Call step = call;
    step.operation = Operation::reduce_scatter;
    const auto ranks = static_cast<std::size_t>(options_.size);
    for (std::size_t rank = 0; rank < ranks; ++rank) step.input_parts.emplace_back(share_of(call.output, rank, ranks));
    const ConstBuffer& own = step.input_parts[static_cast<std::size_t>(options_.rank)];
    step.output = Buffer(const_cast<void*>(own.data), own.count, own.type);
    return step;
  }

  // Every rank sends each other its part and reduces what it gets, in rank order. A factor that only this rank knows is
  // multiplied before it is sent.
  void reduce_scatter(const Call& call, const Buffer& output, const Wait& wait) {
    const auto ranks = static_cast<std::size_t>(options_.size);
    std::vector<std::vector<std::byte>> scaled(ranks);
    std::vector<std::byte> received(output.bytes() * ranks);
    std::vector<Message> out;
    std::vector<Message> in;
    std::vector<ReductionSource> sources;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const int rank = static_cast<int>(peer);
      ConstBuffer part = input_part(call, rank, options_.size);
      if (call.op.kind == ReduceOp::premultiplied_sum && part.count > 0) {
        scaled[peer].resize(part.bytes());
        const ReductionSource source{part.data, call.op.factor};
        void* place = scaled[peer].data();
        ddp::reduce(part.type, call.op, {&source, 1}, {&place, 1}, part.count);
        part.data = place;
      }
      std::byte* place = received.data() + peer * output.bytes();
      sources.push_back({rank == options_.rank ? part.data : place, average_factor(call)});
      if (rank == options_.rank) continue;
      out.push_back({rank, const_cast<void*>(part.data), part.bytes()});
      in.push_back({rank, place, output.bytes()});
    }
    exchange(out, in, tag(call), wait);
    if (output.count > 0) ddp::reduce(output.type, call.op, sources, {&output.data, 1}, output.count);
  }
  double average_factor(const Call& call) const {
    return call.op.kind == ReduceOp::average ? factor_of(call.op, options_.size) : 1;
  }

  void move(const Call& call, const Wait& wait) {
    const Movement movement{call, options_.rank, options_.size};
    std::vector<Message> out;
    std::vector<Message> in;
    for (int turn = 1; turn < options_.size; ++turn) {
      const int to = (options_.rank + turn) % options_.size;
      const int from = (options_.rank + options_.size - turn) % options_.size;
      const ConstBuffer given = movement.given_to(to);
      const Buffer taken = movement.taken_from(from);
      out.push_back({to, const_cast<void*>(given.data), given.bytes()});
      in.push_back({from, taken.data, taken.bytes()});
    }
    exchange(out, in, tag(call), wait);
    movement.keep_own();
  }

  void barrier(const Wait& wait) {
    MPI_Request request = MPI_REQUEST_NULL;
    wait(MPI_Ibarrier(communicator_, &request), request);
  }

  // Messages between two ranks keep their order, so that pieces of one message need no tags of their own.
  void exchange(const std::vector<Message>& outgoing, const std::vector<Message>& incoming, int tag,
                const Wait& wait) const {
    std::vector<MPI_Request> requests;
    const auto begin = [&](const Message& message, bool sends) {
      for (std::size_t first = 0; first < message.bytes; first += kMostElements) {
        auto* data = static_cast<std::byte*>(message.data) + first;
        const int bytes = static_cast<int>(std::min(kMostElements, message.bytes - first));
        MPI_Request request = MPI_REQUEST_NULL;
        require_mpi(sends ? MPI_Isend(data, bytes, MPI_BYTE, message.peer, tag, communicator_, &request)
                          : MPI_Irecv(data, bytes, MPI_BYTE, message.peer, tag, communicator_, &request),
                    sends ? "send" : "receive");
        requests.push_back(request);
      }
    };
    for (const Message& message : incoming) begin(message, false);
    for (const Message& message : outgoing) begin(message, true);
    for (MPI_Request& request : requests) wait(MPI_SUCCESS, request);
  }

  // MPI guarantees tags up to 32767.
  static int tag(const Call& call) { return kTransferTag + 1 + static_cast<int>(call.sequence % 32'000); }

  static constexpr int kTransferTag = 1;

  static void require_host(const ConstBuffer& buffer) {
    if (buffer.device == DeviceType::cpu) return;
    throw Error(ErrorKind::unavailable,
                "backend mpi works on host memory only; this buffer is in GPU memory. Use nccl.");
  }

  const BackendOptions options_;
  std::atomic<bool> usable_ = true;
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
