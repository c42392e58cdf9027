// libddp_mpi.so runs collectives over MPI, on host memory, for programs started by mpirun.
#include <ddp/error.h>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/plugin.h"
#include "runtime/backend/polling.h"
#include "runtime/call/transfer_plan.h"
#include "runtime/peers/peer_watch.h"
#include "runtime/reduction/reduction.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

// MPI counts elements in int, so longer buffers are moved in pieces.
constexpr std::size_t kMostElements = INT_MAX;

// Returns MPI's data type. The table is in the order of DataType. An entry is MPI_DATATYPE_NULL if MPI cannot reduce
// the type; then this backend reduces it.
MPI_Datatype theirs(DataType type) {
  static const std::array<MPI_Datatype, kDataTypes.size()> types = {
      MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_FLOAT,   MPI_DOUBLE,  MPI_INT8_T,
      MPI_INT16_T,       MPI_INT32_T,       MPI_INT64_T, MPI_UINT8_T, MPI_DATATYPE_NULL};
  return types[static_cast<std::size_t>(type)];
}

// Returns MPI's operation. The table is in the order of ReduceOp::Kind. An average is a sum of values that were
// multiplied before.
MPI_Op theirs(ReduceOp op) {
  static const std::array<MPI_Op, 9> ops = {MPI_SUM,  MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX,
                                            MPI_BAND, MPI_BOR, MPI_BXOR, MPI_SUM};
  static_assert(std::tuple_size_v<decltype(ops)> == ReduceOp::premultiplied_sum + 1);
  return ops[op.kind];
}

// Returns whether MPI gives the result that ReduceOp promises. Open MPI adds short integers with saturation, and may
// lose a NaN in a minimum.
bool reduces_alike(DataType type, ReduceOp op) {
  if (theirs(type) == MPI_DATATYPE_NULL) return false;
  const bool is_bitwise = op.kind == ReduceOp::bit_and || op.kind == ReduceOp::bit_or || op.kind == ReduceOp::bit_xor;
  if (op.kind == ReduceOp::min || op.kind == ReduceOp::max) return !is_floating_point(type);
  return is_bitwise || size_of(type) >= 4;
}

// MPI moves data only while this code polls it, so sleeping between polls costs bandwidth. The code does not sleep
// before this time has passed.
constexpr std::chrono::milliseconds kSpin{1000};

// MPI_Finalize would wait for a failed operation.
std::atomic<bool> operation_failed = false;

void finalize_at_exit(int status, void* /*unused*/) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (status == 0 && !operation_failed && finalized == 0) MPI_Finalize();
}

// If `code` is an error, throws `internal` with the text "MPI cannot `action`" and the reason. Throws `mismatch` if a
// message was too long.
void require_mpi(int code, const std::string& action) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) throw mpi_truncated_error();
  throw mpi_error(action, text);
}

// The checker knows MPI_Wait and not MPI_Test. NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)

// Waits for requests with a deadline. MPI cannot cancel an operation: after a failure, MPI still uses the buffer.
class MpiWait {
 public:
  // `action` appears in messages. During the wait, `peers` and `aborted` are checked; a null pointer disables its
  // check.
  MpiWait(std::chrono::milliseconds timeout, std::string_view action, PeerWatch* peers = nullptr,
          const std::atomic<bool>* aborted = nullptr)
      : timeout_(timeout), polling_(timeout, kSpin), action_(action), peers_(peers), aborted_(aborted) {}

  // `begun` is the code that MPI returned when it started the request.
  void operator()(int begun, MPI_Request& request) const {
    require_mpi(begun, action_);
    while (true) {
      int done = 0;
      require_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), action_);
      if (done != 0) return;
      if (aborted_ != nullptr && *aborted_) throw aborted_error();
      if (peers_ != nullptr) peers_->check();
      if (!polling_.pause()) throw unknown_late_error(timeout_, "mpi");
    }
  }

 private:
  const std::chrono::milliseconds timeout_;
  mutable Polling polling_;
  const std::string action_;
  PeerWatch* const peers_;
  const std::atomic<bool>* const aborted_;
};

void initialize_once() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized != 0) {
    // The program initialized MPI, so the program also finalizes it.
    require_mpi(MPI_Query_thread(&level), "report its thread level");
  } else {
    require_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "begin");
    ::on_exit(finalize_at_exit, nullptr);
  }
  if (level < MPI_THREAD_MULTIPLE) throw mpi_threads_error();
}

void require_same_world(const BackendOptions& options) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != options.rank || size != options.size) throw mpi_world_error(rank, size, options.rank, options.size);
}

