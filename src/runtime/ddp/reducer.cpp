#include "runtime/ddp/reducer.h"

#include <ddp/error.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "base/check.h"
#include "runtime/group/group_core.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

std::vector<ParameterSize> sizes_of(std::span<const Tensor> parameters) {
  std::vector<ParameterSize> result;
  for (const Tensor& tensor : parameters) result.push_back({tensor.data.type, tensor.data.count});
  return result;
}

}  // namespace

Reducer::Reducer(const ProcessGroup& group, std::span<const Tensor> parameters, ReducerOptions options)
    : group_(group),
      options_(std::move(options)),
      sizes_(sizes_of(parameters)),
      layout_(options_.memory.count > 0 ? lay_out_in_order(sizes_) : lay_out(sizes_)),
      step_{true, 1.0 / group.size()},
      used_(parameters.size()),
      tracker_(parameters.size()),
      clock_(make_step_clock(group, options_.stream, options_.priority_chunk_bytes > 0 ? parameters.size() : 0)) {
  const DeviceType device = options_.stream ? DeviceType::cuda : DeviceType::cpu;
  for (const DataType type : kDataTypes) {
    const std::size_t count = layout_.arena_count(type);
    Memory& memory = (*arenas_)[static_cast<std::size_t>(type)];
    if (count > 0)
      memory = options_.memory.count > 0 ? Memory(options_.memory, nullptr) : group.allocate(count, type, device);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    const Buffer memory = arena(parameter.data.type);
    gradients_.push_back({parameter.name, memory.slice(layout_.first[i], parameter.data.count), parameter.shape});
  }
  adopt(plan_buckets(sizes_, layout_, reverse_order(parameters.size()), options_.buckets));
  if (is_static()) tracker_.expect({});
  tracker_.begin();
  clock_->begin_step();
  group_.core().ring().begin_steps();
}

Reducer::~Reducer() {
  if (std::uncaught_exceptions() > 0) {
    // Peers may never answer a rank that leaves. Destroying the works cancels the reductions, which must happen before
    // the memory is freed.
    under_way_.clear();
    return;
  }
  for (UnderWay& bucket : under_way_) {
    for (Work& work : bucket.communication.works) {
      try {
        work.wait();
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the caller handles its own error
      }
    }
  }
  try {
    // A work with a stream does not wait for the GPU, and the gradients may be in memory of the program.
    clock_->wait(limits::kDeviceCopy);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the group reports what its GPU could not do
  }
}

void Reducer::adopt(std::vector<Bucket> plan) {
  plan_ = std::move(plan);
  views_.clear();
  for (const Bucket& bucket : plan_) {
    BucketViews views;
    views.name = "bucket " + std::to_string(views_.size()) + ": " + gradients_[bucket.parameters.front()].name +
                 (bucket.parameters.size() > 1 ? " …" : "");
    for (const std::size_t parameter : bucket.parameters) views.gradients.push_back(gradients_[parameter]);
    for (const ArenaRange& range : bucket.ranges) {
      views.ranges.push_back(arena(bucket.type).slice(range.first, range.count));
    }
    views_.push_back(std::move(views));
  }
  tracker_.adopt(plan_);
}

GradientBucket Reducer::view(std::size_t bucket, Stream stream) const {
  const BucketViews& views = views_[bucket];
  // Ranks compare the name, so a rank that has skipped a step is found at its next bucket.
  const std::string step =
      before_rehearsal_ ? "rehearsal of the last batch" : "step " + std::to_string(steps_done_ + 1);
  const std::string name = views.name + ", " + step;
  return {bucket, name, views.gradients, views.ranges, step_.factor, stream};
}

void Reducer::broadcast_values(std::span<const Tensor> parameters, const ElementMath& math) {
  for (std::size_t i = 0; i < parameters.size(); ++i) math.copy(parameters[i].data, gradients_[i].data);
  std::vector<Work> works;
  for (const Memory& memory : *arenas_) {
    if (memory.buffer().count == 0) continue;
    works.push_back(group_.broadcast(memory, 0, {.name = "parameters", .stream = clock_->stream()}));
  }
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (group_.rank() != 0) math.copy(gradients_[i].data, parameters[i].data);
  }
  zero();
  // The program may fill gradients from other streams, which do not wait for this one.
  wait_for_stream();
}

