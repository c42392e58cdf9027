#include "torch_reader/call_times.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace ddp::torch_reader {
namespace {

// PyTorch's recorder holds 2000 calls unless the user sets another number.
constexpr std::size_t kKeptCalls = 4096;
constexpr std::size_t kOpenCalls = 4096;
constexpr std::size_t kGroups = 4096;

}  // namespace

void CallTimes::Unmap::operator()(const wire::CallTimesLayout* memory) const {
  ::munmap(const_cast<wire::CallTimesLayout*>(memory), sizeof *memory);
}

void CallTimes::open(const std::string& path) {
  if (memory_) return;
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  const auto bytes = static_cast<off_t>(sizeof(wire::CallTimesLayout));
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size != bytes) return;
  void* const memory = ::mmap(nullptr, sizeof(wire::CallTimesLayout), PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  memory_.reset(static_cast<const wire::CallTimesLayout*>(memory));
  if (memory_->magic != wire::kCallTimesMagic || memory_->version != wire::kCallTimesVersion) memory_.reset();
}

bool CallTimes::read() {
  if (!memory_) return false;
  const std::uint64_t claimed = memory_->claimed.load(std::memory_order_acquire);
  if (claimed > next_ + wire::kCallTimes) {
    next_ = claimed - wire::kCallTimes;
    open_.clear();
    groups_.clear();
  }
  for (; next_ < claimed; ++next_) {
    const wire::CallTime& entry = memory_->times[next_ % wire::kCallTimes];
    if (entry.number.load(std::memory_order_acquire) < next_ + 1) break;  // it is being written, and is read later
    const Time time{entry.at, entry.work, entry.group, entry.sequence};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.number.load(std::memory_order_relaxed) == next_ + 1) take(time);  // otherwise it was overwritten
  }
  return true;
}

void CallTimes::take(const Time& time) {
  if (time.group == 0) {
    const auto begun = open_.find(time.work);
    if (begun == open_.end()) return;
    auto& calls = groups_[begun->second.group].calls;
    const auto call = calls.find(begun->second.sequence);
    if (call != calls.end()) call->second.ended_at = std::max(time.at, call->second.begun_at);
    open_.erase(begun);
    return;
  }
  if (time.work == 0) {
    const auto group = groups_.find(time.group);
    if (group == groups_.end()) return;
    const auto call = group->second.calls.find(time.sequence);
    if (call != group->second.calls.end()) call->second.goes_on_at = time.at;
    return;
  }
  if (open_.size() >= kOpenCalls || groups_.size() >= kGroups) return;
  Group& group = groups_[time.group];
  // PyTorch has made another group in the memory of one that is gone. Threads that call one group may be noted in
  // another order than they have got their numbers.
  const bool is_known = !group.calls.empty() && group.calls.begin()->first <= time.sequence;
  if (group.first != 0 && (!is_known || group.calls.contains(time.sequence))) group = {};
  if (group.first == 0) group.first = time.sequence;
  group.calls[time.sequence] = {.begun_at = time.at};
  if (group.calls.size() > kKeptCalls) group.calls.erase(group.calls.begin());
  open_[time.work] = {time.group, time.sequence};
}

// The recorder takes its time of a call after the begin, and before the caller goes on.
bool CallTimes::may_be_same(const Call& noted, const RecordedCall& call) {
  return noted.begun_at <= call.made_at && (noted.goes_on_at == 0 || call.made_at <= noted.goes_on_at);
}

CallTimes::Likeness CallTimes::likeness_of(const Group& noted, const RecordedGroup& group) {
  Likeness likeness;
  for (const RecordedCall& call : group.calls) {
    const auto found = noted.calls.find(call.sequence);
    if (found == noted.calls.end()) continue;
    ++likeness.both;
    if (may_be_same(found->second, call)) ++likeness.same;
  }
  return likeness;
}

CallTimes::Group* CallTimes::find(const RecordedGroup& group) {
  const auto known = objects_.find(group.identity);
  if (known != objects_.end()) {
    Group& noted = groups_[known->second];
    const Likeness likeness = likeness_of(noted, group);
    if (likeness.both == 0 || likeness.is_close()) return &noted;
    objects_.erase(known);  // it is another group by now
  }
  std::uint64_t best = 0;
  std::size_t most = 0;
  for (const auto& [object, noted] : groups_) {
    const Likeness likeness = likeness_of(noted, group);
    if (!likeness.is_close() || likeness.same < most) continue;
    // Threads may call the same number of two groups at one moment. Later calls then tell them apart.
    best = likeness.same > most ? object : 0;
    most = likeness.same;
  }
  if (best == 0) return nullptr;
  std::erase_if(objects_, [&](const auto& entry) { return entry.second == best; });
  objects_[group.identity] = best;
  return &groups_[best];
}

void CallTimes::add_to(std::vector<RecordedGroup>& groups) {
  if (!read()) return;
  for (RecordedGroup& group : groups) {
    Group* const noted = find(group);
    if (noted == nullptr) continue;
    for (RecordedCall& call : group.calls) {
      const auto found = noted->calls.find(call.sequence);
      if (found == noted->calls.end() || found->second.ended_at == 0) continue;
      call.made_at = std::min(call.made_at, found->second.begun_at);
      call.finished_at = std::max(call.made_at, found->second.ended_at);
    }
    noted->finished = std::max(noted->finished, group.finished);
    const auto counters = counters_of(group.identity);
    if (!counters) continue;
    group.called = std::max(group.called, counters->called);
    group.finished = std::max(group.finished, counters->finished);
  }
}

std::optional<CallTimes::Counters> CallTimes::counters_of(std::uint64_t identity) const {
  const auto object = objects_.find(identity);
  const auto group = object == objects_.end() ? groups_.end() : groups_.find(object->second);
  if (group == groups_.end() || group->second.calls.empty()) return std::nullopt;
  const Group& noted = group->second;
  if (noted.first > noted.finished + 1) return std::nullopt;  // an earlier call may be in progress
  const auto& [latest, call] = *noted.calls.rbegin();
  Counters counters{latest, latest, call.begun_at};
  for (const auto& [work, place] : open_) {
    // The end of a call that fails is not noted.
    const bool is_open = place.group == object->second && place.sequence > noted.finished;
    if (is_open) counters.finished = std::min(counters.finished, place.sequence - 1);
  }
  return counters;
}

}  // namespace ddp::torch_reader
