// In these programs, collectives, sends and receives cannot match.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "zoo/zoo.h"

namespace zoo {
namespace {

std::vector<int> ranks_below(int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

const std::map<std::string, Action> kMismatched = {
    {"ends_early", of_rank_one([] { std::_Exit(0); })},
    {"leaves_and_ends_early",
     [](ddp::ProcessGroup& world) {
       if (world.rank() != 1) return;
       std::exit(0);  // NOLINT(concurrency-mt-unsafe)
     }},
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
    {"calls_another_type",
     [](ddp::ProcessGroup& world) {
       std::vector<double> doubles(8);
       std::vector<float> floats(8);
       world.rank() == 1 ? world.all_reduce(doubles).wait() : world.all_reduce(floats).wait();
     }},
    {"has_another_root",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       world.broadcast(values, world.rank() == 1 ? 1 : 0).wait();
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
    {"ends_before_a_monitored_barrier",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) std::_Exit(0);
       world.monitored_barrier();
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
    {"leaves_a_sub_groups_call_out",
     [](ddp::ProcessGroup& world) {
       if (world.rank() > 1) return;
       ddp::ProcessGroup pair = world.new_group(ranks_below(2), "pair");
       if (world.rank() == 0) pair.barrier().wait();
       if (world.rank() == 1) sleep_for_ever();
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
    {"is_a_grid_of_two_by_two_by_two",
     [](ddp::ProcessGroup& world) {
       auto x = world.split(world.rank() / 2);
       auto y = world.split(world.rank() % 2 + 2 * (world.rank() / 4));
       auto z = world.split(world.rank() % 4);
       x->barrier().wait();
       y->barrier().wait();
       if (world.rank() == 5) sleep_for_ever();
       z->barrier().wait();
     }},
    {"uses_two_groups_in_different_orders",
     [](ddp::ProcessGroup& world) {
       if (world.rank() > 1) return;
       ddp::ProcessGroup one = world.new_group(ranks_below(2), "pair");
       ddp::ProcessGroup two = world.new_group(ranks_below(2), "pair");
       (world.rank() == 0 ? one : two).barrier().wait();
       (world.rank() == 0 ? two : one).barrier().wait();
     }},
    {"uses_three_groups_in_a_circle",
     [](ddp::ProcessGroup& world) {
       if (world.rank() > 2) return;
       const std::vector<std::vector<int>> pairs = {{0, 1}, {1, 2}, {0, 2}};
       std::vector<std::optional<ddp::ProcessGroup>> groups(3);
       for (std::size_t i = 0; i < 3; ++i) {
         if (world.rank() == pairs[i][0] || world.rank() == pairs[i][1]) {
           groups[i].emplace(world.new_group(pairs[i], "pair " + std::to_string(i)));
         }
       }
       // Rank 0 waits for rank 1, rank 1 for rank 2, and rank 2 for rank 0.
       constexpr std::array<std::size_t, 3> kFirst = {0, 1, 2};
       groups[kFirst[static_cast<std::size_t>(world.rank())]]->barrier().wait();
     }},
    {"receives_from_each_other",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       if (world.rank() < 2) world.recv(values, 1 - world.rank()).wait();
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
    {"is_a_pipeline_whose_first_stage_hangs",
     [](ddp::ProcessGroup& world) {
       std::vector<float> values(8);
       if (world.rank() == 0) sleep_for_ever();
       world.recv(values, world.rank() - 1).wait();
       if (world.rank() + 1 < world.size()) world.send(values, world.rank() + 1).wait();
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

std::map<std::string, Action> mismatched() {
  return kMismatched;
}

}  // namespace zoo
