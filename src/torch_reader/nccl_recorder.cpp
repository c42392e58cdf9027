#include "torch_reader/nccl_recorder.h"

#include <algorithm>
#include <utility>

namespace ddp::torch_reader {
namespace {

std::uint64_t count_of(std::int64_t number) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
}

}  // namespace

void NcclRecorder::follow(const Statuses& statuses, const WorkerLines& lines, Time now) {
  for (const auto& [number, status] : statuses) {
    const auto [entry, is_new] = followed_.try_emplace(number, Followed{status, now, lines.groups.size()});
    Followed& followed = entry->second;
    if (is_new || followed.status == status) continue;
    // The numbers of collectives only grow.
    const bool goes_back = status.enqueued < followed.status.enqueued || status.completed < followed.status.completed;
    followed.counts_transfers = followed.counts_transfers || goes_back;
    if (status.completed != followed.status.completed) ++completions_;
    followed.status = status;
    followed.moved_at = now;
    followed.groups_made = lines.groups.size();
  }
}

bool NcclRecorder::add_status(const Statuses& statuses, const WorkerLines& lines, Time now) {
  follow(statuses, lines, now);
  bool all_idle = true;
  bool one_is_still = false;
  for (const auto& [number, followed] : followed_) {
    if (followed.status.is_idle()) continue;
    if (followed.groups_made < lines.groups.size()) return false;
    all_idle = false;
    one_is_still = one_is_still || now >= followed.moved_at + kStill;
  }
  if (all_idle) return statuses != at_fetch_;
  return one_is_still && (!fetched_at_ || now >= *fetched_at_ + kStill);
}

void NcclRecorder::add_entries(std::vector<RecordedGroup> groups, const Statuses& statuses, const WorkerLines& lines,
                               Time now) {
  follow(statuses, lines, now);
  for (const RecordedGroup& group : groups) {
    const auto entry = followed_.find(group.number);
    if (entry == followed_.end()) continue;
    entry->second.identity = group.identity;
    entry->second.counts_transfers = entry->second.counts_transfers || group.has_transfers;
  }
  fetched_ = std::move(groups);
  at_fetch_ = statuses;
  fetched_at_ = now;
}

void NcclRecorder::add_status_to(RecordedGroup& group) const {
  const auto entry =
      std::ranges::find_if(followed_, [&](const auto& one) { return one.second.identity == group.identity; });
  if (entry == followed_.end()) {
    // It has called nothing, unless one of the numbers without a group is its number.
    group.is_current = std::ranges::all_of(followed_, [](const auto& one) { return one.second.identity != 0; });
    return;
  }
  const auto& [number, followed] = *entry;
  if (followed.counts_transfers) {
    const auto before = at_fetch_.find(number);
    group.is_current = before != at_fetch_.end() && before->second == followed.status;
    return;
  }
  group.called = std::max(group.called, count_of(followed.status.enqueued));
  group.finished = std::max(group.finished, std::min(count_of(followed.status.completed), group.called));
}

std::vector<RecordedGroup> NcclRecorder::groups(const WorkerLines& lines) const {
  std::vector<RecordedGroup> result = groups_without_calls(lines, Recorder::nccl);
  for (const RecordedGroup& fetched : fetched_) {
    const auto same_name = [&](const RecordedGroup& group) { return group.line.name == fetched.line.name; };
    const auto found = std::ranges::find_if(result, same_name);
    if (found == result.end()) {
      result.push_back(fetched);
    } else if (found->identity == fetched.identity) {
      *found = fetched;
    }
  }
  for (RecordedGroup& group : result) {
    add_status_to(group);
    // A call that the rank has finished is no reason to wait, even if other ranks called something else.
    for (RecordedCall& call : group.calls) {
      if (call.sequence <= group.finished) call.fingerprint = 0;
    }
  }
  return result;
}

}  // namespace ddp::torch_reader
