// Tests StepMarks with scripted marks, and StateKeeper with tensors in the memory of a GPU in software.
#include "runtime/checkpoint/gpu_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/checkpoint/state_keeper.h"
#include "runtime/group/group_core.h"
#include "runtime/limits.h"
#include "runtime/progress/state_gate.h"
#include "support/catch.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "wire/state_file.h"
#include "wire/worker_env.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Plays a program whose GPU reaches its marks in their order, when the test says so.
class ScriptedSteps {
 public:
  void change() { steps.begin_change(next_mark()); }
  void end(std::int64_t number, bool is_whole = true) {
    steps.end_step({.number = number, .end = next_mark(), .is_whole = is_whole, .write_final = [this, number] {
                      written.push_back(number);
                    }});
  }
  // The host begins and ends a step.
  void play(std::int64_t number) {
    change();
    end(number);
  }
  void reach(int count = 1) { reached_ += count; }
  // Returns the step that the tensors have, or 0.
  std::int64_t present() const { return steps.present() == nullptr ? 0 : steps.present()->number; }

  StepMarks steps{[this](const StepMarks::Mark& mark) { return *static_cast<int*>(mark.get()) <= reached_; }};
  std::vector<std::int64_t> written;

 private:
  StepMarks::Mark next_mark() { return std::make_shared<int>(++marks_); }

  int marks_ = 0;
  int reached_ = 0;
};

// Holds the memory of a node with one area.
class StateMemory {
 public:
  StateMemory() : descriptor_(::memfd_create("states", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(descriptor_.get(), static_cast<off_t>(wire::kStateAreaBytes)) == 0);
    file().set_room(0, std::uint64_t{1} << 30);
  }
  ~StateMemory() { ::unsetenv(wire::env::kStateMemory); }
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;

  wire::StateFile file() const { return wire::StateFile(descriptor_.get()); }
  void begin_attempt(int attempt, int world, const std::string& more = "") const {
    const std::string text = R"({"fd":)" + std::to_string(descriptor_.get()) +
                             R"(,"area":0,"areas":1,"rank":0,"may_restart":1,"world":)" + std::to_string(world) +
                             R"(,"attempt":)" + std::to_string(attempt) + more + "}";
    ::setenv(wire::env::kStateMemory, text.c_str(), 1);
  }
  // Returns the newest step with an entry of this kind, or 0.
  std::int64_t newest(wire::StateKind kind) const {
    std::int64_t step = 0;
    for (const auto& found : file().entries(1, 0, wire::kStatePlaces)) {
      if (found.entry.kind == kind) step = std::max(step, found.entry.step);
    }
    return step;
  }
  int place_of_whole(std::int64_t step) const {
    for (const auto& found : file().entries(1, 0, wire::kStatePlaces)) {
      if (found.entry.kind == wire::StateKind::whole && found.entry.step == step) return found.place;
    }
    return -1;
  }

 private:
  const base::UniqueFd descriptor_;
};

// Trains a parameter, which becomes the sum of the gradients of all ranks in each step.
class Training {
 public:
  static constexpr std::size_t kSize = 5000;

  explicit Training(ProcessGroup& group) : group_(group), memory_(group, DeviceType::cuda) {
    parameter_ = memory_.make(std::vector<float>(kSize, 0));
    gradient_ = memory_.make(std::vector<float>(kSize, 0));
    state.tensors = {{"steps", steps, {1}, 0}, {"parameter", parameter_, {kSize}, 0}};
    state.stream = memory_.stream();
  }

  static std::vector<float> gradient_of(int rank, std::int64_t step) {
    std::vector<float> values(kSize);
    std::iota(values.begin(), values.end(), static_cast<float>(1000 * step + rank));
    return values;
  }
  // Puts the average of the gradients on the stream, as all ranks do.
  void average(std::int64_t step) {
    memory_.write(gradient_, gradient_of(group_.rank(), step));
    group_.all_reduce(gradient_, ReduceOp::sum, {.timeout = 2s, .name = {}, .stream = memory_.stream()}).wait();
  }
  void change(std::int64_t step) {
    StateGate::of_process().begin_change(memory_.stream());
    steps[0] = step;
    state.values["step"] = std::to_string(step);
    const CudaApi cuda = gpu_libraries()->cuda;
    require_cuda(cuda, cuda.copy_async(parameter_.data, gradient_.data, parameter_.bytes(), stream()), "copy");
  }
  CudaStreamHandle stream() const { return memory_.stream().handle(); }

  // Returns the parameter when the stream has done what it holds, also after a failure.
  std::vector<float> parameter() const {
    const CudaApi cuda = gpu_libraries()->cuda;
    CudaEvents(cuda).finish(stream(), kPatience);
    std::vector<float> values(kSize);
    copy_now(cuda, values.data(), parameter_.data, parameter_.bytes());
    return values;
  }

  std::vector<std::int64_t> steps = {0};
  CheckpointState state;

 private:
  ProcessGroup& group_;
  PlacedMemory memory_;
  Buffer parameter_;
  Buffer gradient_;
};

