// nccl_program KIND [STEP [STEPS [MS]]]: a program that uses NCCL and not the runtime. Its ranks all-reduce again and
// again, in steps that take MS milliseconds; from STEP on, rank 1 behaves according to KIND. The program is started by
// integration/nccl_profiler_test.py and bench/nccl_hang_time.py. The ranks exchange the IDs of their communicators
// through files in the folder HANG_FOLDER.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): raise() with SIGSTOP is POSIX
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

struct UniqueId {
  char bytes[128];
};
struct Config {
  std::size_t size = 24;
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 1;
};

// NCCL and the driver, or the fakes of both.
void* function_of(const char* library, const char* name) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  void* const function = handle == nullptr ? nullptr : ::dlsym(handle, name);
  if (function != nullptr) return function;
  std::fprintf(stderr, "nccl_program: %s\n", ::dlerror());
  std::_Exit(3);
}
#define DDP_FUNCTION(library, name, ...) \
  int (*const name)(__VA_ARGS__) = reinterpret_cast<int (*)(__VA_ARGS__)>(function_of(library, #name))
#define DDP_NCCL(name, ...) DDP_FUNCTION("libnccl.so.2", name, __VA_ARGS__)
#define DDP_CUDA(name, ...) DDP_FUNCTION("libcuda.so.1", name, __VA_ARGS__)
DDP_CUDA(cuInit, unsigned);
DDP_CUDA(cuDeviceGet, int*, int);
DDP_CUDA(cuDevicePrimaryCtxRetain, void**, int);
DDP_CUDA(cuCtxSetCurrent, void*);
DDP_CUDA(cuStreamCreate, void**, unsigned);
DDP_CUDA(cuStreamSynchronize, void*);
DDP_CUDA(cuStreamBeginCapture_v2, void*, int);
DDP_CUDA(cuStreamEndCapture, void*, void**);
DDP_NCCL(ncclGetUniqueId, UniqueId*);
DDP_NCCL(ncclCommInitRankConfig, void**, int, UniqueId, int, const Config*);
DDP_NCCL(ncclCommFinalize, void*);
DDP_NCCL(ncclCommDestroy, void*);
DDP_NCCL(ncclMemAlloc, void**, std::size_t);
DDP_NCCL(ncclAllReduce, const void*, void*, std::size_t, int, int, void*, void*);
DDP_NCCL(ncclAllGather, const void*, void*, std::size_t, int, void*, void*);
DDP_NCCL(ncclBroadcast, const void*, void*, std::size_t, int, int, void*, void*);
DDP_NCCL(ncclSend, const void*, std::size_t, int, int, void*, void*);
DDP_NCCL(ncclRecv, void*, std::size_t, int, int, void*, void*);

constexpr int kFloat = 7;
constexpr int kSum = 0;
constexpr std::size_t kCount = 1024;

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

void check(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s failed: %d\n", what, result);
  std::_Exit(3);
}

const int rank = number_in("RANK");
const int ranks = number_in("WORLD_SIZE");
void* stream = nullptr;
float* memory = nullptr;

// Makes a communicator with a name that is new in the job.
void* make(const std::string& name, int size, int own) {
  const std::string attempt = std::to_string(number_in("TORCHELASTIC_RESTART_COUNT"));
  const std::string file = std::string(std::getenv("HANG_FOLDER")) + "/" + name + "." + attempt;
  UniqueId id{};
  if (own == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::ofstream(file + ".new", std::ios::binary).write(id.bytes, sizeof id.bytes);
    std::filesystem::rename(file + ".new", file);
  } else {
    while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::ifstream(file, std::ios::binary).read(id.bytes, sizeof id.bytes);
  }
  void* comm = nullptr;
  const Config config;
  check(ncclCommInitRankConfig(&comm, size, id, own, &config), "ncclCommInitRankConfig");
  return comm;
}

void all_reduce(void* comm, std::size_t count = kCount) {
  check(ncclAllReduce(memory, memory, count, kFloat, kSum, comm, stream), "ncclAllReduce");
}
void synchronise() {
  check(cuStreamSynchronize(stream), "cuStreamSynchronize");
}

[[noreturn]] void wait_for_ever() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("rank %d calls nothing from %.3f on\n", rank, now.count());
  std::fflush(stdout);
  while (true) ::pause();
}

// Returns whether rank 1 still calls what the others call.
bool misbehave(const std::string& kind, void* comm) {
  if (kind == "skip") wait_for_ever();
  if (kind == "leave") std::_Exit(0);
  if (kind == "kill") ::raise(SIGKILL);
  if (kind == "stop") ::raise(SIGSTOP);
  if (kind == "count") all_reduce(comm, kCount / 2);
  if (kind == "different") check(ncclAllGather(memory, memory, kCount / 4, kFloat, comm, stream), "ncclAllGather");
  if (kind != "count" && kind != "different") return true;
  synchronise();
  return false;
}

// A pipeline: each rank receives from the one before it, and sends to the one after it.
void pipeline(void* comm, bool is_stuck) {
  if (rank > 0) check(ncclRecv(memory, kCount, kFloat, rank - 1, comm, stream), "ncclRecv");
  synchronise();
  if (is_stuck) wait_for_ever();
  if (rank + 1 < ranks) check(ncclSend(memory, kCount, kFloat, rank + 1, comm, stream), "ncclSend");
  synchronise();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const int step_of_fault = argc > 2 ? std::atoi(argv[2]) : 20;
  const int steps = argc > 3 ? std::atoi(argv[3]) : 40;
  const std::chrono::milliseconds pace(argc > 4 ? std::atoi(argv[4]) : 0);
  int device = 0;
  void* context = nullptr;
  check(cuInit(0), "cuInit");
  // If the rank sees one GPU, that is its own.
  if (cuDeviceGet(&device, rank) != 0) check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuStreamCreate(&stream, 1), "cuStreamCreate");
  check(ncclMemAlloc(reinterpret_cast<void**>(&memory), kCount * 16 * sizeof(float)), "ncclMemAlloc");
  void* const world = make("world", ranks, rank);
  const bool is_grid = kind == "grid" || kind == "slow_grid";
  const int columns = ranks / 2;
  void* row = nullptr;
  void* column = nullptr;
  if (is_grid) {
    row = make("row" + std::to_string(rank / columns), columns, rank % columns);
    column = make("column" + std::to_string(rank % columns), ranks / columns, rank / columns);
  }
  for (int step = 0; step < steps; ++step) {
    const bool is_faulty = step == step_of_fault && rank == 1;
    const bool is_slow = kind.starts_with("slow") && rank == 1 && step % 5 == 4;
    if (is_slow) std::this_thread::sleep_for(std::chrono::seconds(step_of_fault));
    std::this_thread::sleep_for(pace);
    if (is_grid) {
      if (is_faulty && kind == "grid") wait_for_ever();
      all_reduce(row);
      synchronise();
      all_reduce(column);
      synchronise();
      continue;
    }
    if (kind == "chain") {
      pipeline(world, is_faulty);
      continue;
    }
    if (kind == "broadcast") {
      if (is_faulty) wait_for_ever();
      check(ncclBroadcast(memory, memory, kCount, kFloat, 1, world, stream), "ncclBroadcast");
      synchronise();
      continue;
    }
    // The graph is not launched: what it repeats would not be counted.
    if (kind == "graph" && step == step_of_fault) {
      void* graph = nullptr;
      check(cuStreamBeginCapture_v2(stream, 2), "cuStreamBeginCapture");
      for (int i = 0; i <= rank; ++i) all_reduce(world);
      check(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
      std::this_thread::sleep_for(std::chrono::seconds(12 - rank));
      break;
    }
    // The root goes on with something else: it has sent, and waits for no rank. All ranks connect before that.
    if (kind == "root" && step == 0) {
      check(ncclBroadcast(memory, memory, 8, kFloat, 0, world, stream), "ncclBroadcast");
    }
    if (kind == "root" && step == step_of_fault) {
      if (rank == 0) check(ncclBroadcast(memory, memory, 8, kFloat, 0, world, stream), "ncclBroadcast");
      std::this_thread::sleep_for(std::chrono::seconds(10));
      if (rank != 0) check(ncclBroadcast(memory, memory, 8, kFloat, 0, world, stream), "ncclBroadcast");
    }
    if (is_faulty && !misbehave(kind, world)) continue;
    all_reduce(world);
    synchronise();
  }
  synchronise();
  for (void* comm : {row, column, world}) {
    if (comm == nullptr) continue;
    check(ncclCommFinalize(comm), "ncclCommFinalize");
    check(ncclCommDestroy(comm), "ncclCommDestroy");
  }
  if (rank == 0) std::puts("done");
  return 0;
}
