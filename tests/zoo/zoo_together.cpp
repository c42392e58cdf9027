// In these programs ranks wait for each other, but not in vain.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "zoo/zoo.h"

namespace zoo {
namespace {

// Ranks 0 and 1 are in two groups. A rank's own group is the one in which it waits first.
struct Pairs {
  ddp::ProcessGroup one;
  ddp::ProcessGroup two;
  int rank;

  explicit Pairs(ddp::ProcessGroup& world)
      : one(world.new_group(std::vector{0, 1}, "one")),
        two(world.new_group(std::vector{0, 1}, "two")),
        rank(world.rank()) {
    one.barrier().wait();
    two.barrier().wait();
  }
  ddp::ProcessGroup& own() { return rank == 0 ? one : two; }
  ddp::ProcessGroup& others() { return rank == 0 ? two : one; }
};

using PairAction = std::function<void(Pairs& pairs)>;

Action of_pairs(PairAction action) {
  return [action = std::move(action)](ddp::ProcessGroup& world) {
    if (world.rank() > 1) return;
    Pairs pairs(world);
    action(pairs);
  };
}

const std::map<std::string, Action> kTogether = {
    {"rank_zero_evaluates_in_a_subprocess",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 0) wait_for(in_child([] { compute_for(kBusySeconds); }));
       world.barrier().wait();
     }},
    {"exchanges_in_batches",
     [](ddp::ProcessGroup& world) {
       for (int i = 0; i < 3; ++i) {
         if (world.rank() == i) sleep_for(kIdleSeconds / 2.0);
         exchange_in_a_batch(world);
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
    // Two ranks seem to wait for each other, and something resolves it.
    {"has_a_thread_that_calls_for_the_first_time", of_pairs([](Pairs& pairs) {
       std::thread later([&] {
         sleep_for(kIdleSeconds);
         pairs.others().barrier().wait();
       });
       pairs.own().barrier().wait();
       later.join();
     })},
    {"has_a_new_thread_for_each_call", of_pairs([](Pairs& pairs) {
       for (int i = 0; i < 4; ++i) {
         std::thread other([&] {
           if (i == 3) sleep_for(kIdleSeconds);
           pairs.others().barrier().wait();
         });
         pairs.own().barrier().wait();
         other.join();
       }
     })},
    {"calls_from_a_continuation", of_pairs([](Pairs& pairs) {
       ddp::Work first = pairs.others().barrier();
       std::optional<ddp::Work> second;
       first.then([&](const ddp::Error*) {
         sleep_for(kIdleSeconds);
         second.emplace(pairs.others().barrier());
       });
       pairs.own().barrier().wait();
       first.wait();
       pairs.own().barrier().wait();
       second->wait();
     })},
    {"begins_what_it_does_not_wait_for",
     [](ddp::ProcessGroup& world) {
       // The pairs' barriers are only begun. Ranks 0 and 1 wait for rank 2.
       std::optional<Pairs> pairs;
       std::optional<ddp::Work> begun;
       if (world.rank() < 2) begun.emplace(pairs.emplace(world).own().barrier());
       if (world.rank() == 2) sleep_for(kIdleSeconds);
       world.monitored_barrier();
       if (!begun) return;
       pairs->others().barrier().wait();
       begun->wait();
     }},
};

}  // namespace

std::map<std::string, Action> together() {
  return kTogether;
}

}  // namespace zoo
