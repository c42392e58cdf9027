// In these programs ranks wait for each other, but not in vain.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): masks are POSIX
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "zoo/zoo.h"

namespace zoo {
namespace {

const std::map<std::string, Action> kTogether = {
    {"rank_zero_writes_a_checkpoint",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 0) run("dd if=/dev/zero of=/dev/null bs=1M count=2000 status=none; sleep 6");
       world.barrier().wait();
     }},
    {"rank_zero_evaluates_in_a_subprocess",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 0) wait_for(in_child([] { compute_for(kBusySeconds); }));
       world.barrier().wait();
     }},
    {"pauses_grow",
     [](ddp::ProcessGroup& world) {
       for (double pause = 0.5; pause <= kIdleSeconds; pause *= 2) {
         if (world.rank() == 1) sleep_for(pause);
         world.barrier().wait();
       }
     }},
    {"ranks_are_uneven",
     [](ddp::ProcessGroup& world) {
       for (int i = 0; i < 4; ++i) {
         sleep_for(world.rank() == i % world.size() ? 4 : 0);
         world.barrier().wait();
       }
     }},
    {"is_a_pipeline_with_bubbles",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(64);
       for (int batch = 0; batch < 3; ++batch) {
         if (world.rank() > 0) world.recv(values, world.rank() - 1).wait();
         sleep_for(2);
         if (world.rank() + 1 < world.size()) world.send(values, world.rank() + 1).wait();
       }
     }},
    {"exchanges_in_batches",
     [](ddp::ProcessGroup& world) {
       for (int i = 0; i < 3; ++i) {
         if (world.rank() == i) sleep_for(kIdleSeconds / 2.0);
         exchange_in_a_batch(world);
       }
     }},
    {"has_a_parameter_server",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(64);
       if (world.rank() == 0) {
         for (int i = 1; i < world.size(); ++i) world.recv(values, i).wait();
       } else {
         compute_for(3.0 * world.rank());
         world.send(values, 0).wait();
       }
     }},
    {"posts_a_receive_long_before",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(64);
       std::optional<ddp::Work> early;
       if (world.rank() == 0) early.emplace(world.recv(values, 1));
       for (int i = 0; i < 60; ++i) {
         sleep_for(0.3);
         if (world.size() > 2 && world.rank() != 1) ddp::heartbeat();
       }
       if (world.rank() == 1) world.send(values, 0).wait();
       if (early) early->wait();
     }},
    {"posts_a_receive_and_sleeps",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(64);
       std::optional<ddp::Work> early;
       if (world.rank() == 0) early.emplace(world.recv(values, 1));
       sleep_for(kBusySeconds);
       if (world.rank() == 1) world.send(values, 0).wait();
       if (early) early->wait();
     }},
    {"computes_while_a_collective_is_under_way",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(64);
       ddp::Work work = world.all_reduce(values);
       if (world.rank() == 1) compute_for(kBusySeconds);
       work.wait();
     }},
    {"looks_at_its_work_now_and_then",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) compute_for(kBusySeconds / 2);
       ddp::Work work = world.barrier();
       while (!work.wait_for(std::chrono::milliseconds(500))) {
       }
     }},
    {"comes_late_to_a_new_group",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) compute_for(kBusySeconds);
       ddp::ProcessGroup all = world.new_group(std::vector<int>{0, 1, 2}, "all");
       if (world.rank() == 1) sleep_for(kIdleSeconds);
       all.barrier().wait();
     }},
    {"comes_late_to_init",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for(kIdleSeconds);
       ddp::init().barrier().wait();
     }},
    {"is_slow_in_a_monitored_barrier",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for(kIdleSeconds);
       world.monitored_barrier();
     }},
    {"uses_groups_in_turn",
     [](ddp::ProcessGroup& world) {
       auto rows = world.split(world.rank() / 2);
       auto columns = world.split(world.rank() % 2);
       for (int i = 0; i < 3; ++i) {
         if (world.rank() == 1) sleep_for(2);
         rows->barrier().wait();
         columns->barrier().wait();
       }
     }},
    {"leaves_a_group_unused",
     [](ddp::ProcessGroup& world) {
       auto rows = world.split(world.rank() / 2);
       if (world.rank() < 2) {
         for (int i = 0; i < 5; ++i) {
           sleep_for(1);
           rows->barrier().wait();
         }
       }
     }},
    {"has_another_thread_that_makes_the_call",
     [](ddp::ProcessGroup& world) {
       // For a while, ranks 0 and 1 wait for each other in two groups. Each has a thread that resolves it.
       const std::vector<int> both = {0, 1};
       if (world.rank() > 1) return;
       ddp::ProcessGroup one = world.new_group(both, "one");
       ddp::ProcessGroup two = world.new_group(both, "two");
       ddp::ProcessGroup& mine = world.rank() == 0 ? one : two;
       ddp::ProcessGroup& others = world.rank() == 0 ? two : one;
       std::thread later([&] {
         others.monitored_barrier();
         [[maybe_unused]] const bool is_known = (others.all_gather_bytes("here"), true);
         sleep_for(kIdleSeconds);
         others.barrier().wait();
       });
       [[maybe_unused]] const bool is_known = (mine.monitored_barrier(), mine.all_gather_bytes("here"), true);
       mine.barrier().wait();
       later.join();
     }},
    {"loads_data_in_threads",
     [](ddp::ProcessGroup& world) {
       std::mutex mutex;
       std::condition_variable condition;
       int batches = 0;
       std::thread loader([&] {
         for (int i = 0; i < 3; ++i) {
           sleep_for(world.rank() == 1 ? 3 : 0.1);
           const std::lock_guard lock(mutex);
           ++batches;
           condition.notify_one();
         }
       });
       for (int i = 0; i < 3; ++i) {
         std::unique_lock lock(mutex);
         condition.wait(lock, [&] { return batches > i; });
         lock.unlock();
         world.barrier().wait();
       }
       loader.join();
     }},
    {"works_and_is_then_stopped_for_long", of_rank_one([] {
       compute_for(kBusySeconds - 10);
       const pid_t self = ::getpid();
       const pid_t child = in_child([=] {
         sleep_for(kBusySeconds - 10);
         ::kill(self, SIGCONT);
       });
       ::kill(self, SIGSTOP);
       wait_for(child);
     })},
    {"one_thread_calls_and_another_waits",
     [](ddp::ProcessGroup& world) {
       // Ranks 0 and 1 seem to wait for each other in two groups, and their main threads compute.
       if (world.rank() > 1) return;
       const std::vector<int> both = {0, 1};
       ddp::ProcessGroup one = world.new_group(both, "one");
       ddp::ProcessGroup two = world.new_group(both, "two");
       ddp::Work work = (world.rank() == 0 ? one : two).barrier();
       std::thread waits([&] { work.wait(); });
       compute_for(kIdleSeconds);
       ddp::Work other = (world.rank() == 0 ? two : one).barrier();
       other.wait();
       waits.join();
     }},
    {"forks_a_child_that_exits",
     [](ddp::ProcessGroup& world) {
       for (int i = 0; i < 5; ++i) {
         const pid_t child = ::fork();
         if (child == 0) std::exit(0);  // NOLINT(concurrency-mt-unsafe): destructors run, as in a careless program
         ::waitpid(child, nullptr, 0);
         world.barrier().wait();
       }
     }},
    {"has_ranks_in_threads",
     [](ddp::ProcessGroup& world) {
       if (world.rank() != 1) return;
       ddp::run_ranks(4, [](ddp::ProcessGroup& group) {
         if (group.rank() == 2) compute_for(kIdleSeconds);
         group.barrier().wait();
       });
     }},
    {"all_ranks_compute_apart", [](ddp::ProcessGroup&) { compute_for(kIdleSeconds); }},
    {"all_ranks_sleep", [](ddp::ProcessGroup&) { sleep_for(kBusySeconds); }},
    {"one_rank_ends_long_before_the_other",
     [](ddp::ProcessGroup& world) {
       const bool goes_on = world.rank() == 0;
       world.finalize();
       for (int i = 0; goes_on && i < kBusySeconds; ++i) sleep_for(1);
       if (goes_on) std::puts("done");
       std::fflush(stdout);
       std::_Exit(0);
     }},
};

}  // namespace

std::map<std::string, Action> together() {
  return kTogether;
}

}  // namespace zoo
