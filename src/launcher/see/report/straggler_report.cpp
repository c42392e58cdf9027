#include "launcher/see/report/straggler_report.h"

#include <cmath>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostLines = 10;
constexpr double kWorthAWord = 0.01;
constexpr auto kWorthAtLeast = std::chrono::seconds(1);
constexpr auto kShortRun = std::chrono::minutes(1);  // ranks of a shorter run mostly wait for each other's start

std::string percent(double share) {
  return std::to_string(std::lround(100 * share)) + " %";
}

// Returns a text such as "waited for 5.1 s (3 % of the time, 5.0 s at once); came last to 12 of 380 collectives seen,
// 1.2 ms after the median".
std::string describe(const Straggler& rank, const StragglerReport& report) {
  const double share = std::chrono::duration<double>(rank.waited_for) / std::chrono::duration<double>(report.time);
  std::string text = "others waited " + base::human_duration(rank.waited_for) + " for it (" + percent(share) +
                     " of the time, " + base::human_duration(rank.longest_wait) + " at once)";
  if (report.collectives == 0) return text;
  text += "; it was last in " + std::to_string(rank.last) + " of " +
          base::counted(static_cast<std::int64_t>(report.collectives), "collective") + " seen";
  if (rank.last > 0) {
    text += ", " + base::human_duration(rank.late / static_cast<std::int64_t>(rank.last)) + " after the median";
  }
  return text;
}

}  // namespace

std::vector<std::string> straggler_table_lines(const StragglerReport& report) {
  if (report.ranks.empty() || report.time.count() == 0) return {};
  std::vector<std::string> lines = {"  ranks that the others waited for, in " + base::human_duration(report.time) +
                                    ":"};
  for (const Straggler& rank : report.ranks) {
    if (lines.size() > kMostLines) break;
    lines.push_back("    rank " + std::to_string(rank.rank) + ": " + describe(rank, report));
  }
  return lines;
}

std::string straggler_remark(const StragglerReport& report) {
  if (report.ranks.size() < 2 || report.ranks[0].waited_for < kWorthAtLeast || report.time < kShortRun) return "";
  const Straggler& first = report.ranks[0];
  const bool is_much =
      std::chrono::duration<double>(first.waited_for) > kWorthAWord * std::chrono::duration<double>(report.time);
  if (!is_much || first.waited_for < 2 * report.ranks[1].waited_for) return "";
  StragglerReport shown = report;
  if (first.last == 0) shown.collectives = 0;  // the arrivals that were seen do not explain the wait
  return "rank " + std::to_string(first.rank) + " was slow: " + describe(first, shown);
}

}  // namespace ddp::launcher
