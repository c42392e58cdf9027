#include "runtime/backend/nccl/followed_streams.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>

#include "runtime/backend/nccl/nccl_errors.h"

namespace ddp::internal {

void StreamWork::end(CudaStreamHandle stream, const Mark& mark) {
  if (std::erase(unmarked, stream) > 0 && mark != nullptr) marks.push_back(mark);
}

std::optional<StreamWork::Mark> FollowedStreams::forget(CudaStreamHandle stream) {
  const State state = state_of(stream);
  if (state == State::captures) return std::nullopt;
  StreamWork::Mark mark;
  if (state == State::usable) forgotten_.push_back(mark = record(stream));
  streams_.erase(stream);
  return mark;
}

StreamWork FollowedStreams::work() {
  std::erase_if(forgotten_, [this](const StreamWork::Mark& mark) { return is_reached(mark); });
  StreamWork work{forgotten_, {streams_.begin(), streams_.end()}};
  mark(work);
  return work;
}

StreamWork FollowedStreams::work(const std::vector<CudaStreamHandle>& streams) {
  StreamWork work{{}, streams};
  mark(work);
  return work;
}

bool FollowedStreams::is_done(StreamWork& work) {
  mark(work);
  std::erase_if(work.marks, [this](const StreamWork::Mark& mark) { return is_reached(mark); });
  return work.marks.empty() && work.unmarked.empty();
}

// An unknown stream was destroyed, and CUDA has noticed that its handle was used again. It might have crashed instead.
FollowedStreams::State FollowedStreams::state_of(CudaStreamHandle stream) const {
  bool captures = false;
  const CudaStatus status = cuda_.is_capturing(stream, captures);
  if (status == kCudaCaptureImplicit || (status == kCudaSuccess && captures)) return State::captures;
  constexpr std::array kUnknown = {kCudaInvalidValue, kCudaInvalidHandle, kCudaContextIsDestroyed};
  if (std::ranges::find(kUnknown, status) == kUnknown.end()) {
    require_cuda(cuda_, status, "look at a stream");
    return State::usable;
  }
  static std::once_flag reported;
  std::call_once(reported, [&] { std::fputs(destroyed_stream_warning(cuda_.error_name(status)).c_str(), stderr); });
  return State::unknown;
}

StreamWork::Mark FollowedStreams::record(CudaStreamHandle stream) {
  return {events_.record(stream), [&events = events_](void* event) { events.put_back(event); }};
}

bool FollowedStreams::is_reached(const StreamWork::Mark& mark) const {
  const CudaStatus status = cuda_.query_event(mark.get());
  if (status != kCudaNotReady) require_cuda(cuda_, status, "finish its work");
  return status == kCudaSuccess;
}

void FollowedStreams::mark(StreamWork& work) {
  std::erase_if(work.unmarked, [&](CudaStreamHandle stream) {
    const State state = state_of(stream);
    if (state == State::usable) work.marks.push_back(record(stream));
    if (state == State::unknown) streams_.erase(stream);
    return state != State::captures;
  });
}

}  // namespace ddp::internal
