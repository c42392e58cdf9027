// Writes the scripts of the ranks. The operations of a layer (the threads with the same number) are in one order for
// all ranks, so that a job without a fault never hangs.
#include <algorithm>
#include <utility>

#include "simulation/pages_world.h"

namespace ddp::test {

using namespace launcher;
using namespace std::chrono_literals;
using Nanoseconds = std::chrono::nanoseconds;

namespace {

// Returns the members that have not come.
std::vector<int> missing(const std::vector<int>& members, const std::set<int>& came) {
  std::vector<int> result;
  std::ranges::set_difference(members, came, std::back_inserter(result));
  return result;
}

}  // namespace

Nanoseconds PagesWorld::some_pause() {
  switch (below(10)) {
    case 0:
    case 1:
    case 2:
      return between(1us, 100ms);
    case 3:
    case 4:
    case 5:
      return between(100ms, 6s);
    case 6:
    case 7:
      return between(1s, plan_.limit);
    default:
      return between(plan_.limit, 3 * plan_.limit);
  }
}

void PagesWorld::add_pause(int rank, std::size_t layer) {
  const auto kind = chance(0.5) ? PageStep::Pause::sleep : PageStep::Pause::compute;
  // A moment of work is no sign of life.
  const Nanoseconds least = kind == PageStep::Pause::compute ? 300ms : 1us;
  thread(rank, layer).steps.push_back({.pause = std::max(some_pause(), least), .kind = kind});
}

PagesWorld::GroupPointer PagesWorld::make_group(std::vector<int> members, std::string name, std::size_t layer) {
  auto group = std::make_shared<Group>();
  group->identity = next_identity_++;
  group->name = std::move(name);
  group->members = std::move(members);
  group->layer = layer;
  for (const int rank : group->members) {
    group->threads[rank] = threads_.size();
    threads_.push_back({.rank = rank, .is_runtime = true});
  }
  return group;
}

void PagesWorld::enter_group(int rank, const GroupPointer& group) {
  write(rank, 0, [this, rank, group] {
    GroupView entry;
    entry.name = group->name;
    entry.identity = group->identity;
    entry.size = static_cast<int>(group->members.size());
    entry.rank = static_cast<int>(std::ranges::find(group->members, rank) - group->members.begin());
    std::set<int> places;
    for (const GroupView& other : page(rank).groups) places.insert(other.place);
    while (places.contains(entry.place)) ++entry.place;
    const auto at = std::ranges::find_if(page(rank).groups, [&](const auto& one) { return one.place > entry.place; });
    view(rank).calls.insert(view(rank).calls.begin() + (at - page(rank).groups.begin()), std::vector<CallView>());
    page(rank).groups.insert(at, std::move(entry));
  });
}

void PagesWorld::count_calling(int rank, std::size_t layer) {
  write(rank, layer, [this, rank, layer] {
    page(rank).calling_threads += thread(rank, layer).has_called ? 0 : 1;
    thread(rank, layer).has_called = true;
  });
}

// ThreadWaits: a thread waits outside of any operation.
void PagesWorld::add_meeting_wait(int rank, std::size_t layer, std::function<std::vector<int>()> awaits) {
  count_calling(rank, layer);
  write(rank, layer, [this, rank] { ++page(rank).waiting_threads; });
  thread(rank, layer).steps.push_back({.awaits = std::move(awaits)});
  write(rank, layer, [this, rank] { --page(rank).waiting_threads; });
}

void PagesWorld::add_meeting(const std::vector<int>& members, std::size_t layer) {
  const auto came = std::make_shared<std::set<int>>();
  for (const int rank : members) {
    write(rank, layer, [came, rank] { came->insert(rank); });
    add_meeting_wait(rank, layer, [came, members] { return missing(members, *came); });
  }
}

void PagesWorld::enter_phase(int rank, std::size_t layer, launcher::RankPhase phase) {
  write(rank, layer, [this, rank, phase] {
    page(rank).phase = phase;
    page(rank).phase_since = static_cast<std::uint64_t>(now_.count());
  });
}

// init(), in the order of bootstrap.cpp.
void PagesWorld::add_init() {
  std::vector<int> all;
  for (const PagesRank& rank : ranks_) all.push_back(rank.view.rank);
  for (const int rank : all) {
    if (chance(0.5)) add_pause(rank, 0);
    enter_phase(rank, 0, launcher::RankPhase::starting);
    enter_phase(rank, 0, launcher::RankPhase::connected);
    write(rank, 0, [this, rank] { ++page(rank).worlds_entered; });
    write(rank, 0, [this, rank, size = static_cast<int>(all.size())] { page(rank).awaited_world = size; });
  }
  const auto identity = std::make_shared<std::set<int>>();
  write(0, 0, [identity] { identity->insert(0); });
  for (const int rank : all) {
    add_meeting_wait(rank, 0, [identity] { return missing({0}, *identity); });
    enter_phase(rank, 0, launcher::RankPhase::rendezvous);
  }
  add_meeting(all, 0);
  for (const int rank : all) {
    write(rank, 0, [this, rank] { page(rank).awaited_world = 0; });
    enter_phase(rank, 0, launcher::RankPhase::set_up);
  }
  add_meeting(all, 0);
  const GroupPointer world = make_group(all, "world", 0);
  for (const int rank : all) {
    enter_group(rank, world);
    enter_phase(rank, 0, launcher::RankPhase::training);
  }
  groups_[0].push_back(world);
}

// new_group(): the ranks meet, connect, and show the group. Threads of the layer use it later.
void PagesWorld::add_new_group(std::size_t layer) {
  std::vector<int> members;
  for (const PagesRank& rank : ranks_) {
    const int number = rank.view.rank;
    if (!exited_.contains(number) && chance(0.7)) members.push_back(number);
  }
  if (members.size() < 2) return;
  for (const int rank : members) {
    if (chance(0.5)) add_pause(rank, 0);
  }
  add_meeting(members, 0);
  const GroupPointer group = make_group(members, "g" + std::to_string(next_identity_), layer);
  for (const int rank : members) {
    if (chance(0.3)) thread(rank, 0).steps.push_back({.pause = between(1ms, 2s)});
    enter_group(rank, group);
    if (layer == 0) continue;
    thread(rank, layer)
        .steps.push_back(
            {.awaits = [this, rank,
                        group] { return group_on(rank, *group) == nullptr ? std::vector{rank} : std::vector<int>(); },
             .is_private = true,
             .is_own_doing = true});
  }
  groups_[layer].push_back(group);
}

// The rank destroys its group.
void PagesWorld::add_leave(const GroupPointer& group) {
  for (const int rank : group->members) {
    finish_waits(rank, group->layer);
    write(rank, group->layer, [this, rank, group] { group_on(rank, *group)->is_left = true; });
  }
  std::erase(groups_[group->layer], group);
}

// monitored_barrier(): rank 0 of the group waits for all, and the others for rank 0.
void PagesWorld::add_barrier(const GroupPointer& group) {
  const auto came = std::make_shared<std::set<int>>();
  const auto all_came = std::make_shared<std::set<int>>();
  const int root = group->members.front();
  for (const int rank : group->members) {
    write(rank, group->layer, [came, rank] { came->insert(rank); });
    if (rank == root) {
      add_meeting_wait(rank, group->layer, [came, members = group->members] { return missing(members, *came); });
      write(rank, group->layer, [all_came, root] { all_came->insert(root); });
    } else {
      add_meeting_wait(rank, group->layer, [all_came, came, root, members = group->members] {
        if (!all_came->empty()) return std::vector<int>();
        const std::vector<int> late = missing(members, *came);
        return late.empty() ? std::vector{root} : late;
      });
    }
    write(rank, group->layer, [this, rank] { ++page(rank).other_progress; });
  }
}

void PagesWorld::add_sign(int rank, std::size_t layer) {
  switch (below(4)) {
    case 0:
      return write(rank, layer, [this, rank] { ++page(rank).steps; });
    case 1:
      return write(rank, layer, [this, rank] { ++page(rank).other_progress; });
    case 2:
      return enter_phase(rank, layer, chance(0.5) ? launcher::RankPhase::checkpoint : launcher::RankPhase::training);
    default:
      return write(rank, layer, [this, rank, time = some_pause()] {
        const auto until = static_cast<std::uint64_t>((now_ + time).count());
        page(rank).more_time_until = std::max(page(rank).more_time_until, until);
      });
  }
}

void PagesWorld::finish_waits(int rank, std::size_t layer) {
  for (const auto& wait : std::exchange(later_[{rank, layer}], {})) wait();
}

// The rank exits. It may destroy its groups before.
void PagesWorld::add_exit(int rank, bool destroys) {
  finish_waits(rank, 0);
  exited_.insert(rank);
  if (chance(0.5)) add_pause(rank, 0);
  if (layer_threads_.size() > 1) {
    thread(rank, 0).steps.push_back(
        {.awaits = [this, rank] { return thread(rank, 1).is_over ? std::vector<int>() : std::vector{rank}; },
         .is_private = true,
         .is_own_doing = true});
  }
  if (destroys) {
    write(rank, 0, [this, rank] {
      for (GroupView& group : page(rank).groups) group.is_left = true;
    });
  }
  write(rank, 0, [this, rank] { view(rank).has_ended = true; });
}

void PagesWorld::add_operation(std::size_t layer) {
  std::vector<GroupPointer> usable;
  for (const GroupPointer& group : groups_[layer]) {
    if (std::ranges::none_of(group->members, [&](int rank) { return exited_.contains(rank); })) usable.push_back(group);
  }
  if (usable.empty()) return;
  const GroupPointer group = usable[below(usable.size())];
  switch (below(10)) {
    case 0:
      return add_barrier(group);
    case 1:
      return add_batch(group);
    case 2:
    case 3:
      return add_transfer(group);
    case 4:
      if (layer == 0 && group->name != "world" && chance(0.3)) return add_leave(group);
      if (layer == 0 && chance(0.5)) return add_new_group(0);
      [[fallthrough]];
    default:
      return add_collective(group);
  }
}

void PagesWorld::write_script(std::size_t layer, int operations) {
  for (int i = 0; i < operations; ++i) {
    add_operation(layer);
    for (const PagesRank& rank : ranks_) {
      const int number = rank.view.rank;
      if (exited_.contains(number)) continue;
      if (chance(0.2)) add_sign(number, layer);
      if (chance(0.2)) add_pause(number, layer);
      if (chance(0.3)) finish_waits(number, layer);
      const bool may_exit = layer == 0 && layer_threads_.size() == 1;
      if (may_exit && chance(0.05)) add_exit(number, chance(0.5));
    }
  }
  for (const PagesRank& rank : ranks_) finish_waits(rank.view.rank, layer);
}

void PagesWorld::write_scripts() {
  const std::size_t layers = chance(0.6) ? 1 : 2;
  layer_threads_.resize(layers);
  groups_.resize(layers);
  for (auto& layer : layer_threads_) {
    for (const PagesRank& rank : ranks_) {
      layer.push_back(threads_.size());
      threads_.push_back({.rank = rank.view.rank, .tid = static_cast<int>(1000 + threads_.size())});
    }
  }
  add_init();
  if (layers > 1) add_new_group(1);
  if (chance(0.7)) add_new_group(0);
  write_script(0, static_cast<int>(2 + below(12)));
  if (layers > 1 && !groups_[1].empty()) write_script(1, static_cast<int>(1 + below(6)));
  for (const PagesRank& rank : ranks_) {
    if (!exited_.contains(rank.view.rank)) add_exit(rank.view.rank, chance(0.7));
  }
  for (Thread& thread : threads_) {
    if (!thread.is_runtime && thread.steps.empty()) thread.is_over = true;
  }
}

}  // namespace ddp::test
