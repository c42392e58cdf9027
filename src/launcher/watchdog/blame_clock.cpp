#include "launcher/watchdog/blame_clock.h"

#include <algorithm>
#include <vector>

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr int kNoCulprit = -1;

std::vector<int> blamed_by(const Verdict& verdict) {
  return verdict.culprits.empty() ? std::vector{kNoCulprit} : verdict.culprits;
}

}  // namespace

void BlameClock::add_sample(std::span<const Verdict> verdicts) {
  for (const Verdict& verdict : verdicts) {
    for (const int rank : blamed_by(verdict)) by_rank_.try_emplace(rank, Blame{now_, now_}).first->second.last = now_;
  }
  std::erase_if(by_rank_, [this](const auto& entry) { return now_ - entry.second.last >= limits::kBlameGap; });
}

BlameClock::Nanoseconds BlameClock::blamed_for(const Verdict& verdict) const {
  Nanoseconds least = Nanoseconds::max();
  for (const int rank : blamed_by(verdict)) {
    const auto found = by_rank_.find(rank);
    least = std::min(least, found == by_rank_.end() ? Nanoseconds(0) : now_ - found->second.first);
  }
  return least;
}

}  // namespace ddp::launcher
