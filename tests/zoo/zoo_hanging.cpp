// These programs never continue, or fail: rank 1 does something else forever, or collectives, sends and receives cannot
// match.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/ptrace.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "zoo/zoo.h"

namespace zoo {
namespace {

// The rank is killed while a debugger traces it and never waits for it. So the launcher cannot reap the rank.
void die_under_a_debugger() {
  const pid_t rank = ::getpid();
  if (::fork() == 0) {
    ::setsid();
    if (::ptrace(PTRACE_SEIZE, rank, nullptr, nullptr) != 0) ::_exit(1);
    ::kill(rank, SIGKILL);
    sleep_for_ever();
  }
  sleep_for_ever();
}

std::vector<int> ranks_below(int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

const std::map<std::string, Action> kHanging = {
    {"locks_a_mutex_twice", of_rank_one([] {
       static std::mutex mutex;
       mutex.lock();
       mutex.lock();  // NOLINT(clang-analyzer-*)
     })},
    {"pauses", of_rank_one([] { sleep_for_ever(); })},
    {"is_the_parent_of_a_vfork", of_rank_one([] {
       if (::vfork() == 0) {  // NOLINT: this is what hangs; the parent is in state D until the child ends
         while (true) ::pause();
       }
     })},
    {"has_a_watchdog_thread_and_hangs", of_rank_one([] {
       // Like PyTorch's threads, this thread wakes ten times per second and is done immediately.
       std::thread([] {
         while (true) sleep_for(0.1);
       }).detach();
       sleep_for_ever();
     })},
    {"loops_for_ever", of_rank_one([] { use_processor(1e6); })},
    {"prints_for_ever", of_rank_one([] {
       while (true) {
         std::puts("waiting for the data");
         std::fflush(stdout);
         sleep_for(2);
       }
     })},
    {"is_stopped_for_ever", of_rank_one([] { ::raise(SIGSTOP); })},
    {"is_dead_under_a_debugger", of_rank_one(die_under_a_debugger)},
    {"ends_early", of_rank_one([] { std::_Exit(0); })},
    {"leaves_a_collective_out",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       if (world.rank() != 1) world.broadcast(values, 0).wait();
     }},
    {"calls_another_count",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(world.rank() == 1 ? 8 : 16);
       world.all_reduce(values).wait();
     }},
    {"is_asked_for_by_ranks_that_poll",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for_ever();
       ddp::Work work = world.barrier();
       while (!work.done()) sleep_for(0.01);
     }},
    {"leaves_a_new_group_out",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for_ever();
       world.new_group(ranks_below(world.size()), "all");
     }},
    {"leaves_a_monitored_barrier_out",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for_ever();
       world.monitored_barrier();
     }},
    {"does_not_come_to_init",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for_ever();
       ddp::init();
     }},
    {"ends_before_a_new_group",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) std::_Exit(0);
       world.new_group(ranks_below(world.size()), "all");
     }},
    {"ends_before_init",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) std::_Exit(0);
       ddp::init();
     }},
    {"leaves_the_thirtieth_group_out",
     [](ddp::ProcessGroup& world) {
       static std::vector<ddp::ProcessGroup> groups;
       for (int i = 0; i < 30; ++i)
         groups.push_back(world.new_group(ranks_below(world.size()), "g" + std::to_string(i)));
       if (world.rank() == 1) sleep_for_ever();
       groups.back().barrier().wait();
     }},
    // Six threads that wait must not look like one that works.
    {"hangs_beside_helpers_that_wait",
     [](ddp::ProcessGroup& world) {
       static std::vector<ddp::ProcessGroup> controls;
       static std::vector<std::vector<float>> commands(6, std::vector<float>(4));
       for (std::size_t i = 0; i < commands.size(); ++i)
         controls.push_back(world.new_group(ranks_below(world.size()), "control" + std::to_string(i)));
       for (std::size_t i = 0; i < commands.size() && world.rank() > 0; ++i)
         std::thread([i] { controls[i].broadcast(commands[i], 0).wait(); }).detach();
       if (world.rank() == 2) sleep_for_ever();
       world.barrier().wait();
     }},
    {"goes_on_past_a_sub_groups_call",
     [](ddp::ProcessGroup& world) {
       // Rank 1 waits for all ranks in the world, and rank 0 waits for rank 1 in the pair.
       if (world.rank() > 1) return;
       static ddp::ProcessGroup pair = world.new_group(ranks_below(2), "pair");
       if (world.rank() == 0) pair.barrier().wait();
     }},
    {"is_a_grid_of_two_by_two",
     [](ddp::ProcessGroup& world) {
       auto rows = world.split(world.rank() / 2);
       auto columns = world.split(world.rank() % 2);
       rows->barrier().wait();
       if (world.rank() == 3) sleep_for_ever();
       columns->barrier().wait();
     }},
    {"uses_two_groups_in_different_orders",
     [](ddp::ProcessGroup& world) {
       if (world.rank() > 1) return;
       ddp::ProcessGroup one = world.new_group(ranks_below(2), "pair");
       ddp::ProcessGroup two = world.new_group(ranks_below(2), "pair");
       (world.rank() == 0 ? one : two).barrier().wait();
       (world.rank() == 0 ? two : one).barrier().wait();
     }},
    {"receives_in_a_circle",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       world.recv(values, (world.rank() + 1) % world.size()).wait();
       world.send(values, (world.rank() + world.size() - 1) % world.size()).wait();
     }},
    {"leaves_a_batch_out",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) sleep_for_ever();
       exchange_in_a_batch(world);
     }},
    {"hangs_within_a_batch",
     [](ddp::ProcessGroup& world) {
       // A call within a batch begins at the end of the batch.
       std::optional<ddp::CollectiveBatch> batch;
       if (world.rank() == 1) batch.emplace(world.batch());
       std::vector<float> values(8);
       ddp::Work work = world.all_reduce(values);
       if (world.rank() == 1) sleep_for_ever();
       work.wait();
     }},
    {"is_a_pipeline_whose_last_stage_hangs",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(1 << 20);
       const int last = world.size() - 1;
       for (int i = 0; i < 50; ++i) {
         if (world.rank() == last && i == 2) sleep_for_ever();
         if (world.rank() > 0) world.recv(values, world.rank() - 1).wait();
         if (world.rank() < last) world.send(values, world.rank() + 1).wait();
       }
     }},
    {"hangs_beside_groups_that_go_on",
     [](ddp::ProcessGroup& world) {
       auto pairs = world.split(world.rank() / 2);
       if (world.rank() == 3) sleep_for_ever();
       for (int i = 0; world.rank() < 2 && i < 100'000; ++i) pairs->barrier().wait();
       pairs->barrier().wait();
     }},
    {"hangs_after_slow_steps",
     [](ddp::ProcessGroup& world) {
       for (int i = 0; i < 9; ++i) {
         sleep_for(1);
         world.barrier().wait();
       }
       if (world.rank() == 1) sleep_for_ever();
     }},
    {"sleeps_with_a_collective_under_way",
     [](ddp::ProcessGroup& world) {
       const std::vector<int> members = {1, 2};
       if (world.rank() == 0) return;
       static ddp::ProcessGroup pair = world.new_group(members, "pair");
       if (world.rank() == 2) return;
       [[maybe_unused]] const ddp::Work under_way = pair.barrier();
       sleep_for_ever();
     }},
    {"receives_in_vain_beside_transfers",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       if (world.rank() == 3) sleep_for_ever();
       if (world.rank() == 2) world.recv(values, 3).wait();
       for (int i = 0; i < 100'000; ++i) {
         if (world.rank() == 0) world.send(values, 1).wait();
         if (world.rank() == 1) world.recv(values, 0).wait();
         sleep_for(0.01);
       }
     }},
    {"receives_what_is_not_sent_before_a_collective",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       if (world.rank() == 0) world.recv(values, 1).wait();
     }},
    {"receives_from_a_rank_that_has_ended",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       if (world.rank() == 1) std::_Exit(0);
       if (world.rank() == 0) world.recv(values, 1).wait();
     }},
};

}  // namespace

std::map<std::string, Action> hanging() {
  return kHanging;
}

}  // namespace zoo
