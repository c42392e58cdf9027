// In these programs two ranks seem to wait for each other, and something resolves it.

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

const std::map<std::string, Action> kThreads = {
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

std::map<std::string, Action> threads() {
  return kThreads;
}

}  // namespace zoo
