#include "torch_reader/call_times.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace ddp::torch_reader {
namespace {

// The recorder takes its time of a call in the function whose begin the library notes, some microseconds later.
constexpr std::uint64_t kSameCall = 1'000'000;  // nanoseconds
// PyTorch's recorder holds 2000 calls unless the user sets another number.
constexpr std::size_t kKeptCalls = 4096;
constexpr std::size_t kOpenCalls = 4096;
constexpr std::size_t kGroups = 4096;

bool is_same(std::uint64_t begun_at, const RecordedCall& call) {
  return begun_at <= call.made_at && call.made_at - begun_at <= kSameCall;
}

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
  if (time.group != 0) {
    if (open_.size() >= kOpenCalls || groups_.size() >= kGroups) return;
    Group& group = groups_[time.group];
    // PyTorch has made another group in the memory of one that is gone.
    if (time.sequence <= group.latest.sequence) group = {};
    if (group.first == 0) group.first = time.sequence;
    group.latest = {time.group, time.sequence, time.at, 0};
    open_[time.work] = group.latest;
    return;
  }
  const auto begun = open_.find(time.work);
  if (begun == open_.end()) return;
  Call call = begun->second;
  open_.erase(begun);
  call.ended_at = std::max(time.at, call.begun_at);
  auto& ended = groups_[call.group].ended;
  ended[call.sequence] = call;
  if (ended.size() > kKeptCalls) ended.erase(ended.begin());
}

CallTimes::Group* CallTimes::find(const RecordedGroup& group) {
  const auto known = objects_.find(group.identity);
  if (known != objects_.end()) return &groups_[known->second];
  std::map<std::uint64_t, std::size_t> votes;
  std::size_t all = 0;
  for (const RecordedCall& call : group.calls) {
    std::uint64_t nearest = 0;
    std::uint64_t nearest_at = 0;
    for (const auto& [object, noted] : groups_) {
      const auto same = noted.ended.find(call.sequence);
      if (same == noted.ended.end() || !is_same(same->second.begun_at, call) || same->second.begun_at <= nearest_at)
        continue;
      nearest = object;
      nearest_at = same->second.begun_at;
    }
    if (nearest == 0) continue;
    ++votes[nearest];
    ++all;
  }
  for (const auto& [object, count] : votes) {
    // Threads may call the same number of two groups at one moment.
    if (2 * count <= all) continue;
    std::erase_if(objects_, [&](const auto& entry) { return entry.second == object; });
    objects_[group.identity] = object;
    return &groups_[object];
  }
  return nullptr;
}

void CallTimes::add_to(std::vector<RecordedGroup>& groups) {
  if (!read()) return;
  for (RecordedGroup& group : groups) {
    Group* const noted = find(group);
    if (noted == nullptr) continue;
    bool has_one = false;
    bool has_same = false;
    for (const RecordedCall& call : group.calls) {
      const auto ended = noted->ended.find(call.sequence);
      has_one = has_one || ended != noted->ended.end();
      has_same = has_same || (ended != noted->ended.end() && is_same(ended->second.begun_at, call));
    }
    if (has_one && !has_same) {
      objects_.erase(group.identity);  // it is another group by now
      continue;
    }
    for (RecordedCall& call : group.calls) {
      const auto ended = noted->ended.find(call.sequence);
      if (ended == noted->ended.end()) continue;
      call.made_at = std::min(call.made_at, ended->second.begun_at);
      call.finished_at = std::max(call.made_at, ended->second.ended_at);
    }
    // The end of a call that fails is not noted.
    std::erase_if(open_, [&](const auto& entry) {
      return entry.second.group == objects_[group.identity] && entry.second.sequence <= group.finished;
    });
    noted->is_complete = noted->is_complete || (noted->first != 0 && noted->first <= group.finished + 1);
    const auto counters = counters_of(group.identity);
    if (!counters) continue;
    group.called = std::max(group.called, counters->called);
    group.finished = std::max(group.finished, counters->finished);
  }
}

std::optional<CallTimes::Counters> CallTimes::counters_of(std::uint64_t identity) const {
  const auto object = objects_.find(identity);
  const auto group = object == objects_.end() ? groups_.end() : groups_.find(object->second);
  if (group == groups_.end() || !group->second.is_complete) return std::nullopt;
  const Call& latest = group->second.latest;
  Counters counters{latest.sequence, latest.sequence, latest.begun_at};
  for (const auto& [work, call] : open_) {
    if (call.group == object->second) counters.finished = std::min(counters.finished, call.sequence - 1);
  }
  return counters;
}

}  // namespace ddp::torch_reader
