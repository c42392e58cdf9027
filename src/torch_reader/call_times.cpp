#include "torch_reader/call_times.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace ddp::torch_reader {
namespace {

// The recorder takes its time of a call in the function whose begin the library notes.
constexpr std::uint64_t kSameCall = 1'000'000;  // nanoseconds
// PyTorch's recorder holds 2000 calls unless the user sets another number.
constexpr std::size_t kKeptCalls = 4096;
constexpr std::size_t kOpenCalls = 4096;
constexpr std::size_t kGroups = 4096;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
  return std::max(a, b) - std::min(a, b);
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
  for (const RecordedCall& call : group.calls) {
    for (auto& [object, noted] : groups_) {
      const auto same = noted.ended.find(call.sequence);
      if (same == noted.ended.end() || distance(same->second.begun_at, call.made_at) > kSameCall) continue;
      std::erase_if(objects_, [&](const auto& entry) { return entry.second == object; });
      objects_[group.identity] = object;
      return &noted;
    }
  }
  return nullptr;
}

void CallTimes::add_to(std::vector<RecordedGroup>& groups) {
  if (!read()) return;
  for (RecordedGroup& group : groups) {
    Group* const noted = find(group);
    if (noted == nullptr) continue;
    for (RecordedCall& call : group.calls) {
      const auto ended = noted->ended.find(call.sequence);
      const bool is_it = ended != noted->ended.end() && distance(ended->second.begun_at, call.made_at) <= kSameCall;
      if (is_it) call.finished_at = std::max(call.made_at, ended->second.ended_at);
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
