// gpu_job runs one task of scripts/gpu_check on every rank of a job:
//
//   ddplaunch --nproc_per_node=2 gpu_job collectives    every operation, type and reduction against a reference
//   ddplaunch --nproc_per_node=2 gpu_job groups         many groups at once, and transfers in both directions
//   ddplaunch gpu_job capture                           a stream is captured while a collective is in flight
//   ddplaunch --nproc_per_node=2 gpu_job leave          all ranks but the last one end early, without finalize()
//   ddplaunch gpu_job oom                               allocates memory until there is none
//   ddplaunch --nproc_per_node=2 gpu_job FAULT          trains; in the middle, the last rank has the fault:
//                                                       illegal, endless, kill, stop or exit
//
// Prints one line of JSON. The exit code is 0 if all is right, 3 if a call failed, 1 if a result is wrong, and 77 if
// the GPU cannot do the task.
#include <ddp/ddp.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/driver.h"
#include "support/collective_checks.h"

namespace {

using ddp::gpu::Driver;
using ddp::gpu::Handle;
using ddp::gpu::Kernels;
using Clock = std::chrono::steady_clock;

constexpr int kOk = 0;
constexpr int kImpossible = 77;
constexpr std::uint64_t kSpinTime = 500'000'000;  // nanoseconds
constexpr ddp::gpu::Address kNoMemory = 16;       // no memory has this address

// Returns parts of one piece of GPU memory. On a GPU an allocation takes about a millisecond, and the checks make
// thousands of them.
class Pool {
 public:
  explicit Pool(const ddp::ProcessGroup& group)
      : group_(group), whole_(group.allocate(std::size_t{8} << 20, ddp::DataType::u8, ddp::DeviceType::cuda)) {}

  // Forgets all parts.
  void clear() { used_ = 0; }

  ddp::test::DeviceMemory memory() {
    return {[this](std::size_t bytes) {
              if (used_ + bytes > whole_.size()) throw std::runtime_error("the pool of GPU memory is too small");
              const ddp::Buffer part = whole_.buffer().slice(used_, bytes);
              used_ += (bytes + 255) / 256 * 256;
              return ddp::Memory(part, nullptr);
            },
            [this](void* to, const void* from, std::size_t bytes) {
              group_.copy({to, bytes, ddp::DataType::u8, device_of(to)},
                          ddp::ConstBuffer{from, bytes, ddp::DataType::u8, device_of(from)});
            }};
  }

 private:
  ddp::DeviceType device_of(const void* memory) const {
    const auto* begin = static_cast<const std::byte*>(whole_.data());
    const auto* at = static_cast<const std::byte*>(memory);
    return at >= begin && at < begin + whole_.bytes() ? ddp::DeviceType::cuda : ddp::DeviceType::cpu;
  }