MPI_Comm whole_world(const BackendOptions& options) {
  require_same_world(options);
  MPI_Comm result = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MpiWait(options.timeout, "connect to the other ranks")(MPI_Comm_idup(MPI_COMM_WORLD, &result, &request), request);
  return result;
}

// MPI cannot do this with a deadline. But all ranks have just reported through the store that they are ready.
MPI_Comm create_part(const std::vector<int>& ranks) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group part = MPI_GROUP_NULL;
  MPI_Comm result = MPI_COMM_NULL;
  require_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "list its ranks");
  const int included = MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &part);
  MPI_Group_free(&world);
  require_mpi(included, "create a group of ranks");
  const int made = MPI_Comm_create_group(MPI_COMM_WORLD, part, 0, &result);
  MPI_Group_free(&part);
  require_mpi(made, "connect a group of ranks");
  return result;
}

// Creates one group at a time in the whole world. Threads may create several groups at the same time. Open MPI (4.1)
// then waits forever if the groups have ranks in common. The group's first rank draws a number in the world's store;
// its last rank lets the next group start.
MPI_Comm part_of_world(const BackendOptions& options, Store& group) {
  Store& world = *options.world_store;
  const auto turn_of = [](std::int64_t number) { return "mpi/turn/" + std::to_string(number); };
  const std::string go = "mpi/go";
  const auto came = [](int rank) { return "mpi/came/" + std::to_string(rank); };
  group.set(came(options.rank), "");
  if (options.rank == 0) {
    std::vector<std::string> all;
    for (int rank = 0; rank < options.size; ++rank) all.push_back(came(rank));
    group.wait(all, options.timeout);
    const std::int64_t number = world.add("mpi/groups", 1);
    const std::string turn = turn_of(number);
    if (number > 1) world.wait({&turn, 1}, options.timeout);
    world.delete_key(turn);
    group.set(go, std::to_string(number));
  }
  group.wait({&go, 1}, 2 * options.timeout + std::chrono::seconds(1));  // twice, because rank 0 waits twice
  const std::int64_t number = base::parse_integer(group.get(go), 1, INT64_MAX).value();
  MPI_Comm result = create_part(options.world_ranks);
  if (group.add("mpi/made", 1) == options.size) world.set(turn_of(number + 1), "");
  return result;
}

// Owns a separate communicator. So the program's messages are not mistaken for the runtime's, and the program keeps its
// error handling. MPI belongs to the process, not to a group: it can be initialized once and, after it was finalized,
// never again. So the first communicator initializes MPI, and MPI is finalized when the process ends.
//
// A process that fails must not finalize MPI, because MPI_Finalize waits for all ranks, and those wait for this one. So
// the process exits without it, and mpirun then terminates the others. The thread that runs the exit handlers is the
// one that initialized MPI, as MPI requires.
class MpiCommunicator {
 public:
  // All ranks of options.world_ranks call it and meet in `store`, or all ranks of mpirun call it. Throws `mismatch` if
  // MPI numbers the ranks differently, `unavailable` if MPI lacks full thread support, or `timeout`.
  explicit MpiCommunicator(const BackendOptions& options, Store* store = nullptr) {
    initialize_once();
    try {
      communicator_ = options.world_ranks.empty() ? whole_world(options) : part_of_world(options, *store);
    } catch (...) {
      operation_failed = true;
      throw;
    }
    require_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "set an error handler");
  }
  ~MpiCommunicator() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (usable_ && finalized == 0) MPI_Comm_free(&communicator_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  MPI_Comm get() const { return communicator_; }

  // Records that an operation has failed and may still be under way. Any thread may call it.
  void say_failed() {
    usable_ = false;
    operation_failed = true;
  }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::atomic<bool> usable_ = true;
};

class MpiBackend : public Backend {
 public:
  MpiBackend(const BackendOptions& options, Store& store) : options_(options), communicator_(options, &store) {}

  std::string_view name() const override { return "mpi"; }

  void run(const Call& call) override {
    try {
      carry_out(call);
    } catch (...) {
      communicator_.say_failed();
      // MPI still uses the memory, so it is leaked on purpose.
      if (!is_transfer(call.operation)) new std::vector<std::vector<std::byte>>(std::move(scratch_));  // NOLINT
      throw;
    }
  }

  void abort() override { aborted_ = true; }