void Reducer::use_stream(Stream stream) {
  const std::lock_guard lock(mutex_);
  clock_->use(stream);
}

void Reducer::zero() {
  for (const Memory& memory : *arenas_) {
    if (memory.buffer().count > 0) group_.zero(memory, clock_->stream());
  }
}

bool Reducer::began() const {
  const std::lock_guard lock(mutex_);
  return tracker_.began();
}

void Reducer::plan_step(const StepPlan& plan) {
  DDP_CHECK(!began());
  step_ = plan;
}

bool Reducer::mark_ready(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (!tracker_.mark(parameter)) return false;
  used_[parameter] = used;
  clock_->mark_ready(parameter);
  if (step_.synchronizes) start(tracker_.complete_buckets());
  return true;
}

std::vector<std::size_t> Reducer::missing() const {
  const std::lock_guard lock(mutex_);
  return failure_ || finds_unused() || tracker_.is_learning() ? std::vector<std::size_t>() : tracker_.missing();
}

// Starts the first `buckets` buckets, except those that are under way.
void Reducer::start(std::size_t buckets) {
  while (under_way_.size() < buckets) {
    UnderWay& bucket = under_way_.emplace_back();
    try {
      bucket.stream = clock_->begin_bucket();
      bucket.communication = options_.hook->start(group_, view(under_way_.size() - 1, bucket.stream));
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
    clock_->watch_bucket(bucket.communication.works);
  }
}

void Reducer::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (step_.synchronizes) clock_->enter_finish();
    if (step_.synchronizes && finds_unused()) zero_unused();
    if (step_.synchronizes) start(plan_.size());
    if (tracker_.is_learning()) tracker_.expect(tracker_.times());
  }
  if (step_.synchronizes) {
    wait_for_buckets(under_way_.size());
    if (finds_unused() || (is_static() && !rebuilt_)) find_unused();
    before_rehearsal_ ? clock_->abandon() : end_counted_step();
  }
  if (!step_.synchronizes || before_rehearsal_) {
    group_.core().page().count_other_progress();
  }
  const std::lock_guard lock(mutex_);
  under_way_.clear();
  tracker_.begin();
}

void Reducer::end_counted_step() {
  std::size_t bytes = 0;
  for (const UnderWay& bucket : under_way_) bytes += bucket.communication.bytes;
  clock_->leave_finish(bytes);
  if (!rebuilt_) rebuild();
  clock_->begin_step();
  ++steps_done_;
  group_.core().ring().end_step(group_.core().page().count_step());
}

void Reducer::begin_rehearsal() {
  const std::lock_guard lock(mutex_);
  before_rehearsal_ = {options_.hook, used_, unused_, dropped_, tracker_.is_learning()};
  options_.hook = make_mean_hook();
}

// If a step has begun, abandon() must follow.
void Reducer::end_rehearsal() {
  const std::lock_guard lock(mutex_);
  const BeforeRehearsal before = *std::exchange(before_rehearsal_, std::nullopt);
  options_.hook = before.hook;
  used_ = before.used;
  unused_ = before.unused;
  dropped_ = before.dropped;
  if (tracker_.began()) return;
  if (before.is_learning) tracker_.expect({});
  tracker_.begin();
  clock_->abandon();
  clock_->begin_step();
}

void Reducer::abandon() {
  for (UnderWay& bucket : under_way_) {
    for (Work& work : bucket.communication.works) work.wait();
  }
  const std::lock_guard lock(mutex_);
  under_way_.clear();
  std::fill(used_.begin(), used_.end(), 0);
  clock_->abandon();
  tracker_.begin();
}

void Reducer::wait_for_buckets(std::size_t buckets) {
  for (std::size_t i = 0; i < buckets; ++i) {
    UnderWay& bucket = under_way_[i];
    if (bucket.is_finished) continue;
    for (Work& work : bucket.communication.works) work.wait();
    bucket.communication.bytes += options_.hook->finish(group_, view(i, bucket.stream));
    bucket.is_finished = true;
    clock_->end_bucket();
  }
  clock_->join();
}