  const ddp::ProcessGroup& group_;
  const ddp::Memory whole_;
  std::size_t used_ = 0;
};

std::size_t free_memory(const Driver& driver) {
  std::size_t free = 0;
  std::size_t total = 0;
  driver.call("cuMemGetInfo_v2", &free, &total);
  return free;
}

Handle make_stream(const Driver& driver) {
  constexpr unsigned kNonBlocking = 1;
  Handle stream = nullptr;
  ddp::test::require(driver.call("cuStreamCreate", &stream, kNonBlocking) == 0, "the driver creates no stream");
  return stream;
}

// NCCL's own minimum and maximum ignore a NaN, and ReduceOp promises that it stays.
void check_nan(ddp::ProcessGroup& world) {
  for (const ddp::ReduceOp op : {ddp::ReduceOp::min, ddp::ReduceOp::max}) {
    const ddp::Memory values = world.allocate(2, ddp::DataType::f32, ddp::DeviceType::cuda);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> own = {world.rank() == 0 ? nan : 1.0F, 2.0F};
    world.copy(values, own);
    world.all_reduce(values, op).wait();
    world.copy(own, values);
    ddp::test::require(std::isnan(own[0]) && own[1] == 2.0F, "min or max has lost a NaN");
  }
}

int check_collectives(ddp::ProcessGroup& world, const Driver&) {
  int checks = 0;
  Pool pool(world);
  const ddp::test::DeviceMemory device = pool.memory();
  for (const ddp::DataType type : ddp::kDataTypes) {
    const bool is_thorough = type == ddp::DataType::f32 || type == ddp::DataType::bf16;
    for (const std::size_t count : {7, 0, 1, 1021, 30'011}) {
      if (count != 7 && !is_thorough) continue;
      for (const auto* where : {&device, static_cast<const ddp::test::DeviceMemory*>(nullptr)}) {
        if (where == nullptr && count != 7) continue;
        pool.clear();
        ddp::test::check_everything(world, type, count, where);
        ++checks;
      }
    }
  }
  check_nan(world);
  if (world.rank() == 0) {
    std::printf("{\"task\": \"collectives\", \"ranks\": %d, \"backend\": \"%s\", \"checks\": %d}\n", world.size(),
                std::string(world.backend()).c_str(), checks);
  }
  return kOk;
}

// A GPU has 8 hardware queues unless CUDA_DEVICE_MAX_CONNECTIONS says otherwise. With more streams than queues, a
// collective may be queued behind one that waits for another rank.
int run_groups(ddp::ProcessGroup& world, const Driver& driver) {
  constexpr int kGroups = 12;
  constexpr int kRounds = 20;
  const auto begin = Clock::now();
  const std::size_t before = free_memory(driver);
  std::vector<ddp::ProcessGroup> groups;
  for (int i = 0; i < kGroups; ++i) groups.push_back(*world.split(0, world.rank()));
  std::vector<ddp::Memory> values;
  for (ddp::ProcessGroup& group : groups) {
    values.push_back(group.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda));
    group.all_reduce(values.back()).wait();
  }
  const double making = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::size_t per_group = (before - std::min(before, free_memory(driver))) / kGroups;
  const ddp::Memory given = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  const ddp::Memory taken = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  const int other = world.size() - 1 - world.rank();
  for (int round = 0; round < kRounds; ++round) {
    std::vector<ddp::Work> works;
    for (int i = 0; i < kGroups; ++i)
      works.push_back(groups[static_cast<std::size_t>(i)].all_reduce(values[static_cast<std::size_t>(i)]));
    if (other != world.rank()) {
      works.push_back(world.send(given, other));
      works.push_back(world.recv(taken, other));
    }
    for (ddp::Work& work : works) work.wait();
  }
  world.barrier().wait();
  if (world.rank() == 0) {
    std::printf("{\"task\": \"groups\", \"groups\": %d, \"seconds_per_group\": %.3f, \"mebibytes_per_group\": %zu}\n",
                kGroups, making / kGroups, per_group >> 20);
  }
  return kOk;
}

// In the global mode, CUDA refuses unsafe calls of every thread while a stream is captured, and the capture is lost.
int check_capture(ddp::ProcessGroup& world, const Driver& driver) {
  constexpr unsigned kGlobal = 0;
  const Kernels kernels(driver);
  const Handle busy = make_stream(driver);
  const Handle captured = make_stream(driver);
  const ddp::Memory values = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  const ddp::Memory others = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  const auto reduce = [&](Handle stream, const ddp::Memory& memory) {
    return world.all_reduce(memory, ddp::ReduceOp::sum, {.stream = ddp::Stream::from_handle(stream)});
  };
  reduce(busy, values).wait();  // NCCL connects
  driver.call("cuStreamSynchronize", busy);
  kernels.spin(busy, kSpinTime);
  ddp::Work work = reduce(busy, values);
  const int began = driver.call("cuStreamBeginCapture_v2", captured, kGlobal);
  if (began == ddp::gpu::kMissing) return kImpossible;
  // Meanwhile the thread of the group polls the collective.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kernels.spin(captured, 1000);
  bool is_refused = false;
  try {
    reduce(captured, others).wait();
  } catch (const ddp::Error& error) {
    is_refused = error.kind() == ddp::ErrorKind::invalid_argument;
  }
  Handle graph = nullptr;
  const int ended = driver.call("cuStreamEndCapture", captured, &graph);
  work.wait();
  const int synchronized = driver.call("cuStreamSynchronize", busy);
  reduce(busy, values).wait();  // the group still works
  driver.call("cuStreamSynchronize", busy);
  std::printf("{\"task\": \"capture\", \"began\": %d, \"ended\": %d, \"collective_is_refused\": %s, \"stream\": %d}\n",
              began, ended, is_refused ? "true" : "false", synchronized);
  return began == 0 && ended == 0 && is_refused && synchronized == 0 ? kOk : 1;
}

// What a rank does on its own GPU needs no other rank.
int work_alone(ddp::ProcessGroup& world, const Driver&) {
  constexpr int kTries = 20;
  const ddp::Memory values = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  world.all_reduce(values).wait();
  if (world.rank() != world.size() - 1) return kOk;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  int failures = 0;
  std::string failure;
  const auto attempt = [&](auto&& call) {
    try {
      call();
    } catch (const ddp::Error& error) {
      ++failures;
      failure = error.what();
    }
  };
  std::vector<float> host(values.size());
  for (int i = 0; i < kTries; ++i) {
    attempt([&] { static_cast<void>(world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda)); });
    attempt([&] { world.copy(host, values); });
  }
  const std::string path = std::filesystem::temp_directory_path() / ("gpu_job." + std::to_string(::getpid()));
  attempt([&] {
    const int own = world.rank();
    const ddp::ProcessGroup alone = world.new_group({&own, 1}, "alone");
    ddp::CheckpointFile(path, alone).save(std::vector<ddp::Tensor>{{"values", values, {1024}}}, {});
  });
  std::filesystem::remove(path);
  std::printf("{\"task\": \"leave\", \"calls\": %d, \"failures\": %d}\n", 2 * kTries + 1, failures);
  if (failures > 0) throw std::runtime_error(failure);
  return kOk;
}

