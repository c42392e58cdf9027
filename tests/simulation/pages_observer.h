// PagesObserver looks at simulated ranks as the launcher does: at its intervals, with the activity of their processes,
// and with the ranks of another node as they were some time ago.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <vector>

#include "launcher/run/ranks/activity_meter.h"
#include "launcher/run/watchdog/hang_detector.h"

namespace ddp::test {

struct PagesPlan {
  launcher::HangPlan hang;
  std::chrono::nanoseconds limit{0};  // the limit that holds
  std::chrono::nanoseconds lag{0};    // greatest age of what is seen of ranks on the other node; 0 if there is none
  int own_ranks = 0;                  // the first ranks are on this node
  bool others_judge = false;          // the other ranks are not seen at all
};

struct PagesRank {
  launcher::RankView view;
  launcher::ActivitySample activity;
};

class PagesObserver {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  PagesObserver(const PagesPlan& plan, std::size_t ranks, std::uint64_t seed);

  // Takes a sample, as deep as the detector wants it.
  std::vector<launcher::HangNews> sample(const std::vector<PagesRank>& ranks, Nanoseconds now);
  // Returns what the detector would say if it took a deep sample of these pages now. It stays as it was.
  std::vector<launcher::HangNews> would_say(const std::vector<PagesRank>& ranks, Nanoseconds now) const;
  // Returns when to look next.
  Nanoseconds next(Nanoseconds now);

 private:
  void refresh_far(const std::vector<PagesRank>& ranks, Nanoseconds now);

  const PagesPlan plan_;
  launcher::HangDetector detector_;
  std::vector<launcher::ActivityMeter> meters_;
  std::vector<launcher::RankView> far_;
  Nanoseconds far_full_{0};
  Nanoseconds far_next_{0};
  Nanoseconds sampled_at_{0};
  std::vector<std::pair<bool, launcher::PageView>> shown_;
  std::mt19937_64 random_;
};

}  // namespace ddp::test
