#include "runtime/checkpoint/state_keeper.h"

#include <ddp/error.h>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/side_thread.h"
#include "runtime/checkpoint/gpu_state.h"
#include "runtime/checkpoint/kept_state.h"
#include "runtime/group/group_core.h"
#include "runtime/limits.h"
#include "runtime/progress/state_gate.h"
#include "wire/state_file.h"

namespace ddp::internal {

using Json = nlohmann::json;
using wire::StateEntry;
using wire::StateKind;

namespace {

std::span<const std::byte> bytes_of(std::span<const std::uint8_t> bytes) {
  return std::as_bytes(bytes);
}

Json describe(const TensorShard& shard) {
  return {shard.name, static_cast<int>(shard.data.type), shard.shape, shard.first, shard.data.count};
}

bool is_in_gpu_memory(const TensorShard& shard) {
  return shard.data.device == DeviceType::cuda;
}

// Gives up a claim at its end, also if a copy from the GPU throws.
struct HeldClaim {
  const wire::StateFile& file;
  std::uint64_t at;

  HeldClaim(const wire::StateFile& file_, std::uint64_t at_) : file(file_), at(at_) {}
  ~HeldClaim() { file.give_up_claim(at); }
  HeldClaim(const HeldClaim&) = delete;
  HeldClaim& operator=(const HeldClaim&) = delete;
};

// Copies the tensors in host memory, one after the other.
std::vector<std::byte> part_on_host(std::span<const TensorShard> tensors) {
  std::size_t size = 0;
  for (const TensorShard& shard : tensors) size += is_in_gpu_memory(shard) ? 0 : shard.data.bytes();
  if (size > limits::kGpuStateHostBytes) {
    throw Error(ErrorKind::unavailable, "its tensors in host memory have more than 1 MiB, beside those on the GPU");
  }
  std::vector<std::byte> result;
  result.reserve(size);
  for (const TensorShard& shard : tensors) {
    const auto* begin = static_cast<const std::byte*>(shard.data.data);
    if (!is_in_gpu_memory(shard)) result.insert(result.end(), begin, begin + shard.data.bytes());
  }
  return result;
}

// Of ImageInterval, in steps
constexpr std::int64_t kFirstReview = 32;
constexpr std::int64_t kReviewStep = 16;
constexpr double kLongest = 1 << 30;

}  // namespace

bool ImageInterval::is_reviewed(std::int64_t steps) const {
  const bool is_after_image = is_due(steps) && steps % kReviewStep == 0;
  return share_ > 0 && steps >= kFirstReview &&
         (is_after_image || std::has_single_bit(static_cast<std::uint64_t>(steps)));
}

void ImageInterval::agree(double copy, double step, double disk) {
  if (!(copy > 0 || disk > 0) || !(step > 0)) return;
  const double needed = std::clamp(std::ceil(std::max(copy / (share_ * step), disk / step)), 1.0, kLongest);
  every_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(needed)));
}

// The thread and the process's gate share it with the keeper, because the thread waits until the process ends.
class StateKeeper::Core : public std::enable_shared_from_this<StateKeeper::Core> {
 public:
  Core(const ProcessGroup& group_, StateInstructions instructions_)
      : group(group_),
        instructions(std::move(instructions_)),
        file(instructions.descriptor),
        images(instructions.image_share) {}

  // Ranks that hold the same tensors, or the same parts of them, have the same key.
  void set_key(const CheckpointState& state) {
    if (key != 0) return;
    Json shards = Json::array();
    for (const TensorShard& shard : state.tensors) shards.push_back(describe(shard));
    base::Fnv1a64 hash;
    hash.update(shards.dump());
    const std::lock_guard lock(mutex);
    key = hash.value() | 1U;
  }

  // From now on, the gate calls this object. It does so for one manager of the process.
  void join_gate() {
    StateGate::of_process().set_keeper(
        [core = shared_from_this()] { core->save(); },
        {.changes = [core = shared_from_this()](Stream used) { core->begin_on_gpu(used); },
         .before_abort = [core = shared_from_this()] { core->before_abort(); }});
  }

  // Waits until the launcher asks for the state.
  void answer() {
    file.wait_for_request();
    save();
    file.set_attempt(instructions.area, &wire::StateHead::answered, instructions.attempt);
  }

  void note(StateKind kind, std::int64_t at_step, const Json& texts) {
    if (kind == StateKind::early && is_on_gpu && has_given_up()) return;
    const bool is_of_image = kind != StateKind::early && images.is_due(at_step - first_step);
    write_note(kind, at_step, Json::to_cbor(texts), is_of_image);
  }