 private:
  void carry_out(const Call& call) {
    if (!is_transfer(call.operation)) scratch_.clear();
    PeerWatch peers(options_.node_group, call.operation, call.peer);
    const MpiWait wait(call.timeout, to_string(call.operation), &peers, &aborted_);
    switch (call.operation) {
      case Operation::all_reduce:
        return reduces_alike(call.output.type, call.op) ? all_reduce(call, wait) : reduce_here(call, wait);
      case Operation::reduce:
        return reduce_here(call, wait);
      case Operation::reduce_scatter:
        return reduce_scatter(call, call.output, wait);
      case Operation::barrier:
        return barrier(wait);
      case Operation::send:
        return exchange({{call.peer, const_cast<void*>(call.input.data), call.input.bytes()}}, {}, call, wait);
      case Operation::recv:
        return exchange({}, {{call.peer, call.output.data, call.output.bytes()}}, call, wait);
      default:
        return move(call, wait);
    }
  }

  struct Message {
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  void all_reduce(const Call& call, const MpiWait& wait) {
    const Buffer& buffer = call.output;
    const double factor = factor_of(call.op, options_.size);
    if (factor != 1) scale(buffer, factor);
    for (std::size_t first = 0; first < buffer.count; first += kMostElements) {
      const Buffer piece = buffer.slice(first, std::min(kMostElements, buffer.count - first));
      MPI_Request request = MPI_REQUEST_NULL;
      wait(MPI_Iallreduce(MPI_IN_PLACE, piece.data, static_cast<int>(piece.count), theirs(piece.type), theirs(call.op),
                          communicator_.get(), &request),
           request);
    }
  }

  // Reduces values that MPI would reduce differently. Each rank reduces its part. Then all ranks gather the parts, or
  // only the root does. In the latter case the parts are reduced in other memory, because only the root's buffer may
  // change.
  void reduce_here(const Call& call, const MpiWait& wait) {
    const bool to_root = call.operation == Operation::reduce;
    const Call step = divided(call);
    Buffer own = step.output;
    if (to_root) own.data = scratch(own.bytes());
    reduce_scatter(step, own, wait);
    Call gathering = call;
    gathering.operation = to_root ? Operation::gather : Operation::all_gather;
    gathering.input = own;
    for (const ConstBuffer& part : step.input_parts) {
      gathering.output_parts.emplace_back(const_cast<void*>(part.data), part.count, part.type);
    }
    move(gathering, wait);
  }

  // Returns a reduce_scatter of the call's buffer, into this rank's part of it.
  Call divided(const Call& call) const {
    Call step = call;
    step.operation = Operation::reduce_scatter;
    const auto ranks = static_cast<std::size_t>(options_.size);
    for (std::size_t rank = 0; rank < ranks; ++rank) step.input_parts.emplace_back(share_of(call.output, rank, ranks));
    const ConstBuffer& own = step.input_parts[static_cast<std::size_t>(options_.rank)];
    step.output = Buffer(const_cast<void*>(own.data), own.count, own.type);
    return step;
  }

  // Every rank sends each other rank the part that this other rank reduces. It reduces the parts that it receives in
  // rank order. A factor that only this rank knows is multiplied before the part is sent.
  void reduce_scatter(const Call& call, const Buffer& output, const MpiWait& wait) {
    const auto ranks = static_cast<std::size_t>(options_.size);
    std::byte* received = scratch(output.bytes() * ranks);
    std::vector<Message> out;
    std::vector<Message> in;
    std::vector<ReductionSource> sources;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const int rank = static_cast<int>(peer);
      ConstBuffer part = input_part(call, rank, options_.size);
      if (call.op.kind == ReduceOp::premultiplied_sum && part.count > 0) {
        const ReductionSource source{part.data, call.op.factor};
        void* place = scratch(part.bytes());
        internal::reduce(part.type, call.op, {&source, 1}, {&place, 1}, part.count);
        part.data = place;
      }
      std::byte* place = received + peer * output.bytes();
      sources.push_back({rank == options_.rank ? part.data : place, average_factor(call)});
      if (rank == options_.rank) continue;
      out.push_back({rank, const_cast<void*>(part.data), part.bytes()});
      in.push_back({rank, place, output.bytes()});
    }
    exchange(out, in, call, wait);
    if (output.count > 0) internal::reduce(output.type, call.op, sources, {&output.data, 1}, output.count);
  }
  double average_factor(const Call& call) const {
    return call.op.kind == ReduceOp::average ? factor_of(call.op, options_.size) : 1;
  }