// Does not return on a real GPU: the allocation throws.
int use_all_memory(ddp::ProcessGroup& world, const Driver&) {
  std::vector<ddp::Memory> all;
  for (int i = 0; i < 400; ++i) {
    all.push_back(world.allocate(std::size_t{9} << 30, ddp::DataType::u8, ddp::DeviceType::cuda));
  }
  return kOk;
}

using Fault = void (*)(const Kernels&, Handle stream);
const std::map<std::string, Fault> kFaults = {
    {"illegal", [](const Kernels& kernels, Handle stream) { kernels.write(stream, kNoMemory); }},
    {"endless", [](const Kernels& kernels, Handle stream) { kernels.spin(stream, ddp::gpu::kEndless); }},
    {"kill", [](const Kernels&, Handle) { ::raise(SIGKILL); }},
    {"stop", [](const Kernels&, Handle) { ::raise(SIGSTOP); }},
    {"exit",
     [](const Kernels& kernels, Handle stream) {
       kernels.spin(stream, ddp::gpu::kEndless);
       std::_Exit(1);
     }},
};

int train_until_fault(ddp::ProcessGroup& world, const Driver& driver, const std::string& name) {
  const Kernels kernels(driver);
  if (name == "illegal" && !kernels.can_write()) return kImpossible;
  const Handle stream = make_stream(driver);
  const ddp::Memory values = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  for (int step = 0; step < 40; ++step) {
    if (step == 20 && world.rank() == world.size() - 1) kFaults.at(name)(kernels, stream);
    world.all_reduce(values, ddp::ReduceOp::average, {.name = "bucket 0", .stream = ddp::Stream::from_handle(stream)})
        .wait();
    driver.call("cuStreamSynchronize", stream);
  }
  return kOk;
}

int run(const std::string& task) {
  ddp::ProcessGroup world = ddp::init();
  if (world.backend() != "nccl") throw std::runtime_error("needs a GPU: " + world.backend_reason());
  const Driver driver;
  if (kFaults.contains(task)) return train_until_fault(world, driver, task);
  const std::map<std::string, int (*)(ddp::ProcessGroup&, const Driver&)> tasks = {{"collectives", check_collectives},
                                                                                   {"groups", run_groups},
                                                                                   {"capture", check_capture},
                                                                                   {"leave", work_alone},
                                                                                   {"oom", use_all_memory}};
  if (!tasks.contains(task)) throw std::runtime_error("no task is called " + task);
  const int result = tasks.at(task)(world, driver);
  if (task != "leave") world.finalize();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "collectives");
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "gpu_job: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_job: %s\n", error.what());
    return 1;
  }
}