  // --- States in GPU memory. Nothing here may throw, because a program does not end for lack of a kept state.

  // The host has begun to change the tensors of the next step.
  void begin_on_gpu(Stream used) {
    if (!is_first && !is_on_gpu) return;
    try {
      std::shared_ptr<GpuState> state;
      {
        const std::lock_guard lock(mutex);
        if (!changed_on) changed_on = used;
        if (*changed_on != used) throw Error(ErrorKind::unavailable, kOtherStream);
        if (has_failed || (gpu && (gpu->steps.is_closed() || gpu->steps.is_changing()))) return;
        state = gpu;
      }
      // If the stream is full, a mark waits for the GPU, which may need an abort by another thread. Both functions
      // throw if the stream captures a CUDA graph, which shows no changes later.
      if (!state) {  // in the first step
        if (!side) side = group.core().backend().side_stream();
        side->mark(used.handle());
        return;
      }
      SideStream::Mark mark = state->mark();
      const std::lock_guard lock(mutex);
      state->steps.begin_change(std::move(mark));
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  // The host has finished a step. Waits while the GPU is too far behind.
  void finish_on_gpu(const CheckpointState& state, StateKind kind, std::int64_t at_step, const Json& texts) {
    if (!instructions.may_restart || has_given_up()) return;
    try {
      if (!gpu) begin_keeping(state);
      StepMarks::Step finished{.number = at_step, .end = gpu->mark(), .on_host = part_on_host(state.tensors)};
      const bool is_of_image = images.is_due(at_step - first_step);
      finished.write_final = [this, kind, at_step, data = Json::to_cbor(texts), is_of_image] {
        write_note(kind, at_step, data, is_of_image);
      };
      {
        const std::lock_guard lock(mutex);
        const auto moved = std::ranges::mismatch(
            tensors, state.tensors, {}, [](const auto& shard) { return shard.data.data; },
            [](const auto& shard) { return shard.data.data; });
        if (moved.in1 != tensors.end() || moved.in2 != state.tensors.end()) {
          throw Error(ErrorKind::unavailable, "its tensors are no longer where they were in the first step");
        }
        if (changed_on && changed_on->handle() != handle_of(state.stream)) {
          throw Error(ErrorKind::unavailable, kOtherStream);
        }
        if (has_failed) return;
        finished.is_whole = is_first ? changed_on.has_value() : gpu->steps.is_changing();
        gpu->steps.end_step(std::move(finished));
      }
      wait_for_gpu(limits::kGpuStepsAhead, limits::kNoTimeout);
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  // Waits until the GPU has finished all steps but so many, or until its steps no longer count.
  void wait_for_gpu(std::size_t steps, std::chrono::nanoseconds limit) {
    constexpr std::chrono::microseconds kPoll{100};
    const auto until = std::chrono::steady_clock::now() + limit;
    while (true) {
      {
        const std::lock_guard lock(mutex);
        if (!gpu || gpu->steps.is_closed()) return;
        gpu->steps.write_finished();
        if (gpu->steps.unwritten() <= steps) return;
      }
      if (std::chrono::steady_clock::now() >= until) return;
      std::this_thread::sleep_for(kPoll);
    }
  }

  void save_from_gpu(std::chrono::nanoseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    try {
      while (!try_save_from_gpu() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  // The GPU goes on with the remains of a collective afterwards.
  void before_abort() {
    bool is_changing = false;
    {
      const std::lock_guard lock(mutex);
      if (!gpu) {
        has_failed = true;
        return;
      }
      is_changing = gpu->steps.is_changing();
    }
    save_from_gpu(is_changing ? limits::kChangePatience : limits::kStatePatience);
    const std::lock_guard lock(mutex);
    if (gpu) gpu->steps.close();
  }

  // Writes the final parts of steps that the GPU has finished.
  void write_finished(std::chrono::nanoseconds patience) {
    try {
      wait_for_gpu(0, patience);
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  void give_up(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (gpu) gpu->steps.close();
    if (std::exchange(has_failed, true)) return;
    std::fprintf(stderr, "ddp: the state on the GPU is no longer kept in memory: %s\n", why.c_str());
  }

  bool has_given_up() {
    const std::lock_guard lock(mutex);
    return has_failed || (gpu && gpu->steps.is_closed());
  }

  // Copies the whole state if that is due after this step, and agrees with the other ranks on the interval.
  void make_image(std::int64_t at_step) {
    const std::int64_t steps = at_step - first_step;
    const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    if (steps == 0) began = now();
    if (images.is_due(steps) && instructions.may_restart) {
      if (is_on_gpu) wait_for_gpu(0, limits::kNoTimeout);
      const double begin = now();
      if (is_on_gpu) {
        save_from_gpu(std::chrono::nanoseconds(0));
      } else {
        StateGate::of_process().try_copy(
            limits::kStatePatience, [] { return false; }, [this] { try_claim(); });
      }
      copy_seconds = has_room ? now() - begin : 0;
    }
    if (!images.is_reviewed(steps)) return;
    const double disk_seconds = 1e-3 * file.head(instructions.area).image_time;
    std::vector<double> longest = {copy_seconds, (now() - began) / static_cast<double>(steps), disk_seconds};
    group.all_reduce(longest, ReduceOp::max, {.name = "image interval"}).wait();
    images.agree(longest[0], longest[1], longest[2]);
  }

  // Copies the whole state, unless another rank of this node does.
  void save() {
    if (is_on_gpu) return save_from_gpu(limits::kStatePatience);
    StateGate::of_process().try_copy(
        limits::kStatePatience, [this] { return is_kept(); }, [this] { claim(); });
  }

  const ProcessGroup group;
  const StateInstructions instructions;
  const wire::StateFile file;

  std::mutex mutex;  // guards the following, which the thread reads
  std::vector<TensorShard> tensors;
  std::atomic<bool> has_room = true;  // for a copy
  bool has_reported = false;          // that there is none
  std::int64_t step = 0;              // 0 if the state is that of no step that may be copied
  std::uint64_t key = 0;
  std::shared_ptr<GpuState> gpu;     // null if the tensors are in host memory
  std::optional<Stream> changed_on;  // the stream of the program that changes tensors on the GPU
  bool has_failed = false;           // to keep the state on the GPU
  std::atomic<bool> is_on_gpu = false;

  bool is_first = true;              // finish_step() was not called yet
  ImageInterval images;              // the following are of the program's thread, too
  std::int64_t first_step = 0;       // the first one that was finished in this attempt
  double began = 0;                  // when that was, in seconds
  double copy_seconds = 0;           // how long the last copy took
  std::unique_ptr<SideStream> side;  // of the first step, in which there is no GpuState yet
  Json announced = nullptr;          // {step, rank values}, of the program's thread

 private:
  static constexpr int kFirstWhole = wire::kStateRecent + wire::kStatePinned;
  static_assert(wire::kStateWhole == 2);

  static constexpr const char* kOtherStream =
      "an optimizer computes on another stream than that of the state (CheckpointState::stream)";

  static void* handle_of(Stream stream) { return stream ? stream.handle() : nullptr; }

  // Nothing is allocated on the GPU later.
  void begin_keeping(const CheckpointState& state) {
    Backend& backend = group.core().backend();
    std::unique_ptr<SideStream> made = side ? std::move(side) : backend.side_stream();
    auto keeps = std::make_shared<GpuState>(backend, Stream::from_handle(handle_of(state.stream)), std::move(made));
    const std::lock_guard lock(mutex);
    gpu = std::move(keeps);
    tensors = state.tensors;
  }

  // Returns whether there is nothing to wait for.
  bool try_save_from_gpu() {
    const std::lock_guard lock(mutex);
    if (!gpu) return true;
    gpu->steps.write_finished();
    if (!gpu->steps.may_have_step()) return true;
    // In the middle of a step, another rank may have kept the one before.
    const StepMarks::Step* const finished = gpu->steps.finished();
    if (finished != nullptr && is_kept(finished->number)) return true;
    const StepMarks::Step* const present = gpu->steps.present();
    if (present == nullptr) return false;
    const std::uint64_t claim = wire::claim_of_key(key);
    if (!file.try_claim(claim)) return false;
    const HeldClaim held(file, claim);
    return is_kept(present->number) || copy(present);
  }

  void write_note(StateKind kind, std::int64_t at_step, const std::vector<std::uint8_t>& data, bool is_of_image) const {
    note(static_cast<int>((2 * at_step + (kind == StateKind::early ? 0 : 1)) % wire::kStateRecent), at_step, kind,
         data);
    if (!is_of_image) return;
    note(file.oldest(instructions.area, wire::kStateRecent, wire::kStatePinned), at_step, kind, data);
  }

  void note(int at, std::int64_t at_step, StateKind kind, const std::vector<std::uint8_t>& data) const {
    const bool is_written =
        file.clear_entry(instructions.area, at) && file.write(instructions.area, at, 0, bytes_of(data));
    if (is_written) file.set_entry(instructions.area, at, entry(at_step, data.size(), kind));
  }

  StateEntry entry(std::int64_t at, std::uint64_t bytes, StateKind kind) const {
    return {at, bytes, key, kind, instructions.attempt, instructions.rank, instructions.world, 0, 0};
  }

  // Returns the whole states with this key, the oldest first.
  std::vector<wire::StateFile::Found> whole_states() const {
    auto found = file.entries(instructions.areas, kFirstWhole, wire::kStateWhole);
    std::erase_if(found, [this](const auto& one) { return one.entry.key != key; });
    return found;
  }

  bool is_kept() {
    const std::lock_guard lock(mutex);
    return step == 0 || is_kept(step);
  }

  bool is_kept(std::int64_t number) const {
    return std::ranges::any_of(whole_states(), [&](const auto& one) {
      return one.entry.attempt == instructions.attempt && one.entry.step >= number;
    });
  }

  void claim() {
    const auto until = std::chrono::steady_clock::now() + limits::kStatePatience;
    while (!is_kept() && std::chrono::steady_clock::now() < until) {
      if (try_claim()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Copies the state unless it is kept. Returns false if another rank does.
  bool try_claim() {
    const std::uint64_t claim = wire::claim_of_key(key);
    if (!file.try_claim(claim)) return false;
    if (!is_kept()) {
      const std::lock_guard lock(mutex);
      copy(nullptr);
    }
    file.give_up_claim(claim);
    return true;
  }

  // Copies the state, which is that of `present` if it is on a GPU. Returns false if it has changed meanwhile.
  bool copy(const StepMarks::Step* present) {
    const auto known = whole_states();
    for (const StatePlace& place : places_for_copy(known)) {
      const std::uint64_t claim = wire::claim_of_place(place.area, place.place);
      if (!file.try_claim(claim)) continue;
      const HeldClaim held(file, claim);
      return copy_to(place, known, present);
    }
    return true;
  }

  // Two places are enough for the whole states of a key, in whichever areas they are.
  std::vector<StatePlace> places_for_copy(std::span<const wire::StateFile::Found> known) const {
    std::vector<StatePlace> places;
    if (known.size() >= wire::kStateWhole) {
      for (const auto& one : known.first(known.size() - 1)) places.push_back({one.area, one.place});
      return places;
    }
    const int oldest = file.oldest(instructions.area, kFirstWhole, wire::kStateWhole);
    for (const int place : {oldest, 2 * kFirstWhole + 1 - oldest}) {
      const bool is_known = std::ranges::any_of(
          known, [&](const auto& one) { return one.area == instructions.area && one.place == place; });
      if (!is_known) places.push_back({instructions.area, place});
    }
    return places;
  }

  bool copy_to(const StatePlace& to, std::span<const wire::StateFile::Found> known, const StepMarks::Step* present) {
    Json head = Json::array();
    for (const TensorShard& shard : tensors) head.push_back(describe(shard));
    const std::vector<std::uint8_t> text = Json::to_cbor(head);
    const std::uint64_t size = text.size();
    // The memory of both places is needed, sooner or later.
    std::uint64_t needed = 0;
    std::uint64_t allocated = 0;
    for (const TensorShard& shard : tensors) needed += wire::kStateWhole * shard.data.bytes();
    for (const auto& one : known) allocated += one.entry.bytes;
    has_room = needed <= file.head(instructions.area).room + allocated;
    if (!has_room) {
      if (std::exchange(has_reported, true)) return true;
      std::fprintf(stderr, "ddp: the state of %llu bytes is not kept in memory, because the node has too little\n",
                   static_cast<unsigned long long>(needed / wire::kStateWhole));
      return true;
    }
    if (!file.clear_entry(to.area, to.place)) return true;
    std::uint64_t at = 0;
    bool is_written = true;
    const auto put_at = [&](std::uint64_t where, std::span<const std::byte> bytes) {
      is_written = is_written && file.write(to.area, to.place, where, bytes);
    };
    const auto put = [&](std::span<const std::byte> bytes) {
      put_at(at, bytes);
      at += bytes.size();
    };
    put(std::as_bytes(std::span(&size, 1)));
    put(bytes_of(text));
    std::vector<GpuPiece> pieces;
    std::span<const std::byte> on_host;
    if (present != nullptr) on_host = present->on_host;
    for (const TensorShard& shard : tensors) {
      const std::size_t bytes = shard.data.bytes();
      if (is_in_gpu_memory(shard)) {
        pieces.push_back({shard.data.data, bytes, at});
        at += bytes;
      } else if (present == nullptr) {
        put({static_cast<const std::byte*>(shard.data.data), bytes});
      } else {
        put(on_host.first(bytes));
        on_host = on_host.subspan(bytes);
      }
    }
    if (present != nullptr && !gpu->copy(pieces, put_at)) return false;
    const std::int64_t copied = present != nullptr ? present->number : step;
    if (is_written) file.set_entry(to.area, to.place, entry(copied, at, StateKind::whole));
    return true;
  }
};

std::unique_ptr<StateKeeper> StateKeeper::open(const ProcessGroup& group) {
  auto instructions = StateInstructions::read();
  if (!instructions) return nullptr;
  if (group.size() != instructions->world) return nullptr;
  struct stat status {};
  const auto size = static_cast<std::uint64_t>(instructions->areas) * wire::kStateAreaBytes;
  const bool is_there =
      ::fstat(instructions->descriptor, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == size;
  if (!is_there && instructions->step) {
    throw Error(ErrorKind::unavailable,
                "the other ranks go on from a kept state, which this one cannot read: descriptor " +
                    std::to_string(instructions->descriptor) + " is closed");
  }
  if (!is_there) {
    instructions->may_restart = false;
    if (instructions->image_share == 0) return nullptr;  // else it agrees with the other ranks on the interval
    instructions->descriptor = -1;
  }
  const auto core = std::make_shared<Core>(group, std::move(*instructions));
  if (core->instructions.may_restart) core->join_gate();
  return std::unique_ptr<StateKeeper>(new StateKeeper(core));
}

StateKeeper::~StateKeeper() {
  // The next attempt may need them, if another rank is lost later.
  if (std::uncaught_exceptions() == 0) core_->write_finished(limits::kChangePatience);
  StateGate::of_process().set_keeper(nullptr);
  std::shared_ptr<GpuState> gpu;
  const std::lock_guard lock(core_->mutex);  // the tensors belong to the program, and are copied no longer
  core_->step = 0;
  core_->tensors.clear();
  gpu.swap(core_->gpu);
}

std::optional<std::int64_t> StateKeeper::step() const {
  return core_->instructions.step;
}

void StateKeeper::load(CheckpointState& state) {
  load_kept_state(core_->group, core_->instructions, core_->file, state);
}

void StateKeeper::announce_step(std::int64_t step, const CheckpointState& state) {
  core_->set_key(state);
  core_->write_finished(std::chrono::nanoseconds(0));
  core_->announced = {step, state.rank_values};
  core_->note(StateKind::early, step, {{"rank_values", state.rank_values}});
}

void StateKeeper::finish_step(std::int64_t step, const CheckpointState& state) {
  Core& core = *core_;
  StateGate& gate = StateGate::of_process();
  core.set_key(state);
  if (core.is_first) core.first_step = step;
  const bool is_same = state.rank_values.empty() || core.announced == Json{step, state.rank_values};
  const StateKind kind = is_same ? StateKind::final : StateKind::final_moved;
  const Json texts = {{"values", state.values}, {"rank_values", state.rank_values}};
  if (core.is_first) core.is_on_gpu = std::ranges::any_of(state.tensors, is_in_gpu_memory);
  if (core.is_on_gpu) {
    core.finish_on_gpu(state, kind, step, texts);
  } else {
    const std::lock_guard lock(core.mutex);
    core.tensors = state.tensors;
    // Unless the tensors change between begin_change() and end_change(), they may change while they are copied.
    core.step = gate.is_changing() ? step : 0;
  }
  if (!core.is_on_gpu) core.note(kind, step, texts);
  // A rank that has nothing of its own is ready for the next step.
  if (state.rank_values.empty()) core.note(StateKind::early, step + 1, {{"rank_values", state.rank_values}});
  gate.end_change();
  core.make_image(step);
  if (!std::exchange(core.is_first, false) || !core.instructions.may_restart) return;
  core.join_gate();  // the program may have made another manager since
  base::on_side_thread([core = core_] { core->answer(); });
  core.file.set_attempt(core.instructions.area, &wire::StateHead::keeps, core.instructions.attempt);
}

}  // namespace ddp::internal
