// In these programs the ranks end at different times around a collective, or a rank ends without its part of one.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "zoo/zoo.h"

namespace zoo {
namespace {

constexpr std::size_t kCount = 24;

// Takes part in an operation of a group, as every rank of it does.
using Part = std::function<void(const ddp::ProcessGroup& group)>;

// The ranks pass values around, the first one begins.
void pass_on(const ddp::ProcessGroup& group) {
  std::vector<float> values(kCount);
  if (group.rank() > 0) group.recv(values, group.rank() - 1).wait();
  if (group.rank() + 1 < group.size()) group.send(values, group.rank() + 1).wait();
}

const std::map<std::string, Part> kParts = {
    {"all_reduce",
     [](const ddp::ProcessGroup& group) {
       std::vector<float> values(kCount);
       group.all_reduce(values).wait();
     }},
    {"broadcast",
     [](const ddp::ProcessGroup& group) {
       std::vector<float> values(kCount);
       group.broadcast(values, 0).wait();
     }},
    {"reduce",
     [](const ddp::ProcessGroup& group) {
       std::vector<float> values(kCount);
       group.reduce(values, 0).wait();
     }},
    {"gather",
     [](const ddp::ProcessGroup& group) {
       const std::vector<float> part(kCount);
       std::vector<float> all(group.rank() == 0 ? kCount * static_cast<std::size_t>(group.size()) : 0);
       group.gather(all, part, 0).wait();
     }},
    {"scatter",
     [](const ddp::ProcessGroup& group) {
       std::vector<float> part(kCount);
       const std::vector<float> all(group.rank() == 0 ? kCount * static_cast<std::size_t>(group.size()) : 0);
       group.scatter(part, all, 0).wait();
     }},
    {"all_gather",
     [](const ddp::ProcessGroup& group) {
       const std::vector<float> part(kCount);
       std::vector<float> all(kCount * static_cast<std::size_t>(group.size()));
       group.all_gather(all, part).wait();
     }},
    {"reduce_scatter",
     [](const ddp::ProcessGroup& group) {
       std::vector<float> part(kCount);
       const std::vector<float> all(kCount * static_cast<std::size_t>(group.size()));
       group.reduce_scatter(part, all).wait();
     }},
    {"all_to_all",
     [](const ddp::ProcessGroup& group) {
       const std::vector<float> from(kCount * static_cast<std::size_t>(group.size()));
       std::vector<float> to(from.size());
       group.all_to_all(to, from).wait();
     }},
    {"barrier", [](const ddp::ProcessGroup& group) { group.barrier().wait(); }},
    {"send", pass_on},
};

[[noreturn]] void leave(const ddp::ProcessGroup& world) {
  if (world.rank() == 0) std::puts("done");
  std::fflush(stdout);
  std::_Exit(0);
}

// Rank 2 ends as soon as it has done its part. Rank 1 comes late, and later to an operation with rank 0 alone.
void end_one_by_one(const Part& take_part, const ddp::ProcessGroup& world) {
  const auto pair = world.split(world.rank() / 2);
  if (world.rank() == 1) sleep_for(kIdleSeconds);
  take_part(world);
  if (world.rank() == 2) leave(world);
  if (world.rank() == 1) sleep_for(kIdleSeconds);
  take_part(*pair);
  if (world.rank() == 1) sleep_for(2);
  leave(world);
}

}  // namespace

std::map<std::string, Action> ends() {
  std::map<std::string, Action> actions;
  for (const auto& [operation, take_part] : kParts) {
    actions["ends_one_by_one_after_" + operation] = [part = take_part](ddp::ProcessGroup& world) {
      end_one_by_one(part, world);
    };
    actions["ends_without_" + operation] = [part = take_part](ddp::ProcessGroup& world) {
      if (world.rank() == 1) leave(world);
      part(world);
    };
  }
  return actions;
}

}  // namespace zoo
