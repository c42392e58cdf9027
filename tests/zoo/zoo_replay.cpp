// zoo_replay [--scale=N] [--hold=SECONDS] [--timeout=SECONDS] [--dies=RANK] [--others-judge] < TRACE: prints what the
// hang detector reports of a trace (launcher/run/ranks/hang_trace.h), without waiting. Prints a line for each report:
//   KIND CODE [CULPRITS] CLASS SECONDS_OF_THE_TRACE
//
// With --scale, each second of the trace counts as N. With --hold, all ranks do for this time after its end what they
// did last. Ranks without a sign of life for kStillInTrace still show none, and the others still show some. With
// --dies, this rank has ended by then. With --others-judge, the trace is of a node beside which another node sees all
// ranks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/text.h"
#include "launcher/run/ranks/activity_meter.h"
#include "launcher/run/watchdog/hang_detector.h"
#include "launcher/run/watchdog/verdict_text.h"
#include "support/hang_trace_reader.h"

namespace {

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Nanoseconds = std::chrono::nanoseconds;

constexpr auto kStillInTrace = 8s;
constexpr auto kHoldInterval = 1s;

std::uint64_t count_of(Nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

// Lets time pass `scale` times as fast, from the first sample on.
class Clock {
 public:
  explicit Clock(int scale) : scale_(static_cast<std::uint64_t>(scale)) {}

  void stretch(TracedRanks& sample) {
    if (origin_ == 0) origin_ = sample.now;
    move(sample.now);
    sample.elapsed *= static_cast<std::int64_t>(scale_);
    for (RankView& rank : sample.ranks) {
      for (std::uint64_t* time :
           {&rank.seen_at, &rank.page.phase_since, &rank.page.more_time_until, &rank.page.polled_at}) {
        move(*time);
      }
      for (auto& group : rank.calls) {
        for (CallView& call : group) move(call.called_at);
      }
      if (!rank.activity) continue;
      rank.activity->still_for *= static_cast<std::int64_t>(scale_);
      rank.activity->unmoved_for *= static_cast<std::int64_t>(scale_);
    }
  }

 private:
  // 0 means "never" and stays 0.
  void move(std::uint64_t& time) const {
    if (time > origin_) time = origin_ + (time - origin_) * scale_;
  }

  std::uint64_t scale_;
  std::uint64_t origin_ = 0;
};

// The ranks do for `elapsed` longer what they did before.
void hold(TracedRanks& sample, Nanoseconds elapsed) {
  sample.elapsed = elapsed;
  sample.now += count_of(elapsed);
  for (RankView& rank : sample.ranks) {
    const bool polls = rank.page.polled_at + count_of(ddp::limits::kPollingPause) >= rank.seen_at;
    if (polls && rank.page.polled_at != 0) rank.page.polled_at += count_of(elapsed);
    rank.seen_at += count_of(elapsed);
    if (!rank.activity) continue;
    if (rank.activity->still_for >= kStillInTrace) rank.activity->still_for += elapsed;
    if (rank.activity->unmoved_for >= kStillInTrace) rank.activity->unmoved_for += elapsed;
  }
}

void print(const std::vector<HangNews>& news, Nanoseconds age) {
  for (const HangNews& one : news) {
    std::vector<std::string> culprits;
    for (const int rank : one.verdict.culprits) culprits.push_back(std::to_string(rank));
    std::cout << name_of(one.kind) << ' ' << code_of(one.verdict.kind) << " [" << ddp::base::join(culprits, ", ")
              << "] " << name_of(one.judgement.hang_class) << ' '
              << std::chrono::duration_cast<std::chrono::seconds>(age).count() << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  int scale = 1;
  Nanoseconds held{0};
  HangPlan plan;
  std::optional<int> dead;
  bool others_judge = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const int value = std::atoi(word.substr(std::min(word.find('=') + 1, word.size())).data());
    if (word.starts_with("--scale=")) {
      scale = value;
    } else if (word.starts_with("--hold=")) {
      held = std::chrono::seconds(value);
    } else if (word.starts_with("--timeout=")) {
      plan.timeout = std::chrono::seconds(value);
    } else if (word.starts_with("--dies=")) {
      dead = value;
    } else if (word == "--others-judge") {
      others_judge = true;
    } else {
      std::cerr << "zoo_replay: unknown option " << word << '\n';
      return 2;
    }
  }
  HangDetector detector(plan, others_judge,
                        ddp::limits::kHangLongestInterval * std::max(scale, held.count() > 0 ? 4 : 1));
  Clock clock(scale);
  Nanoseconds age{0};
  TracedRanks last;
  std::map<int, ActivityMeter> meters;
  for (std::string line; std::getline(std::cin, line);) {
    auto parsed = parse_traced_line(line);
    if (!parsed) {
      std::cerr << "zoo_replay: this is no line of a trace: " << line.substr(0, 200) << '\n';
      return 2;
    }
    if (const auto* sample = std::get_if<TracedSample>(&*parsed)) {
      meters[sample->rank].add(sample->sample, sample->now);
      continue;
    }
    if (std::holds_alternative<TracedExplanation>(*parsed)) continue;
    auto* sample = &std::get<TracedRanks>(*parsed);
    // The activity is measured again from the recorded samples.
    for (RankView& rank : sample->ranks) {
      if (rank.activity) rank.activity = meters[rank.rank].activity();
    }
    clock.stretch(*sample);
    age += sample->elapsed;
    if (sample->has_news()) {
      detector.pass(sample->elapsed, sample->now);
      print(detector.add(sample->ranks, detector.next().depth), age);
      // Keeps the last sample that shows what the processes do.
      const bool is_deep =
          std::ranges::any_of(sample->ranks, [](const RankView& rank) { return rank.activity.has_value(); });
      if (is_deep || last.ranks.empty()) last = *sample;
    } else {
      for (int i = 0; i < sample->samples; ++i) detector.pass(sample->elapsed / sample->samples, 0);
    }
  }
  if (age.count() == 0) {
    std::cerr << "zoo_replay: the trace is empty\n";
    return 2;
  }
  for (RankView& rank : last.ranks) rank.has_ended = rank.has_ended || rank.rank == dead;
  for (Nanoseconds done{0}; done < held; done += kHoldInterval) {
    hold(last, kHoldInterval);
    detector.pass(last.elapsed, last.now);
    print(detector.add(last.ranks, detector.next().depth), age += kHoldInterval);
  }
}
