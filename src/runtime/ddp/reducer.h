// Reducer owns the gradients' memory and starts each bucket's reduction as soon as backward has filled it.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/extension/communication_hook.h>
#include <ddp/process_group.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/ddp/bucket_plan.h"
#include "runtime/ddp/element_math.h"
#include "runtime/ddp/step_clock.h"
#include "runtime/ddp/step_tracker.h"
#include "runtime/ddp/sync_mode.h"

namespace ddp::internal {

struct ReducerOptions {
  BucketOptions buckets = {};
  UnusedParameters unused = UnusedParameters::refuse;
  std::shared_ptr<CommunicationHook> hook;
  Buffer memory = {};  // the gradients' memory, in the parameters' order; empty if the reducer allocates it
  std::size_t priority_chunk_bytes = 0;  // 0 if buckets are sent as they become ready
  Stream stream = {};                    // the program's stream, if parameters are in GPU memory
};

// mark_ready() and use_stream() are thread-safe. All other functions belong to one thread.
class Reducer {
 public:
  Reducer(const ProcessGroup& group, std::span<const Tensor> parameters, ReducerOptions options);
  // Waits for reductions under way, because they write into the gradients.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  const Tensor& gradient(std::size_t parameter) const { return gradients_.at(parameter); }
  // Returns the gradients of a type with the padding between them, or an empty buffer if there are none.
  Buffer arena(DataType type) const { return (*arenas_)[static_cast<std::size_t>(type)].buffer(); }
  std::span<const Tensor> gradients() const { return gradients_; }
  std::span<const Bucket> buckets() const { return plan_; }
  std::span<const ParameterSize> sizes() const { return sizes_; }
  const GradientLayout& layout() const { return layout_; }

  // Returns the memory of the gradients. The gradients live as long as the result.
  std::shared_ptr<void> memory() const { return arenas_; }

  // The program computes on this stream from now on. Gradients that are marked later are complete when the work then on
  // the stream is done. It does nothing if the parameters are in host memory.
  void use_stream(Stream stream);

  void zero();
  // Gives every rank the values of rank 0, through the gradients' memory, which is zeroed afterwards. All ranks call
  // it. There are as many collectives as types. On a GPU, it blocks until the work on the program's stream is done.
  void broadcast_values(std::span<const Tensor> parameters, const ElementMath& math);

  bool finds_unused() const { return options_.unused == UnusedParameters::find; }
  bool is_static() const { return options_.unused == UnusedParameters::static_graph; }
  // Returns whether a gradient of this step has been marked.
  bool began() const;
  // Plans the step. It must be called before the first gradient is marked.
  void plan_step(const StepPlan& plan);
  const StepPlan& step_plan() const { return step_; }
  // Returns false if the gradient was complete before in this step.
  bool mark_ready(std::size_t parameter);
  // Returns the parameters that must still be marked, ascending.
  std::vector<std::size_t> missing() const;
  // Waits until a marked gradient is reduced, and all gradients whose buckets began before. Returns false if the
  // gradient's buckets have not all begun.
  bool wait(std::size_t parameter);
  // Ends the step, and begins the next one with the same plan. If the step synchronises, it also reduces gradients that
  // have not been marked, and waits for all buckets.
  void finish();

  // Ends the step as if it had not begun, after the work under way has ended.
  void abandon();

  // Between these calls, steps use the plain mean, and what the reducer learns from steps and counts does not change.
  void begin_rehearsal();
  void end_rehearsal();

  // Returns the parameters that no rank has used since the synchronised step before the last one. The list is empty
  // unless unused parameters are allowed.
  const std::vector<std::size_t>& unused() const { return unused_; }
  // Returns those unused parameters for which no rank has a gradient (has_gradient).
  const std::vector<std::size_t>& dropped() const { return dropped_; }
  // Returns whether this rank's framework has a gradient for an unused parameter. If the function is null, there is
  // none.
  std::function<bool(std::size_t parameter)> has_gradient;

  // See StepClock.
  const StepStatistics& statistics() const { return clock_->statistics(); }
  void reset_statistics() { clock_->reset_statistics(); }

 private:
  struct BucketViews {
    std::string name;
    std::vector<Tensor> gradients;
    std::vector<Buffer> ranges;
  };
  struct UnderWay {
    Communication communication;
    Stream stream;  // stream of its collectives, on a GPU
    bool is_finished = false;
  };

  // Holds what a rehearsal may change.
  struct BeforeRehearsal {
    std::shared_ptr<CommunicationHook> hook;
    std::vector<std::uint8_t> used;
    std::vector<std::size_t> unused;
    std::vector<std::size_t> dropped;
    bool is_learning = false;
  };

  void adopt(std::vector<Bucket> plan);
  std::vector<Bucket> prioritised(std::span<const std::size_t> order);
  // Blocks until the work that is on the program's stream now is done. It does nothing in host memory.
  void wait_for_stream();
  GradientBucket view(std::size_t bucket, Stream stream) const;
  void start(std::size_t buckets);
  // Waits for the first `buckets` buckets that are under way.
  void wait_for_buckets(std::size_t buckets);
  void zero_unused();
  void find_unused();
  void rebuild();
  void end_counted_step();

  const ProcessGroup group_;
  ReducerOptions options_;
  std::vector<ParameterSize> sizes_;
  GradientLayout layout_;
  using Arenas = std::array<Memory, kDataTypes.size()>;
  const std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>();
  std::vector<Tensor> gradients_;  // by parameter
  std::vector<Bucket> plan_;
  std::vector<BucketViews> views_;  // by bucket
  bool rebuilt_ = false;

  StepPlan step_;
  std::uint64_t steps_done_ = 0;  // number of synchronised steps
  enum Use : std::uint8_t { none, kept, used };
  std::vector<std::uint8_t> used_;  // Use by parameter, on this rank since the last synchronised step
  std::vector<std::size_t> unused_;
  std::vector<std::size_t> dropped_;

  mutable std::mutex mutex_;
  StepTracker tracker_;
  const std::unique_ptr<StepClock> clock_;  // times the gradients for chunks by priority
  std::vector<UnderWay> under_way_;         // the first buckets of the plan
  std::optional<BeforeRehearsal> before_rehearsal_;
  std::exception_ptr failure_;  // failure of a hook's start(), after which no step follows
};

}  // namespace ddp::internal