std::vector<float> sum_of(std::int64_t step) {
  std::vector<float> sum = Training::gradient_of(0, step);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += Training::gradient_of(1, step)[i];
  return sum;
}

}  // namespace

TEST_CASE("the kept state belongs to the newest step that the GPU has finished") {
  ScriptedSteps program;
  program.end(1);
  CHECK(program.present() == 0);
  program.play(2);
  program.play(3);
  program.reach();
  CHECK(program.present() == 1);
  program.reach();  // the change of step 2 has begun
  CHECK(program.present() == 0);
  CHECK(program.steps.may_have_step());
  program.reach();
  CHECK(program.present() == 2);
  program.reach(2);
  CHECK(program.present() == 3);
}

TEST_CASE("a step whose change was not marked has no kept state") {
  ScriptedSteps program;
  program.end(1);
  program.end(2, false);
  program.reach(1);
  CHECK(program.present() == 1);
  program.reach(1);
  CHECK(program.present() == 0);
  program.steps.write_finished();
  CHECK_FALSE(program.steps.may_have_step());
  program.change();
  CHECK(program.steps.may_have_step());
}

TEST_CASE("a kept step becomes final when the GPU has finished it") {
  ScriptedSteps program;
  program.end(1);
  program.play(2);
  program.play(3);
  program.steps.write_finished();
  CHECK(program.written.empty());
  CHECK(program.steps.unwritten() == 3);
  program.reach(4);
  program.steps.write_finished();
  CHECK(program.written == std::vector<std::int64_t>{1, 2});
  CHECK(program.steps.unwritten() == 1);
  program.reach();
  program.steps.write_finished();
  program.steps.write_finished();
  CHECK(program.written == std::vector<std::int64_t>{1, 2, 3});
  CHECK(program.present() == 3);
}

TEST_CASE("no kept state counts that the GPU finishes after an abort") {
  ScriptedSteps program;
  program.end(1);
  program.play(2);
  program.reach();
  program.steps.close();
  program.reach(2);
  program.steps.write_finished();
  CHECK(program.present() == 0);
  CHECK(program.written.empty());
  CHECK_FALSE(program.steps.may_have_step());
}

TEST_CASE("the kept state of a GPU is copied in pieces through two pinned blocks") {
  RankThreads(nccl_backend().make, 1).all_succeed([&](RankThreads::Rank& self) {
    PlacedMemory memory(self.group(), DeviceType::cuda);
    std::vector<std::int32_t> values(3 * limits::kGpuStateBlock / sizeof(std::int32_t) + 11);
    std::iota(values.begin(), values.end(), 0);
    const Buffer large = memory.make(values);
    const Buffer small = memory.make(std::vector<std::int32_t>{-1, -2, -3});
    memory.numbers(small);  // waits
    GpuState state(self.group().core().backend(), memory.stream(), self.group().core().backend().side_stream());
    std::vector<std::byte> copied(small.bytes() + large.bytes() + small.bytes());
    const std::vector<GpuPiece> pieces = {{small.data, small.bytes(), 0},
                                          {large.data, large.bytes(), small.bytes()},
                                          {small.data, small.bytes(), small.bytes() + large.bytes()}};
    state.steps.end_step({.number = 1, .end = state.mark(), .is_whole = true, .write_final = [] {}});
    memory.numbers(small);
    const bool is_complete = state.copy(pieces, [&](std::uint64_t at, std::span<const std::byte> bytes) {
      std::ranges::copy(bytes, copied.begin() + static_cast<std::ptrdiff_t>(at));
    });
    require(is_complete, "the copy does not count");
    values.insert(values.begin(), {-1, -2, -3});
    values.insert(values.end(), {-1, -2, -3});
    require(std::memcmp(copied.data(), values.data(), copied.size()) == 0, "other bytes were copied");
  });
}

TEST_CASE("a copy of a kept state is invalid if the GPU changes the state meanwhile") {
  if (on_real_gpu()) return;
  RankThreads(nccl_backend().make, 1).all_succeed([&](RankThreads::Rank& self) {
    PlacedMemory memory(self.group(), DeviceType::cuda);
    const Buffer values = memory.make(std::vector<float>{1, 2, 3});
    GpuState state(self.group().core().backend(), memory.stream(), self.group().core().backend().side_stream());
    state.steps.end_step({.number = 1, .end = state.mark(), .is_whole = true, .write_final = [] {}});
    memory.numbers(values);
    HeldStream held(memory.stream().handle());
    state.steps.begin_change(state.mark());
    const std::vector<GpuPiece> pieces = {{values.data, values.bytes(), 0}};
    require(state.copy(pieces, [](auto...) {}), "the copy does not count before the GPU changes the state");
    const auto write = [&](auto...) {
      held.release();
      memory.numbers(values);
    };
    require(!state.copy(pieces, write), "a copy counts that the GPU has torn");
    require(!state.copy(pieces, [](auto...) {}), "a copy of a changed state counts");
  });
}