  void move(const Call& call, const MpiWait& wait) {
    const TransferPlan plan{call, options_.rank, options_.size};
    std::vector<Message> out;
    std::vector<Message> in;
    for (int turn = 1; turn < options_.size; ++turn) {
      const int to = (options_.rank + turn) % options_.size;
      const int from = (options_.rank + options_.size - turn) % options_.size;
      const ConstBuffer given = plan.given_to(to);
      const Buffer taken = plan.taken_from(from);
      out.push_back({to, const_cast<void*>(given.data), given.bytes()});
      in.push_back({from, taken.data, taken.bytes()});
    }
    exchange(out, in, call, wait);
    plan.keep_own();
  }

  void barrier(const MpiWait& wait) {
    MPI_Request request = MPI_REQUEST_NULL;
    wait(MPI_Ibarrier(communicator_.get(), &request), request);
  }

  // Messages between two ranks keep their order, so the pieces of one message need no separate tags.
  void exchange(const std::vector<Message>& outgoing, const std::vector<Message>& incoming, const Call& call,
                const MpiWait& wait) const {
    const int tag = MpiBackend::tag(call);
    std::vector<MPI_Request> requests;
    std::vector<int> peers;
    const auto begin = [&](const Message& message, bool sends) {
      for (std::size_t first = 0; first < message.bytes; first += kMostElements) {
        auto* data = static_cast<std::byte*>(message.data) + first;
        const int bytes = static_cast<int>(std::min(kMostElements, message.bytes - first));
        MPI_Request request = MPI_REQUEST_NULL;
        require_mpi(sends ? MPI_Isend(data, bytes, MPI_BYTE, message.peer, tag, communicator_.get(), &request)
                          : MPI_Irecv(data, bytes, MPI_BYTE, message.peer, tag, communicator_.get(), &request),
                    sends ? "send" : "receive");
        requests.push_back(request);
        peers.push_back(message.peer);
      }
    };
    for (const Message& message : incoming) begin(message, false);
    const std::size_t receives = requests.size();
    for (const Message& message : outgoing) begin(message, true);
    try {
      for (MPI_Request& request : requests) wait(MPI_SUCCESS, request);
    } catch (const Error& error) {
      std::vector<int> missing;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        int done = 1;
        if (requests[i] != MPI_REQUEST_NULL) MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
        if (done == 0) missing.push_back(peers[i]);
      }
      // Messages that arrive later must not be written to memory that no longer exists.
      for (std::size_t i = 0; i < receives; ++i) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      }
      if (error.kind() == ErrorKind::timeout && !missing.empty()) throw late_error(std::move(missing), call.timeout);
      throw;
    }
  }

  // MPI guarantees tags up to 32767. Transfers of different types are not matched with each other.
  static int tag(const Call& call) {
    constexpr int kTypes = static_cast<int>(kDataTypes.size());
    if (is_transfer(call.operation)) return static_cast<int>(subject_of(call).type);
    return kTypes + static_cast<int>(call.sequence % 32'000);
  }

  // Returns memory that belongs to this collective.
  std::byte* scratch(std::size_t bytes) { return scratch_.emplace_back(bytes).data(); }

  const BackendOptions options_;
  MpiCommunicator communicator_;
  std::vector<std::vector<std::byte>> scratch_;
  std::atomic<bool> aborted_ = false;
};
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

ProbeResult probe(const BackendOptions& options) {
  const bool under_mpirun = std::getenv(wire::env::kOmpiRank) != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (under_mpirun || options.size == 1) return {};
  return {std::string("the program was not started by mpirun (") + wire::env::kOmpiRank + " is not set)", ""};
}

std::string broadcast(const BackendOptions& options, const std::string& text) {
  MpiCommunicator communicator(options);
  const MpiWait wait(options.timeout, "report where the ranks meet");
  struct Sent {
    int bytes = 0;
    std::string text;
  };
  auto sent = std::make_unique<Sent>(Sent{static_cast<int>(text.size()), text});
  try {
    MPI_Request request = MPI_REQUEST_NULL;
    wait(MPI_Ibcast(&sent->bytes, 1, MPI_INT, 0, communicator.get(), &request), request);
    sent->text.resize(static_cast<std::size_t>(sent->bytes));
    wait(MPI_Ibcast(sent->text.data(), sent->bytes, MPI_CHAR, 0, communicator.get(), &request), request);
  } catch (...) {
    communicator.say_failed();
    sent.release();  // NOLINT: MPI still uses it
    throw;
  }
  return sent->text;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::unique_ptr<Backend> create(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<MpiBackend>(options, *store);
}

}  // namespace
}  // namespace ddp::internal

extern "C" DDP_EXPORT const ddp::internal::BackendPlugin* ddp_backend_plugin() {
  using namespace ddp::internal;
  static const BackendPlugin plugin{kBackendPluginAbi, "mpi", probe, broadcast, create};
  return &plugin;
}
