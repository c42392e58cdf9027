#include "launcher/run/watchdog/evidence/ras_agreement.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/text.h"
#include "launcher/run/watchdog/evidence/ras_client.h"
#include "launcher/run/watchdog/evidence/ras_text.h"

namespace ddp::launcher {
namespace {

// Returns the ranks that have launched less of a function than another member of their communicator.
std::set<int> ranks_behind(const RasStatus& status, const std::vector<RankView>& ranks) {
  std::set<int> behind;
  for (const RasCommunicator& communicator : status) {
    const auto greatest = greatest_counts(communicator);
    for (const RasMember& member : communicator.members) {
      const auto rank = std::ranges::find(ranks, member.pid, &RankView::pid);
      const bool is_behind = std::ranges::any_of(
          member.launched, [&](const auto& entry) { return entry.second < greatest.at(entry.first); });
      if (is_behind && rank != ranks.end()) behind.insert(rank->rank);
    }
  }
  return behind;
}

// Returns the text without the lines that count operations.
std::string without_counts(std::string_view text) {
  std::string rest;
  bool is_counting = false;
  while (!text.empty()) {
    const std::string_view line = base::take_line(text);
    std::string_view behind = text;
    is_counting = counts_of_ras_begin(line) || (is_counting && line.starts_with("  "));
    const bool is_head = line.ends_with(") MISMATCH") && counts_of_ras_begin(base::take_line(behind));
    if (!is_counting && !is_head) rest += std::string(line) + "\n";
  }
  return rest;
}

}  // namespace

void join_ras(HangNews& news) {
  const std::vector<int>& culprits = news.verdict.culprits;
  for (EvidenceSource& source : news.evidence.sources) {
    if (culprits.empty() || !is_ras_text(source.text)) continue;
    if (ranks_behind(read_ras_text(source.text), news.ranks) != std::set<int>(culprits.begin(), culprits.end()))
      continue;
    source.essence = ras_essence(without_counts(source.text), kRasEssenceLines);
    source.essence.insert(source.essence.begin(),
                          "it counts fewer operations on " + base::ranks_text(culprits) + ", too");
  }
}

}  // namespace ddp::launcher