TEST_CASE("final parts of a GPU's kept state wait for the GPU, and the host is at most two steps ahead") {
  if (on_real_gpu()) return;
  const StateMemory memory;
  memory.begin_attempt(0, 1);
  RankThreads(nccl_backend().make, 1).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group());
    const auto keeper = StateKeeper::open(self.group());
    const auto play = [&](std::int64_t step) {
      training.average(step);
      training.change(step);
      keeper->finish_step(step, training.state);
    };
    play(1);
    HeldStream held(training.stream());
    play(2);
    play(3);
    require(memory.newest(wire::StateKind::final) == 1, "a step is final before the GPU has finished it");
    require(memory.newest(wire::StateKind::early) == 4, "an early part waits for the GPU");
    training.average(4);
    training.change(4);
    auto fourth = std::async(std::launch::async, [&] { keeper->finish_step(4, training.state); });
    require(fourth.wait_for(100ms) == std::future_status::timeout, "the host is three steps before the GPU");
    held.release();
    fourth.get();
    training.parameter();
    keeper->announce_step(5, training.state);
    play(5);
    require(memory.newest(wire::StateKind::final) >= 4, "a finished step is not final");
  });
  CHECK(memory.newest(wire::StateKind::final) == 5);
}

TEST_CASE("the kept state of a GPU is the one before the collective that a lost rank did not join") {
  if (on_real_gpu()) return;
  const StateMemory memory;
  memory.begin_attempt(0, 2);
  RankThreads(nccl_backend().make, 2).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group());
    if (self.rank() == 1) {
      for (std::int64_t step = 1; step <= 3; ++step) training.average(step);
      return self.waits_for_the_others();
    }
    const auto keeper = StateKeeper::open(self.group());
    for (std::int64_t step = 1; step <= 5; ++step) {
      training.average(step);
      training.change(step);
      keeper->finish_step(step, training.state);
    }
    const RankOutcome failed = outcome_of([&] { self.group().barrier().wait(); });
    require(failed.kind.has_value(), "the lost rank was not noticed");
    require(training.parameter() != sum_of(3), "the GPU has not gone on after the abort");
    keeper->finish_step(6, training.state);
    require(memory.newest(wire::StateKind::whole) == 3, "another step is kept");
    require(memory.newest(wire::StateKind::final) == 3, "another step is final");
  });
  memory.begin_attempt(1, 2, R"(,"step":3,"own":[0,7],"whole":[0,)" + std::to_string(memory.place_of_whole(3)) + "]");
  RankThreads(nccl_backend().make, 2).all_succeed([&](RankThreads::Rank& self) {
    if (self.rank() == 1) return self.waits_for_the_others();
    Training training(self.group());
    const auto keeper = StateKeeper::open(self.group());
    require(keeper->step() == 3, "the attempt begins with another step");
    keeper->load(training.state);
    require(training.parameter() == sum_of(3), "the parameter has other bits");
    require(training.steps[0] == 3, "the tensor in host memory is of another step");
    require(training.state.values.at("step") == "3", "the values are of another step");
  });
}

TEST_CASE("a step that ends on the GPU after an abort gives no kept state") {
  if (on_real_gpu()) return;
  const StateMemory memory;
  memory.begin_attempt(0, 2);
  RankThreads(nccl_backend().make, 2).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group());
    training.average(1);
    if (self.rank() == 1) return self.waits_for_the_others();
    const auto keeper = StateKeeper::open(self.group());
    training.average(2);
    training.change(2);
    require(outcome_of([&] { self.group().barrier().wait(); }).kind.has_value(), "the lost rank was not noticed");
    keeper->finish_step(2, training.state);
    training.parameter();
    keeper->finish_step(3, training.state);
    require(memory.newest(wire::StateKind::whole) == 0, "a step is kept");
    require(memory.newest(wire::StateKind::final) == 0, "a step is final");
  });
}

TEST_CASE("no state of a GPU is kept if an optimizer computes on another stream") {
  const StateMemory memory;
  memory.begin_attempt(0, 1);
  RankThreads(nccl_backend().make, 1).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group());
    const auto keeper = StateKeeper::open(self.group());
    for (std::int64_t step = 1; step <= 3; ++step) {
      training.change(step);
      if (step == 2) StateGate::of_process().begin_change(Stream(nullptr));
      keeper->finish_step(step, training.state);
      training.parameter();
      keeper->announce_step(step + 1, training.state);
    }
  });
  CHECK(memory.newest(wire::StateKind::final) == 1);
}

TEST_CASE("no state of a GPU is kept if an optimizer step is in a CUDA graph, which is not disturbed") {
  const StateMemory memory;
  memory.begin_attempt(0, 1);
  RankThreads(nccl_backend().make, 1).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group());
    const auto keeper = StateKeeper::open(self.group());
    training.parameter();
    void* graph = nullptr;
    require(gpu_function<int(void*, int)>("cuStreamBeginCapture_v2")(training.stream(), 0) == kCudaSuccess, "begin");
    training.change(1);
    require(gpu_function<int(void*, void**)>("cuStreamEndCapture")(training.stream(), &graph) == kCudaSuccess, "end");
    keeper->finish_step(1, training.state);
    training.change(2);
    keeper->finish_step(2, training.state);
  });
  CHECK(memory.newest(wire::StateKind::whole) == 0);
  CHECK(memory.newest(wire::StateKind::final) == 0);
}
