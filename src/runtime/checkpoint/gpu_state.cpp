#include "runtime/checkpoint/gpu_state.h"

#include <ddp/error.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/limits.h"

namespace ddp::internal {

void StepMarks::begin_change(Mark mark) {
  if (!steps_.empty() && !is_changing()) steps_.back().next_change = std::move(mark);
}

void StepMarks::write_finished() {
  for (Step& step : steps_) {
    if (is_closed_ || (!step.is_written && !is_reached_(step.end))) break;
    if (!std::exchange(step.is_written, true)) step.write_final();
  }
  while (steps_.size() > 1 && steps_[1].is_written) steps_.pop_front();
}

std::size_t StepMarks::unwritten() const {
  return static_cast<std::size_t>(std::ranges::count(steps_, false, &Step::is_written));
}

const StepMarks::Step* StepMarks::finished() const {
  const auto found =
      std::find_if(steps_.rbegin(), steps_.rend(), [this](const Step& step) { return is_reached_(step.end); });
  return found == steps_.rend() ? nullptr : &*found;
}

// The marks are on one stream, so the change after the newest finished step comes first.
const StepMarks::Step* StepMarks::present() const {
  const Step* const step = is_closed_ ? nullptr : finished();
  if (step == nullptr || !step->is_whole) return nullptr;
  return step->next_change && is_reached_(step->next_change) ? nullptr : step;
}

bool StepMarks::may_have_step() const {
  if (is_closed_ || steps_.empty()) return false;
  return is_changing() || std::ranges::any_of(steps_, &Step::is_whole);
}

GpuState::GpuState(Backend& backend, Stream stream, std::unique_ptr<SideStream> side)
    : steps([this](const SideStream::Mark& mark) { return side_->is_reached(mark); }),
      stream_(stream),
      side_(std::move(side)) {
  for (auto& block : blocks_) block = backend.allocate_pinned(limits::kGpuStateBlock);
  // The side stream keeps their events for the marks of copies.
  for (std::vector<SideStream::Mark> marks; marks.size() <= blocks_.size();)
    marks.push_back(side_->mark(side_->handle()));
}

bool GpuState::copy(std::span<const GpuPiece> pieces, const Write& write) {
  const StepMarks::Step* const before = steps.present();
  std::deque<Batch> under_way;
  std::size_t begun = 0;
  const auto next_batch = [&] {
    if (under_way.size() == blocks_.size()) {
      finish(under_way.front(), write);
      under_way.pop_front();
    }
    return Batch{static_cast<std::byte*>(blocks_[begun++ % blocks_.size()].get()), 0, {}, nullptr};
  };
  const auto start = [&](Batch batch) {
    batch.done = side_->mark(side_->handle());
    under_way.push_back(std::move(batch));
  };
  Batch batch = next_batch();
  for (const GpuPiece& piece : pieces) {
    for (std::size_t done = 0; done < piece.bytes;) {
      if (batch.bytes == limits::kGpuStateBlock) {
        start(std::move(batch));
        batch = next_batch();
      }
      const std::size_t size = std::min(piece.bytes - done, limits::kGpuStateBlock - batch.bytes);
      std::byte* const to = batch.block + batch.bytes;
      side_->copy_to_pinned(to, static_cast<const std::byte*>(piece.memory) + done, size);
      batch.parts.push_back({to, size, piece.at + done});
      batch.bytes += size;
      done += size;
    }
  }
  start(std::move(batch));
  for (const Batch& rest : under_way) finish(rest, write);
  return before != nullptr && steps.present() == before;
}

void GpuState::finish(const Batch& batch, const Write& write) {
  constexpr std::chrono::microseconds kPoll{200};
  const auto until = std::chrono::steady_clock::now() + limits::kStatePatience;
  while (!side_->is_reached(batch.done)) {
    if (std::chrono::steady_clock::now() > until) throw Error(ErrorKind::timeout, "the GPU does not copy");
    std::this_thread::sleep_for(kPoll);
  }
  for (const GpuPiece& part : batch.parts) write(part.at, {static_cast<const std::byte*>(part.memory), part.bytes});
}

}  // namespace ddp::internal
