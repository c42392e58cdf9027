#include "torch_reader/page_writer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "wire/call_names.h"
#include "wire/page_phase.h"

namespace ddp::torch_reader {
namespace {

// The time of a sample of a group in which only a background thread waits.
constexpr std::uint64_t kBackground = 1;
constexpr std::uint64_t kLately = 10'000'000'000;  // nanoseconds

template <std::size_t N>
void write_text(std::array<char, N>& to, std::string_view text) {
  to[text.copy(to.data(), N - 1)] = '\0';
}

bool is_unknown(std::string_view operation) {
  return wire::number_of(wire::kOperationNames, operation) == wire::kOperationNames.size();
}

std::string_view shown_name(const GroupLine& line) {
  if (line.ranks.empty()) return "world";
  return line.description.empty() ? line.name : line.description;
}

void write_call(const RecordedCall& call, int own_rank, const Moment& now, wire::PageCall& to) {
  if (to.sequence.load(wire::kRelaxed) == call.sequence && to.fingerprint == call.fingerprint) return;
  to.sequence.store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  to.fingerprint = call.fingerprint;
  to.called_at = on_monotonic(now, call.made_at);
  to.count = call.count;
  to.peer = call.is_root ? own_rank : -1;
  to.line = 0;
  to.operation = wire::number_of(wire::kOperationNames, call.operation);
  to.type = wire::number_of(wire::kTypeNames, call.type);
  to.op = wire::kReductionNames.size();  // the recorder does not record it
  write_text(to.name, is_unknown(call.operation) ? std::string_view(call.operation) : std::string_view());
  to.file[0] = '\0';
  to.sequence.store(call.sequence, std::memory_order_release);
}

bool counts_launches(const wire::PageGroup& group) {
  return group.launches.load(wire::kRelaxed) != static_cast<std::uint64_t>(wire::Launches::none);
}

// Returns the group's entry, or a free one, or null if there is none.
wire::PageGroup* place_of(wire::StatusPageLayout& page, const RecordedGroup& group) {
  std::uint32_t places = std::min<std::uint32_t>(page.places.load(wire::kRelaxed), wire::kPageGroups);
  for (std::size_t i = 0; i < places; ++i) {
    if (page.groups[i].identity == group.identity && !counts_launches(page.groups[i])) return &page.groups[i];
  }
  // The worker may take places for communicators of NCCL at the same time.
  while (places < wire::kPageGroups && !page.places.compare_exchange_weak(places, places + 1)) {
  }
  if (places >= wire::kPageGroups) return nullptr;
  wire::PageGroup& place = page.groups[places];
  place.rank = group.line.rank;
  place.size = group.line.size;
  place.identity = group.identity;
  write_text(place.name, shown_name(group.line));
  place.sampled_at.store(kBackground, wire::kRelaxed);
  place.in_use.store(wire::kPageInUse, std::memory_order_release);
  return &place;
}

bool has_the_runtime(const wire::StatusPageLayout& page) {
  if (page.worlds_entered.load(wire::kRelaxed) > 0) return true;
  return std::ranges::any_of(page.groups, [](const wire::PageGroup& group) {
    return group.in_use.load(wire::kRelaxed) != wire::kPageFree && group.sampled_at.load(wire::kRelaxed) == 0 &&
           !counts_launches(group);
  });
}

// Returns whether the rank has recently called another group's collective after the one that this group has not
// finished. A background thread then waits in this group, and no other rank waits for it.
bool is_in_background(const RecordedGroup& group, std::span<const RecordedGroup> groups, const Moment& now) {
  if (group.called == group.finished) return false;
  const auto first = std::ranges::find(group.calls, group.finished + 1, &RecordedCall::sequence);
  if (first == group.calls.end()) return false;
  return std::ranges::any_of(groups, [&](const RecordedGroup& other) {
    if (&other == &group || other.calls.empty()) return false;
    const std::uint64_t latest = other.calls.back().made_at;
    return other.finished > 0 && latest > first->made_at && latest + kLately > now.realtime;
  });
}

}  // namespace

bool write_to_page(wire::StatusPageLayout& page, int pid, std::span<const RecordedGroup> groups, const Moment& now,
                   bool is_last) {
  std::int32_t writer = 0;
  const bool is_its_own = page.writer.compare_exchange_strong(writer, pid) || writer == pid;
  if (!is_its_own || has_the_runtime(page)) return false;
  std::uint32_t not_shown = 0;
  for (const RecordedGroup& group : groups) {
    wire::PageGroup* const place = place_of(page, group);
    if (place == nullptr) {
      ++not_shown;
      continue;
    }
    if (!group.is_current) continue;
    const std::size_t shown = std::min(group.calls.size(), wire::kPageCalls);
    for (const RecordedCall& call : std::span(group.calls).last(shown)) {
      write_call(call, group.line.rank, now, place->calls[(call.sequence - 1) % wire::kPageCalls]);
    }
    // A finished call was called before, so readers read in the opposite order.
    place->called.store(group.called, std::memory_order_release);
    place->started.store(group.called, std::memory_order_release);
    place->finished.store(group.finished, std::memory_order_release);
    if (group.recorder == Recorder::nccl) {
      // The recorder does not show what the GPU has started.
      place->gpu_queued.store(group.called, std::memory_order_release);
      place->gpu_started.store(group.finished, std::memory_order_release);
      place->gpu_finished.store(group.finished, std::memory_order_release);
    }
    const bool is_waited_in = !is_in_background(group, groups, now);
    const std::uint64_t sampled_at = is_waited_in ? now.monotonic : kBackground;
    place->sampled_at.store(is_last ? wire::kSampledAtEnd : sampled_at, std::memory_order_release);
  }
  page.groups_not_shown.store(not_shown, wire::kRelaxed);
  const bool shows_nccl = std::ranges::any_of(
      groups, [](const RecordedGroup& group) { return group.recorder == Recorder::nccl && group.called > 0; });
  if (shows_nccl) page.records_launches.store(1, wire::kRelaxed);
  const bool has_called = std::ranges::any_of(groups, [](const RecordedGroup& group) { return group.called > 0; });
  if (has_called) wire::begin_training(page, now.monotonic);
  return true;
}

void write_counters(wire::StatusPageLayout& page, std::uint64_t identity, const RecordedCall& call,
                    std::uint64_t finished, const Moment& now) {
  const auto place = std::ranges::find(page.groups, identity, &wire::PageGroup::identity);
  if (place == page.groups.end()) return;
  const std::uint64_t sampled_at = place->sampled_at.load(wire::kRelaxed);
  if (sampled_at <= kBackground || sampled_at == wire::kSampledAtEnd) return;
  if (call.sequence < place->called.load(wire::kRelaxed) || finished < place->finished.load(wire::kRelaxed)) return;
  wire::PageCall& shown = place->calls[(call.sequence - 1) % wire::kPageCalls];
  if (shown.sequence.load(wire::kRelaxed) != call.sequence) write_call(call, place->rank, now, shown);
  place->called.store(call.sequence, std::memory_order_release);
  place->started.store(call.sequence, std::memory_order_release);
  place->finished.store(finished, std::memory_order_release);
  place->followed_until.store(now.monotonic, std::memory_order_release);
  place->sampled_at.store(now.monotonic, std::memory_order_release);
}

}  // namespace ddp::torch_reader
