// A job of two ranks under a HangDetector, on a clock that does not exist.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "launcher/supervise/hang_detector.h"

namespace ddp::launcher {

class HangingJob {
 public:
  explicit HangingJob(HangPlan plan = {std::chrono::seconds(600), true, HangAction::kill}, bool others_judge = false)
      : detector_(plan, others_judge) {
    for (int rank = 0; rank < 2; ++rank) {
      RankView view;
      view.rank = rank;
      view.pid = 100 + rank;
      view.process = ProcessLook{'S', 0, 0, ""};
      view.board.is_written = true;
      view.board.phase = "training";
      view.board.groups.push_back({"world", rank, 2, 0, 0, 0, 0, 0, 0});
      ranks.push_back(view);
    }
  }

  // Looks on for so long; news are kept with their times.
  HangingJob& passes(std::chrono::nanoseconds time) {
    for (const auto end = now_ + time; now_ < end;) look(ddp::limits::kHangLook);
    return *this;
  }
  void look(std::chrono::nanoseconds elapsed) {
    now_ += elapsed;
    const LookDepth depth = detector_.depth();
    std::vector<RankView> seen = ranks;
    for (RankView& view : seen) {
      if (view.rank == busy_rank) view.tree_ticks = static_cast<std::uint64_t>(now_ / std::chrono::milliseconds(10));
      if (view.rank == waking_rank)
        view.process->waits = static_cast<std::uint64_t>(now_ / std::chrono::milliseconds(100));
      if (depth == LookDepth::boards) view.process.reset();
      if (depth != LookDepth::all) view.calls.clear();
    }
    // As the driver does it: a look that sees nothing new is none.
    std::vector<std::pair<bool, BoardView>> shown;
    for (const RankView& view : seen) shown.emplace_back(view.has_ended, view.board);
    if (depth == LookDepth::boards && shown == last_shown_) return detector_.nothing_new(elapsed);
    last_shown_ = std::move(shown);
    for (HangNews& item : detector_.look(seen, elapsed, static_cast<std::uint64_t>(now_.count()))) {
      // Apart, since what it is for has a test of its own.
      if (item.kind == HangNews::Kind::half_over) {
        halves.push_back(now_);
      } else {
        news.push_back({now_, std::move(item)});
      }
    }
  }
  // Both call and finish; `pause` before each call.
  HangingJob& does_steps(int count, std::chrono::nanoseconds pause) {
    for (int i = 0; i < count; ++i) {
      passes(pause);
      call(0);
      call(1);
      look(ddp::limits::kHangLook);
      for (RankView& view : ranks) view.board.groups[0].finished = view.board.groups[0].called;
      look(ddp::limits::kHangLook);
    }
    return *this;
  }
  HangingJob& call(int rank) {
    GroupView& group = ranks[static_cast<std::size_t>(rank)].board.groups[0];
    ++group.called;
    ++group.started;
    return *this;
  }
  HangingJob& finish(int rank) {
    GroupView& group = ranks[static_cast<std::size_t>(rank)].board.groups[0];
    group.finished = group.called;
    return *this;
  }
  // Programs that send heartbeats and show nothing else.
  HangingJob& beat(int rank, int times) {
    RankView& view = ranks[static_cast<std::size_t>(rank)];
    view.board.groups.clear();
    view.board.steps += static_cast<std::uint64_t>(times);
    return *this;
  }
  HangingJob& warm() { return does_steps(10, std::chrono::milliseconds(100)); }

  std::vector<HangNews::Kind> kinds() const {
    std::vector<HangNews::Kind> result;
    for (const auto& [time, item] : news) result.push_back(item.kind);
    return result;
  }
  // From a moment to the last news, in seconds.
  double last_news_after(std::chrono::nanoseconds moment) const {
    return std::chrono::duration<double>(news.back().first - moment).count();
  }
  std::chrono::nanoseconds now() const { return now_; }
  void looked_into() { detector_.looked_into(); }
  void output() { detector_.output_seen(); }

  std::vector<RankView> ranks;
  int busy_rank = -1;    // uses a processor
  int waking_rank = -1;  // its first thread goes to sleep ten times a second
  std::vector<std::pair<std::chrono::nanoseconds, HangNews>> news;
  std::vector<std::chrono::nanoseconds> halves;  // of limits

 private:
  HangDetector detector_;
  std::vector<std::pair<bool, BoardView>> last_shown_;
  std::chrono::nanoseconds now_ = std::chrono::hours(1);
};

}  // namespace ddp::launcher
