// FollowedStreams holds the streams whose work may use memory, and marks the work that they hold.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "runtime/backend/nccl/cuda_resources.h"

namespace ddp::internal {

// Describes the work that streams held at one moment.
struct StreamWork {
  using Mark = std::shared_ptr<void>;  // the event behind a stream's work; null if there is no work

  std::vector<Mark> marks;
  std::vector<CudaStreamHandle> unmarked;  // streams that capture a graph; they are asked again

  // The stream was forgotten, and this is the mark of its work.
  void end(CudaStreamHandle stream, const Mark& mark);
};

// The caller protects the object with a lock, and makes the GPU current (GpuScope). The functions that ask streams
// throw if the GPU is lost. The event pool outlives the marks.
class FollowedStreams {
 public:
  FollowedStreams(const CudaApi& cuda, CudaEvents& events) : cuda_(cuda), events_(events) {}

  void follow(CudaStreamHandle stream) { streams_.insert(stream); }
  bool follows(CudaStreamHandle stream) const { return streams_.contains(stream); }
  // Does not use the stream's handle any more. work() continues to return the work that the stream holds now. Returns
  // the mark of this work, or std::nullopt if the stream captures a graph, and is still followed.
  std::optional<StreamWork::Mark> forget(CudaStreamHandle stream);
  // Does not ask the stream.
  void drop(CudaStreamHandle stream) { streams_.erase(stream); }

  // Returns the work of all streams.
  StreamWork work();
  // Returns the work of these streams.
  StreamWork work(const std::vector<CudaStreamHandle>& streams);
  bool is_done(StreamWork& work);

 private:
  enum class State { usable, captures, unknown };

  State state_of(CudaStreamHandle stream) const;
  StreamWork::Mark record(CudaStreamHandle stream);
  bool is_reached(const StreamWork::Mark& mark) const;
  void mark(StreamWork& work);

  const CudaApi& cuda_;
  CudaEvents& events_;
  std::set<CudaStreamHandle> streams_;
  std::vector<StreamWork::Mark> forgotten_;  // of streams that were forgotten
};

}  // namespace ddp::internal
