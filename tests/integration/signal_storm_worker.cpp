// signal_storm_worker: runs a rank of signal_storm_test.py. A thread sends signals to all other threads all the time,
// while the rank calls everything of the runtime that waits. Every result must be right. Then the rank prints
// "rank N ok, SIGNALS signals".
//
//   signal_storm_worker DIRECTORY [SIGNAL …]    # numbers of the signals; the directory is for checkpoints
#include <ddp/ddp.h>

#include <dirent.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/collective_checks.h"

namespace {

using namespace std::chrono_literals;
using ddp::test::require;

// Sends the signals to each other thread of the process until it is destroyed.
class Storm {
 public:
  explicit Storm(std::vector<int> signals) : signals_(std::move(signals)) {
    for (const int signal : signals_) {
      if (signal >= SIGRTMIN) continue;  // the runtime installs the handler
      struct sigaction action {};
      action.sa_handler = [](int) {};  // without SA_RESTART, so every call that can be interrupted is
      ::sigaction(signal, &action, nullptr);
    }
    // The thread inherits the mask.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { blow(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Storm() {
    ends_ = true;
    thread_.join();
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  long sent() const { return sent_; }

 private:
  static bool has_handler(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_DFL;
  }

  void blow() {
    const auto own = static_cast<pid_t>(::syscall(SYS_gettid));
    while (!ends_) {
      DIR* threads = ::opendir("/proc/self/task");
      while (const dirent* entry = threads == nullptr ? nullptr : ::readdir(threads)) {
        const pid_t thread = std::atoi(entry->d_name);
        if (thread <= 0 || thread == own) continue;
        for (const int signal : signals_) {
          if (has_handler(signal) && ::syscall(SYS_tgkill, ::getpid(), thread, signal) == 0) ++sent_;
        }
      }
      if (threads != nullptr) ::closedir(threads);
      std::this_thread::sleep_for(1ms);
    }
  }

  const std::vector<int> signals_;
  std::atomic<bool> ends_ = false;
  std::atomic<long> sent_ = 0;
  std::thread thread_;
};

void call_collectives(ddp::ProcessGroup& world) {
  for (const std::size_t count : {1, 5000}) ddp::test::check_everything(world, ddp::DataType::f32, count);
  // The other ranks wait for the slowest one.
  for (int slow = 0; slow < world.size(); ++slow) {
    if (slow == world.rank()) std::this_thread::sleep_for(50ms);
    world.barrier().wait();
    std::vector<float> one(1, 1);
    ddp::Work work = world.all_reduce(one);
    while (!work.wait_for(1ms)) {
    }
    require(one[0] == static_cast<float>(world.size()), "a sum after a slow rank is wrong");
  }
  world.monitored_barrier(30s);
  const std::vector<std::string> names = world.all_gather_bytes("rank " + std::to_string(world.rank()));
  require(names.back() == "rank " + std::to_string(world.size() - 1), "all_gather_bytes is wrong");
  require(world.broadcast_bytes("x" + std::to_string(world.rank()), 1) == "x1", "broadcast_bytes is wrong");
}

void make_groups(ddp::ProcessGroup& world) {
  for (int round = 0; round < 3; ++round) {
    if (world.rank() == round % world.size()) std::this_thread::sleep_for(30ms);
    auto half = world.split(world.rank() % 2);
    ddp::test::check_everything(*half, ddp::DataType::i32, 100);
    const std::vector<int> all = {0, 1, 2};
    ddp::ProcessGroup group = world.new_group(all, "again " + std::to_string(round));
    ddp::test::check_everything(group, ddp::DataType::f64, 100);
    group.finalize();
  }
}

void use_store(ddp::Store& store, const std::string& name, int rank, int ranks) {
  const auto key = [&](const char* what, int of) { return name + "/" + what + "/" + std::to_string(of); };
  for (int turn = 0; turn < 10; ++turn) {
    const std::string round = std::to_string(turn);
    if (rank == turn % ranks) {
      std::this_thread::sleep_for(10ms);
      store.set(key("value", turn), std::string(100'000, 'v'));
      for (int other = 0; other < ranks; ++other) store.queue_push(key("queue", turn), round);
    }
    require(store.get(key("value", turn)).size() == 100'000, "a value has another length");
    const std::string awaited = key("value", turn);
    store.wait({&awaited, 1}, 30s);
    require(store.check({&awaited, 1}), "a key is missing");
    require(store.queue_pop(key("queue", turn), 30s) == round, "another value was popped");
    store.add(key("count", turn), rank + 1);
    store.barrier(key("barrier", turn), ranks, 30s);
    require(store.add(key("count", turn), 0) == static_cast<long>(ranks) * (ranks + 1) / 2, "the counter is wrong");
    store.append(key("text", turn), "a");
    store.barrier(key("second", turn), ranks, 30s);
    require(store.get(key("text", turn)) == std::string(static_cast<std::size_t>(ranks), 'a'), "an append is lost");
    require(store.compare_set(key("swap", turn), "", "first") == "first", "compare_set is wrong");
  }
}

void use_stores(const ddp::ProcessGroup& world, const std::string& directory) {
  const auto environment = ddp::Environment::from_process();
  const auto tcp = ddp::connect_tcp_store(environment.master_addr, environment.master_port, 30s);
  use_store(*tcp, "storm", world.rank(), world.size());
  const auto file = ddp::make_file_store(directory + "/store", 30s, world.size());
  use_store(*file, "storm", world.rank(), world.size());
}

void save_and_load(ddp::ProcessGroup& world, const std::string& directory) {
  std::vector<float> weights(300'000, 1.5F);
  const std::vector<ddp::Tensor> tensors = {{"weights", ddp::Buffer(weights), {300, 1000}}};
  ddp::CheckpointFile file(directory + "/file", world);
  for (int round = 0; round < 3; ++round) {
    file.save(tensors, {{"round", std::to_string(round)}});
    std::fill(weights.begin(), weights.end(), 0.F);
    require(file.load(tensors).at("round") == std::to_string(round), "the metadata is wrong");
    require(weights.front() == 1.5F && weights.back() == 1.5F, "the loaded weights are wrong");
  }
  for (const auto layout : {ddp::CheckpointOptions::Layout::full, ddp::CheckpointOptions::Layout::sharded}) {
    const std::string steps = directory + (layout == ddp::CheckpointOptions::Layout::full ? "/full" : "/sharded");
    ddp::CheckpointManager manager(steps, world, {.layout = layout, .asynchronous = true, .keep_last = 2});
    ddp::CheckpointState state;
    state.tensors.emplace_back(tensors.front());
    for (int step = 1; step <= 4; ++step) manager.save(step, state);
    manager.wait();
    std::fill(weights.begin(), weights.end(), 0.F);
    require(manager.load_latest(state) == 4, "the newest checkpoint was not found");
    require(weights.front() == 1.5F && weights.back() == 1.5F, "the loaded weights are wrong");
  }
}

struct SlowNumbers {
  std::int64_t size() const { return 300; }
  std::int64_t operator[](std::int64_t index) const {
    std::this_thread::sleep_for(1ms);
    return index;
  }
};

void load_data(ddp::ProcessGroup& world) {
  const SlowNumbers data;
  const ddp::DistributedSampler sampler(data.size(), world);
  const ddp::DataLoader loader(data, sampler, {.batch_size = 10, .threads = 2});
  std::int64_t sum = 0;
  std::uint64_t step = 0;
  for (const auto& batch : loader) {
    for (const std::int64_t sample : batch.samples) sum += sample;
    ddp::progress(++step, 10, {{"loss", 0.5}});
    ddp::heartbeat();
    require(!ddp::should_stop(world), "the job was asked to stop");
  }
  std::vector<std::int64_t> sums = {sum};
  world.all_reduce(sums).wait();
  require(sums[0] == 300 * 299 / 2, "samples are missing");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : ".";
  std::vector<int> signals;
  for (int i = 2; i < argc; ++i) signals.push_back(std::atoi(argv[i]));
  try {
    // The runtime installs its handler of the stack signal before the storm begins, if the signal is among them.
    const Storm storm(signals);
    ddp::ProcessGroup world = ddp::init();
    const auto part = [&](const char* name, auto&& work) {
      const auto begin = std::chrono::steady_clock::now();
      work();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (world.rank() == 0) std::printf("%s took %.2f s\n", name, took.count());
    };
    part("collectives", [&] { call_collectives(world); });
    part("groups", [&] { make_groups(world); });
    part("stores", [&] { use_stores(world, directory); });
    part("checkpoints", [&] { save_and_load(world, directory); });
    part("data", [&] { load_data(world); });
    world.finalize();
    std::printf("rank %d ok, %ld signals\n", world.rank(), storm.sent());
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
