// A process that fails must not finalize MPI, because MPI_Finalize waits for all ranks, and those wait for this one. So
// the process exits without it, and mpirun then terminates the others. The thread that runs the exit handlers is the
// one that initialized MPI, as MPI requires.
#include "runtime/backend/mpi/mpi_communicator.h"

#include <ddp/error.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/text.h"
#include "runtime/backend/backend_errors.h"

namespace ddp::internal {
namespace {

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

}  // namespace

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

MpiWait::MpiWait(std::chrono::milliseconds timeout, std::string_view action, PeerWatch* peers,
                 const std::atomic<bool>* aborted)
    : timeout_(timeout), polling_(timeout, kSpin), action_(action), peers_(peers), aborted_(aborted) {}

// The checker knows MPI_Wait and not MPI_Test. NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
void MpiWait::operator()(int begun, MPI_Request& request) const {
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
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

MpiCommunicator::MpiCommunicator(const BackendOptions& options, Store* store) {
  initialize_once();
  try {
    communicator_ = options.world_ranks.empty() ? whole_world(options) : part_of_world(options, *store);
  } catch (...) {
    operation_failed = true;
    throw;
  }
  require_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "set an error handler");
}

MpiCommunicator::~MpiCommunicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (usable_ && finalized == 0) MPI_Comm_free(&communicator_);
}

void MpiCommunicator::say_failed() {
  usable_ = false;
  operation_failed = true;
}

}  // namespace ddp::internal
