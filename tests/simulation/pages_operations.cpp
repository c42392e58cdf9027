// Writes operations of groups into the scripts of the ranks, in the order in which the runtime writes the page.
#include <algorithm>
#include <utility>

#include "simulation/pages_world.h"

namespace ddp::test {

using namespace launcher;
using namespace std::chrono_literals;
using Nanoseconds = std::chrono::nanoseconds;

namespace {

constexpr std::size_t kCalls = 16;     // calls that a page shows
constexpr std::size_t kTransfers = 8;  // transfers that a page shows

constexpr Nanoseconds kMost = 1h;

void sort_transfers(GroupView& group) {
  std::ranges::sort(group.transfers, [](const TransferView& a, const TransferView& b) {
    return std::pair(a.is_done, a.called_at) < std::pair(b.is_done, b.called_at);
  });
}

// Returns the members that have not come.
std::vector<int> missing(const std::vector<int>& members, const std::set<int>& came) {
  std::vector<int> result;
  std::ranges::set_difference(members, came, std::back_inserter(result));
  return result;
}

}  // namespace

void PagesWorld::add_call(int rank, const GroupPointer& group, const OperationPointer& operation, bool begins) {
  count_calling(rank, group->layer);
  write(rank, group->layer, [this, rank, group, operation] {
    auto& calls = *calls_on(rank, *group);
    if (calls.size() == kCalls) calls.erase(calls.begin());
    const std::string what = "all_reduce sum f32[" + std::to_string(operation->fingerprint % 100) + "]";
    calls.push_back({operation->sequence, operation->fingerprint, static_cast<std::uint64_t>(now_.count()), what});
  });
  write(rank, group->layer, [this, rank, group, operation, begins] {
    group_on(rank, *group)->called = operation->sequence;
    if (begins) operation->begun.insert(rank);
    add_run(rank, group, operation);
  });
}

// Returns the ranks for which the operation waits. If the root of a broadcast is late, the others may wait for any
// rank.
std::vector<int> PagesWorld::late_for(const Operation& operation, const Group& group) {
  if (operation.is_rooted && operation.begun.contains(operation.root)) return {};
  return missing(group.members, operation.begun);
}

// The group's thread runs the operation. The operation is done once its continuations have run.
void PagesWorld::add_run(int rank, const GroupPointer& group, const OperationPointer& operation) {
  std::deque<PageStep>& steps = threads_[group->threads[rank]].steps;
  steps.push_back(
      {.awaits = [rank, group] { return group->holds.contains(rank) ? std::vector{rank} : std::vector<int>(); }});
  steps.push_back({.write = [this, rank, group, operation] {
    operation->begun.insert(rank);
    group_on(rank, *group)->started = operation->sequence;
  }});
  const bool is_root = operation->is_rooted && operation->root == rank;
  if (!is_root) {
    steps.push_back({.awaits = [operation, group] { return late_for(*operation, *group); }});
    steps.push_back({.pause = operation->takes, .kind = PageStep::Pause::move});
  }
  steps.push_back(
      {.write = [this, rank, group, operation] { group_on(rank, *group)->finished = operation->sequence; }});
  if (chance(0.2)) {
    const bool is_waiters = operation->waits.contains(rank);
    const auto count = [this, rank, is_waiters](int by) {
      (is_waiters ? page(rank).waiting_threads : page(rank).continuations) += is_waiters ? -by : by;
    };
    steps.push_back({.write = [count] { count(1); }});
    steps.push_back({.pause = std::max<Nanoseconds>(some_pause(), 300ms),
                     .kind = chance(0.5) ? PageStep::Pause::sleep : PageStep::Pause::compute});
    steps.push_back({.write = [count] { count(-1); }});
  }
  steps.push_back({.write = [rank, operation] { operation->done.insert(rank); }});
}

void PagesWorld::add_wait(int rank, const GroupPointer& group, const OperationPointer& operation) {
  const std::size_t layer = group->layer;
  const auto awaits = [rank, group, operation] {
    if (operation->done.contains(rank)) return std::vector<int>();
    const bool is_root = operation->is_rooted && operation->root == rank;
    const std::vector<int> late = is_root ? std::vector<int>() : late_for(*operation, *group);
    return late.empty() ? std::vector{rank} : late;
  };
  if (chance(0.15)) {
    thread(rank, layer).steps.push_back({.awaits = awaits, .poll = chance(0.5) ? 1s : between(1s, 4900ms)});
    return;
  }
  const bool blocks = chance(0.8);
  const auto is_waiting = std::make_shared<bool>(false);
  const auto count = [this, rank, operation, is_waiting](int by, auto to) {
    // A thread does not wait for an operation that is done.
    if (by > 0 ? !operation->done.contains(rank) || *is_waiting : *is_waiting) to(by);
  };
  const auto add = [&](int by, auto to) { write(rank, layer, [count, by, to] { count(by, to); }); };
  add(1, [this, rank, operation, is_waiting](int by) {
    *is_waiting = true;
    operation->waits.insert(rank);
    page(rank).waiting_threads += by;
  });
  const auto in_group = [this, rank, group](int by) { group_on(rank, *group)->blocked += by; };
  const auto on_page = [this, rank, tid = thread(rank, layer).tid](int by) {
    if (by > 0) page(rank).blocked_thread = tid;
    page(rank).blocked_threads += by;
  };
  if (blocks) add(1, in_group);
  if (blocks) add(1, on_page);
  thread(rank, layer).steps.push_back({.awaits = awaits, .is_private = chance(0.7)});
  add(-1, [this, rank, operation](int by) {
    operation->waits.erase(rank);
    page(rank).waiting_threads += by;
  });
  if (blocks) add(-1, in_group);
  if (blocks) add(-1, on_page);
}

PagesWorld::OperationPointer PagesWorld::make_operation(const GroupPointer& group) {
  auto operation = std::make_shared<Operation>();
  operation->sequence = ++group->calls;
  operation->is_rooted = chance(0.2);
  operation->root = group->members[below(group->members.size())];
  // The data of a broadcast moves for less than the limit, because ranks that are not needed may rest meanwhile.
  const bool is_limited = plan_.hang.timeout || operation->is_rooted;
  operation->takes = chance(0.8) ? between(1us, 10ms) : std::min(some_pause(), is_limited ? plan_.limit / 2 : kMost);
  operation->fingerprint = random_();
  return operation;
}

void PagesWorld::wait_later(int rank, const GroupPointer& group, const OperationPointer& operation) {
  later_[{rank, group->layer}].push_back([this, rank, group, operation] { add_wait(rank, group, operation); });
}

void PagesWorld::add_collective(const GroupPointer& group) {
  const OperationPointer operation = make_operation(group);
  for (const int rank : group->members) {
    if (chance(0.5)) add_pause(rank, group->layer);
    add_call(rank, group, operation, chance(0.5));
    if (chance(0.6)) {
      add_wait(rank, group, operation);
    } else {
      wait_later(rank, group, operation);
    }
  }
}

// A rank calls several operations and holds them back, while others may call them one by one.
void PagesWorld::add_batch(const GroupPointer& group) {
  const OperationPointer operations[] = {make_operation(group), make_operation(group)};
  for (const int rank : group->members) {
    const bool holds = chance(0.6);
    if (holds) {
      finish_waits(rank, group->layer);
      write(rank, group->layer, [group, rank] { group->holds.insert(rank); });
    }
    for (const OperationPointer& operation : operations) {
      if (chance(0.4)) add_pause(rank, group->layer);
      add_call(rank, group, operation, false);
    }
    if (holds) write(rank, group->layer, [group, rank] { group->holds.erase(rank); });
    for (const OperationPointer& operation : operations) wait_later(rank, group, operation);
  }
}

void PagesWorld::add_transfer(const GroupPointer& group) {
  const auto& members = group->members;
  const std::size_t from = below(members.size());
  const std::size_t to = (from + 1 + below(members.size() - 1)) % members.size();
  const std::uint64_t number = ++group->transfers[{static_cast<int>(from), static_cast<int>(to)}];
  const auto operation = std::make_shared<Operation>();
  operation->sequence = number;
  operation->takes = between(1us, 2s);
  for (const bool is_send : {true, false}) {
    const std::size_t own = is_send ? from : to;
    if (chance(0.5)) add_pause(members[own], group->layer);
    add_transfer_side(group, members[own], static_cast<int>(is_send ? to : from), is_send, operation);
  }
}

void PagesWorld::add_transfer_side(const GroupPointer& group, int own, int peer, bool is_send,
                                   const OperationPointer& operation) {
  const std::size_t layer = group->layer;
  const int other = group->members[static_cast<std::size_t>(peer)];
  const auto place = [this, group, own, peer, is_send, operation]() -> TransferView* {
    GroupView* const shown = group_on(own, *group);
    const auto found = std::ranges::find_if(shown->transfers, [&](const TransferView& one) {
      return one.is_send == is_send && one.peer == peer && one.number == operation->sequence;
    });
    return found == shown->transfers.end() ? nullptr : &*found;
  };
  count_calling(own, layer);
  write(own, layer, [this, group, own, peer, is_send, operation] {
    GroupView& shown = *group_on(own, *group);
    ++shown.transfers_called;
    operation->begun.insert(own);
    if (shown.transfers.size() == kTransfers) {
      auto oldest = shown.transfers.end();
      for (auto one = shown.transfers.begin(); one != shown.transfers.end(); ++one) {
        const bool is_free = one->is_done && !one->is_waited_for;
        if (is_free && (oldest == shown.transfers.end() || one->called_at < oldest->called_at)) oldest = one;
      }
      if (oldest == shown.transfers.end()) return;
      shown.transfers.erase(oldest);
    }
    shown.transfers.push_back(
        {is_send, peer, operation->sequence, false, false, static_cast<std::uint64_t>(now_.count()), "f32[8]"});
    sort_transfers(shown);
  });
  // A thread of its own runs the transfer.
  const std::size_t lane = threads_.size();
  threads_.push_back({.rank = own, .is_runtime = true});
  threads_[lane].steps = {
      {.awaits =
           [operation, own, other] {
             return missing(own < other ? std::vector{own, other} : std::vector{other, own}, operation->begun);
           }},
      {.pause = operation->takes, .kind = PageStep::Pause::move},
      {.write =
           [this, group, own, place] {
             if (TransferView* const shown = place()) shown->is_done = true;
             sort_transfers(*group_on(own, *group));
           }},
      {.write =
           [this, group, own, operation] {
             ++group_on(own, *group)->transfers_finished;
             operation->done.insert(own);
           }},
  };
  const bool blocks = chance(0.8);
  auto wait = [this, group, own, other, place, operation, layer, blocks] {
    const auto is_waiting = std::make_shared<bool>(false);
    const auto begin = [&](auto to) {
      write(own, layer, [is_waiting, operation, own, to] {
        if (*is_waiting || !operation->done.contains(own)) to();
      });
    };
    const auto end = [&](auto to) {
      write(own, layer, [is_waiting, to] {
        if (*is_waiting) to();
      });
    };
    begin([this, own, is_waiting] {
      *is_waiting = true;
      ++page(own).waiting_threads;
    });
    const auto is_shown = std::make_shared<bool>(false);
    begin([place, is_shown] {
      TransferView* const shown = place();
      *is_shown = shown != nullptr;
      if (shown != nullptr) shown->is_waited_for = true;
    });
    if (blocks) {
      begin([this, own, is_shown, tid = thread(own, layer).tid] {
        if (!*is_shown) return;
        page(own).blocked_thread = tid;
        ++page(own).blocked_threads;
      });
    }
    thread(own, layer)
        .steps.push_back({.awaits =
                              [operation, own, other] {
                                if (operation->done.contains(own)) return std::vector<int>();
                                return std::vector{operation->begun.contains(other) ? own : other};
                              },
                          .is_private = chance(0.7)});
    end([this, own] { --page(own).waiting_threads; });
    end([place] {
      if (TransferView* const shown = place()) shown->is_waited_for = false;
    });
    if (blocks) {
      end([this, own, is_shown] {
        if (*is_shown) --page(own).blocked_threads;
      });
    }
  };
  if (chance(0.5)) return wait();
  later_[{own, layer}].push_back(std::move(wait));
}

}  // namespace ddp::test
