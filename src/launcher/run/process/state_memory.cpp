#include "launcher/run/process/state_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "launcher/limits.h"
#include "launcher/start/facts/memory_room.h"

namespace ddp::launcher {

wire::KeptState kept_state_of(const wire::StateEntry& entry, int area, int place) {
  return {entry.step, entry.bytes, entry.key, entry.kind, entry.attempt, entry.rank, entry.world, area, place};
}

StateMemory::StateMemory(int areas)
    : areas_(areas), descriptor_(::memfd_create("ddplaunch-states", MFD_CLOEXEC)), file_(descriptor_.get()) {
  // A file that grows beyond the limit ends the launcher by SIGXFSZ.
  const auto size = static_cast<rlim_t>(areas) * wire::kStateAreaBytes;
  rlimit most{};
  ::getrlimit(RLIMIT_FSIZE, &most);
  const bool may_grow = most.rlim_cur == RLIM_INFINITY || most.rlim_cur >= size;
  if (descriptor_ && may_grow && ::ftruncate(descriptor_.get(), static_cast<off_t>(size)) == 0) return;
  areas_ = 0;
  descriptor_.reset();
}

void StateMemory::begin(const wire::RestorePlan& plan) const {
  if (!descriptor_) return;
  file_.hold_request();
  say_room();
  drop_all_but(plan);
  for (const wire::RankRestore& rank : plan.ranks) {
    for (const wire::StatePlace& place : {rank.own, rank.shared}) {
      if (place.area >= 0 && place.area < areas_ && place.place < wire::kStateRecent) pin(place.area, place.place);
    }
  }
}

// A key keeps two places for its whole states, whose memory is used again.
void StateMemory::drop_all_but(const wire::RestorePlan& plan) const {
  constexpr int kSmall = wire::kStateRecent + wire::kStatePinned;
  std::set<std::pair<int, int>> kept;
  std::map<std::uint64_t, int> of_key;
  auto entries = file_.entries(areas_, 0, wire::kStatePlaces);
  for (const auto& [entry, area, place] : std::views::reverse(entries)) {
    const bool is_newer = std::pair(entry.attempt, entry.step) > std::pair(plan.attempt, plan.step);
    if (plan.ranks.empty() || is_newer) continue;
    if (place < kSmall || ++of_key[entry.key] <= wire::kStateWhole) kept.insert({area, place});
  }
  for (int area = 0; area < areas_; ++area) {
    for (int place = 0; place < wire::kStatePlaces; ++place) {
      if (kept.contains({area, place})) continue;
      place < kSmall ? static_cast<void>(file_.clear_entry(area, place)) : file_.drop(area, place);
    }
  }
}

// Copies an entry with its data to the older one of the pinned places.
void StateMemory::pin(int area, int place) const {
  const auto entry = file_.entry(area, place);
  if (!entry || entry->bytes > limits::kOwnStateBytes) return;
  for (int other = wire::kStateRecent; other < wire::kStateRecent + wire::kStatePinned; ++other) {
    const auto pinned = file_.entry(area, other);
    if (pinned && pinned->attempt == entry->attempt && pinned->step == entry->step) return;
  }
  const int to = file_.oldest(area, wire::kStateRecent, wire::kStatePinned);
  std::vector<std::byte> data(entry->bytes);
  const bool is_copied =
      file_.read(area, place, 0, data) && file_.clear_entry(area, to) && file_.write(area, to, 0, data);
  if (is_copied) file_.set_entry(area, to, *entry);
}

void StateMemory::ask() const {
  if (!descriptor_) return;
  say_room();
  file_.give_up_request();
}

void StateMemory::say_room() const {
  const std::uint64_t room = memory_room();
  for (int area = 0; area < areas_; ++area) file_.set_room(area, room);
}

void StateMemory::say_image_time(std::chrono::milliseconds time) const {
  const auto most = std::numeric_limits<std::int32_t>::max();
  const auto milliseconds = static_cast<std::int32_t>(std::min<std::int64_t>(time.count(), most));
  for (int area = 0; area < areas_; ++area) file_.set_image_time(area, milliseconds);
}

bool StateMemory::have_answered(std::span<const int> local_ranks, int attempt) const {
  return std::ranges::all_of(local_ranks, [&](int local_rank) {
    const wire::StateHead head = file_.head(local_rank);
    return head.keeps != attempt + 1 || head.answered == attempt + 1;
  });
}

std::vector<wire::KeptState> StateMemory::kept() const {
  std::vector<wire::KeptState> states;
  for (int area = 0; area < areas_; ++area) {
    for (int place = 0; place < wire::kStatePlaces; ++place) {
      if (const auto entry = file_.entry(area, place)) states.push_back(kept_state_of(*entry, area, place));
    }
  }
  return states;
}

}  // namespace ddp::launcher