bool Reducer::wait(std::size_t parameter) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const std::vector<std::size_t>& own = plan_[i].parameters;
    if (std::find(own.begin(), own.end(), parameter) != own.end()) last = i + 1;
  }
  {
    const std::lock_guard lock(mutex_);
    if (under_way_.size() < last) return false;
  }
  wait_for_buckets(last);
  return true;
}

// Sets the gradients of unused parameters to 0, whatever they hold. They are in buckets that have not started.
void Reducer::zero_unused() {
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used_[i] == 0 && gradients_[i].data.count > 0) group_.zero(gradients_[i].data, clock_->stream());
  }
}

void Reducer::find_unused() {
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used_[i] == none && has_gradient && has_gradient(i)) used_[i] = kept;
  }
  group_.all_reduce(used_, ReduceOp::max, {.name = "which parameters were used"}).wait();
  unused_.clear();
  dropped_.clear();
  for (std::size_t i = 0; i < used_.size(); ++i) {
    if (used_[i] != used) unused_.push_back(i);
    if (used_[i] == none) dropped_.push_back(i);
  }
  std::fill(used_.begin(), used_.end(), 0);
}

// The plan follows the order in which rank 0's gradients became complete, because the other ranks' order may differ.
// Unused parameters come last. With finds_unused(), the next step may leave others unused, so the plan stays.
void Reducer::rebuild() {
  rebuilt_ = true;
  if (!options_.buckets.rebuild || finds_unused()) return;
  std::vector<std::size_t> order = tracker_.order();
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    if (tracker_.times()[i] == 0) order.push_back(i);
  }
  std::vector<std::int64_t> agreed(order.begin(), order.end());
  group_.broadcast(agreed, 0, {.name = "the order of the gradients"}).wait();
  order.assign(agreed.begin(), agreed.end());
  adopt(options_.priority_chunk_bytes > 0 ? prioritised(order)
                                          : plan_buckets(sizes_, layout_, order, options_.buckets));
  clock_->forget_gradients();
}

// The gradient that was ready last is needed first. The link is assumed to be as fast as in this step. Rank 0 decides.
std::vector<Bucket> Reducer::prioritised(std::span<const std::size_t> order) {
  // The host runs ahead of the GPU, so the times of this step are known only when the GPU has done it.
  wait_for_stream();
  const StepStatistics& statistics = clock_->statistics();
  const std::vector<std::size_t> by_priority(order.rbegin(), order.rend());
  std::vector<Bucket> chunks = cut_into_chunks(sizes_, layout_, by_priority, options_.priority_chunk_bytes);
  const double seconds_per_byte = statistics.communication_seconds / std::max(1.0, statistics.bytes);
  std::vector<Transmission> transmissions;
  for (const Bucket& chunk : chunks) {
    Transmission& transmission = transmissions.emplace_back();
    for (const std::size_t parameter : chunk.parameters) {
      transmission.ready = std::max(transmission.ready, clock_->seconds_until_ready(parameter));
    }
    for (const ArenaRange& range : chunk.ranges) {
      transmission.length += static_cast<double>(range.count * size_of(chunk.type)) * seconds_per_byte;
    }
  }
  const std::vector<std::size_t> places = transmission_order(transmissions);
  std::vector<std::int64_t> agreed(places.begin(), places.end());
  group_.broadcast(agreed, 0, {.name = "the order of the chunks"}).wait();
  std::vector<Bucket> plan;
  for (const std::int64_t place : agreed) plan.push_back(std::move(chunks[static_cast<std::size_t>(place)]));
  return plan;
}

// A copy waits for the other ranks as long as a collective does.
void Reducer::wait_for_stream() {
  if (!clock_->stream()) return;
  std::uint8_t byte = 0;
  const auto filled = std::ranges::find_if(*arenas_, [](const Memory& memory) { return memory.bytes() > 0; });
  if (filled == arenas_->end()) return;
  group_.copy({&byte, 1, DataType::u8}, {filled->data(), 1, DataType::u8, DeviceType::cuda}, clock_->stream());
}

}  // namespace ddp::internal
