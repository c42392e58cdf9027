// Runs a job of two ranks under a HangDetector, on a simulated clock.
#pragma once

#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/run/ranks/activity_meter.h"
#include "launcher/run/watchdog/hang_detector.h"

namespace ddp::launcher {

inline HangPlan hang_plan(std::chrono::milliseconds timeout, HangAction action = HangAction::kill) {
  return {timeout, HangLimit::fixed, action};
}

class HangingJob {
 public:
  explicit HangingJob(HangPlan plan = {}, bool others_judge = false) : detector_(plan, others_judge) {
    for (int rank = 0; rank < 2; ++rank) {
      RankView view;
      view.rank = rank;
      view.pid = 100 + rank;
      view.process = ProcessSample{'S', 0, 0, ""};
      view.page.is_written = true;
      view.page.phase = RankPhase::training;
      view.page.groups.push_back({"world", rank, 2, 0, 0, 0, 0, 0, 0});
      ranks.push_back(view);
    }
  }

  const HangDetector& detector() const { return detector_; }

  // Takes samples for this time, and keeps the news with their times.
  HangingJob& passes(std::chrono::nanoseconds time) {
    for (const auto end = now_ + time; now_ < end;) sample(ddp::limits::kHangSampleInterval);
    return *this;
  }
  void sample(std::chrono::nanoseconds elapsed) {
    now_ += elapsed;
    detector_.pass(elapsed, static_cast<std::uint64_t>(now_.count()));
    const auto [depth, is_measured] = detector_.next();
    if (before_sample) before_sample(*this);
    std::vector<RankView> seen = ranks;
    seen.insert(seen.end(), others.begin(), others.end());
    for (RankView& view : seen) {
      if (is_measured && view.rank < 2) view.activity = measure(static_cast<std::size_t>(view.rank));
      if (view.rank == waking_rank)
        view.process->waits = static_cast<std::uint64_t>(now_ / std::chrono::milliseconds(100));
      if (depth == SampleDepth::pages) view.process.reset();
      if (depth != SampleDepth::all) view.calls.clear();
    }
    // The driver does the same: a sample without anything new is not passed on.
    std::vector<std::pair<bool, PageView>> shown;
    for (const RankView& view : seen) shown.emplace_back(view.has_ended, view.page);
    if (depth == SampleDepth::pages && shown == last_shown_) return;
    last_shown_ = std::move(shown);
    for (HangNews& item : detector_.add(std::move(seen), depth)) {
      news.push_back({now_, std::move(item)});
    }
  }
  // Both ranks call and finish, with `pause` before each call.
  HangingJob& does_steps(int count, std::chrono::nanoseconds pause) {
    for (int i = 0; i < count; ++i) {
      passes(pause);
      call(0);
      call(1);
      sample(ddp::limits::kHangSampleInterval);
      for (RankView& view : ranks) view.page.groups[0].finished = view.page.groups[0].called;
      sample(ddp::limits::kHangSampleInterval);
    }
    return *this;
  }
  HangingJob& call(int rank) {
    GroupView& group = ranks[static_cast<std::size_t>(rank)].page.groups[0];
    ++group.called;
    ++group.started;
    return *this;
  }
  HangingJob& finish(int rank) {
    GroupView& group = ranks[static_cast<std::size_t>(rank)].page.groups[0];
    group.finished = group.called;
    return *this;
  }
  // The rank sends heartbeats and shows nothing else.
  HangingJob& heartbeat(int rank, int times) {
    RankView& view = ranks[static_cast<std::size_t>(rank)];
    view.page.groups.clear();
    view.page.steps += static_cast<std::uint64_t>(times);
    return *this;
  }
  HangingJob& warm() { return does_steps(10, std::chrono::milliseconds(100)); }

  std::vector<HangNews::Kind> kinds() const {
    std::vector<HangNews::Kind> result;
    for (const auto& [time, item] : news) result.push_back(item.kind);
    return result;
  }
  // Sets what the processes do from now on: a change of their counters in each second that they are sampled.
  HangingJob& does(int rank, std::function<void(ActivitySample& sample)> work) {
    work_[static_cast<std::size_t>(rank)] = std::move(work);
    return *this;
  }
  HangingJob& computes(int rank) {
    return does(rank, [](ActivitySample& sample) {
      sample.processes[0].cpu_ticks += static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    });
  }
  // Returns the last news of a kind, or nullptr if there is none.
  const HangNews* last(HangNews::Kind kind) const {
    for (auto item = news.rbegin(); item != news.rend(); ++item) {
      if (item->second.kind == kind) return &item->second;
    }
    return nullptr;
  }
  // Returns the seconds from a moment to the last news.
  double last_news_after(std::chrono::nanoseconds moment) const {
    return std::chrono::duration<double>(news.back().first - moment).count();
  }
  std::chrono::nanoseconds now() const { return now_; }

  std::vector<RankView> ranks;
  std::vector<RankView> others;  // further ranks, whose processes are not known
  std::function<void(HangingJob& job)> before_sample;
  int waking_rank = -1;  // the first thread of this rank goes to sleep ten times per second
  std::vector<std::pair<std::chrono::nanoseconds, HangNews>> news;

 private:
  std::optional<RankActivity> measure(std::size_t rank) {
    ActivitySample& sample = samples_[rank];
    if (work_[rank]) work_[rank](sample);
    meters_[rank].add(sample, now_);
    return meters_[rank].activity();
  }
  static ActivitySample idle_process() {
    ActivitySample sample;
    sample.processes = {{100, 1, 0, 0, 0, 0, false}};
    sample.connections = {{7, 4000, 5000, 0}};
    sample.is_complete = true;
    return sample;
  }

  HangDetector detector_;
  std::array<ActivitySample, 2> samples_ = {idle_process(), idle_process()};
  std::array<std::function<void(ActivitySample&)>, 2> work_;
  std::array<ActivityMeter, 2> meters_;
  std::vector<std::pair<bool, PageView>> last_shown_;
  std::chrono::nanoseconds now_ = std::chrono::hours(1);
};

}  // namespace ddp::launcher
