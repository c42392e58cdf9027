// Reducer: owns the gradients' memory and starts each bucket's reduction as soon as backward has filled it.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/extension/communication_hook.h>
#include <ddp/process_group.h>
#include <ddp/step_statistics.h>

#include <atomic>
#include <chrono>
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
#include "runtime/ddp/gpu_steps.h"
#include "runtime/ddp/step_tracker.h"

namespace ddp::internal {

struct ReducerOptions {
  BucketOptions buckets = {};
  UnusedParameters unused = UnusedParameters::refuse;
  std::shared_ptr<CommunicationHook> hook;
  Buffer memory = {};  // of the gradients, one after the other in the parameters' order; empty: the reducer's own
  std::size_t priority_chunk_bytes = 0;  // 0: buckets go as they become ready
  Stream stream = {};                    // of the program, where parameters are in GPU memory
};

// What a step's finish() is to do.
struct StepPlan {
  bool synchronizes = true;
  double factor = 1;  // the mean is this times the sum over all ranks
};

// mark_ready() is thread-safe; the rest belongs to one thread.
class Reducer {
 public:
  Reducer(const ProcessGroup& group, std::span<const Tensor> parameters, ReducerOptions options);
  // Waits for reductions under way: they write into the gradients.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  const Tensor& gradient(std::size_t parameter) const { return gradients_.at(parameter); }
  // The gradients of a type with the padding between; empty if there are none.
  Buffer arena(DataType type) const { return (*arenas_)[static_cast<std::size_t>(type)].buffer(); }
  std::span<const Tensor> gradients() const { return gradients_; }
  std::span<const Bucket> buckets() const { return plan_; }
  std::span<const ParameterSize> sizes() const { return sizes_; }
  const GradientLayout& layout() const { return layout_; }

  // Of the gradients, which live as long as it.
  std::shared_ptr<void> memory() const { return arenas_; }

  void zero();
  // Collective: gives every rank rank 0's values, through the gradients' memory, which is of zeros afterwards. In host
  // memory; as many collectives as there are types.
  void broadcast_values(std::span<const Tensor> parameters);

  bool finds_unused() const { return options_.unused == UnusedParameters::find; }
  bool is_static() const { return options_.unused == UnusedParameters::static_graph; }
  // Whether a gradient of this step has been marked.
  bool began() const;
  // Before the first is marked.
  void plan_step(const StepPlan& plan);
  const StepPlan& step_plan() const { return step_; }
  // False if it was complete before in this step.
  bool mark_ready(std::size_t parameter);
  // The parameters that must still be marked, ascending.
  std::vector<std::size_t> missing() const;
  // Waits until a marked gradient is reduced, and so are all whose buckets began before. False if its buckets have not
  // all begun.
  bool wait(std::size_t parameter);
  // Ends the step, and begins the next with the same plan. Synchronising: reduces what has not been marked, too, and
  // waits for all buckets.
  void finish();

  // Ends the step as if it had not begun, when what is under way has ended.
  void abandon();

  // The parameters that no rank has used since the synchronised step before the last one. Only where unused ones are
  // allowed.
  const std::vector<std::size_t>& unused() const { return unused_; }
  // Of them those for which no rank has a gradient (has_gradient).
  const std::vector<std::size_t>& dropped() const { return dropped_; }
  // Whether this rank's framework has a gradient for a parameter that is not used. Null: it has none.
  std::function<bool(std::size_t parameter)> has_gradient;

  // On a GPU: of the steps that it has completed.
  const StepStatistics& statistics();
  void reset_statistics();

 private:
  using Clock = std::chrono::steady_clock;
  struct BucketViews {
    std::string name;
    std::vector<Tensor> gradients;
    std::vector<Buffer> ranges;
  };
  struct UnderWay {
    Communication communication;
    Clock::time_point started;
    std::shared_ptr<std::atomic<Clock::rep>> ended;  // when the last of the works did
    Stream stream;                                   // of its collectives, on a GPU
    bool is_finished = false;
  };

  void adopt(std::vector<Bucket> plan);
  std::vector<Bucket> prioritised(std::span<const std::size_t> order);
  GradientBucket view(std::size_t bucket, Stream stream) const;
  void start(std::size_t buckets);
  // The first so many that are under way.
  void wait_for_buckets(std::size_t buckets);
  void zero_unused();
  void find_unused();
  void rebuild();
  void count(Clock::time_point entered, Clock::time_point left);

  const ProcessGroup group_;
  const ReducerOptions options_;
  std::vector<ParameterSize> sizes_;
  GradientLayout layout_;
  using Arenas = std::array<Memory, kDataTypes.size()>;
  const std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>();
  std::vector<Tensor> gradients_;  // by parameter
  std::vector<Bucket> plan_;
  std::vector<BucketViews> views_;  // by bucket
  bool rebuilt_ = false;

  StepPlan step_;
  std::uint64_t steps_done_ = 0;  // synchronised ones
  enum Use : std::uint8_t { none, kept, used };
  std::vector<std::uint8_t> used_;  // by parameter: on this rank since the last synchronised step
  std::vector<std::size_t> unused_;
  std::vector<std::size_t> dropped_;
  StepStatistics statistics_;
  Clock::time_point step_began_;  // the end of the last finish()

  mutable std::mutex mutex_;
  StepTracker tracker_;
  std::vector<Clock::time_point> marked_;  // by parameter: when it was, for the last time
  std::vector<UnderWay> under_way_;        // the first buckets
  std::exception_ptr failure_;             // of a hook's start(): no step follows
  std::optional<GpuSteps> gpu_;            // where parameters are in GPU memory
};

}  // namespace ddp::internal
