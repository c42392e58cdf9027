#include "launcher/see/explain/hang_choice.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ddp::launcher {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// Returns the indices of the findings in which the ranks wait that `finding` waits for. Empty if one of these ranks
// waits nowhere: it is the culprit.
std::set<std::size_t> waits_for(std::vector<HangFinding>& findings, std::size_t index) {
  HangFinding& finding = findings[index];
  const bool has_called = finding.kind == HangKind::all_called;
  std::vector<int>& blockers = has_called ? finding.not_started : finding.culprits;
  if (finding.has_ranks_of_group || (finding.kind != HangKind::not_called && !has_called)) return {};
  std::set<std::size_t> targets;
  std::vector<int> free;
  for (const int rank : blockers) {
    bool waits = false;
    for (std::size_t other = 0; other < findings.size(); ++other) {
      const HangFinding& one = findings[other];
      if (other == index || one.has_ranks_of_group || one.group.empty() || !contains(one.waiting, rank)) continue;
      if (has_called && contains(one.not_started, rank)) continue;
      waits = true;
      targets.insert(other);
    }
    if (!waits) free.push_back(rank);
  }
  if (free.empty()) return targets;
  if (!has_called) blockers = std::move(free);
  return {};
}

}  // namespace

HangFinding choose_hang(std::vector<HangFinding> findings) {
  const std::size_t count = findings.size();
  std::vector<std::set<std::size_t>> edges(count);
  for (std::size_t i = 0; i < count; ++i) edges[i] = waits_for(findings, i);
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < count; ++i) {
    if (edges[i].empty()) roots.push_back(i);
  }
  if (roots.empty()) {
    HangFinding finding;
    finding.kind = HangKind::circular_wait;
    finding.waits = std::move(findings);
    for (const HangFinding& one : finding.waits) {
      finding.waiting.insert(finding.waiting.end(), one.waiting.begin(), one.waiting.end());
    }
    std::sort(finding.waiting.begin(), finding.waiting.end());
    finding.waiting.erase(std::unique(finding.waiting.begin(), finding.waiting.end()), finding.waiting.end());
    return finding;
  }
  // Each of the other findings belongs to the first root that it leads to.
  std::map<std::size_t, std::vector<std::size_t>> dependent;
  for (std::size_t i = 0; i < count; ++i) {
    std::set<std::size_t> reached;
    std::vector<std::size_t> open(edges[i].begin(), edges[i].end());
    while (!open.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      if (reached.insert(next).second) open.insert(open.end(), edges[next].begin(), edges[next].end());
    }
    const auto root = std::find_if(roots.begin(), roots.end(), [&](std::size_t one) { return reached.contains(one); });
    if (root != roots.end()) dependent[*root].push_back(i);
  }
  std::stable_sort(roots.begin(), roots.end(), [&](std::size_t a, std::size_t b) {
    const bool a_is_known = findings[a].kind != HangKind::cannot_be_decided;
    const bool b_is_known = findings[b].kind != HangKind::cannot_be_decided;
    if (a_is_known != b_is_known) return a_is_known;
    return dependent[a].size() > dependent[b].size();
  });
  const auto with_waits = [&](std::size_t root) {
    HangFinding finding = findings[root];
    for (const std::size_t one : dependent[root]) finding.waits.push_back(findings[one]);
    return finding;
  };
  HangFinding first = with_waits(roots.front());
  for (std::size_t i = 1; i < roots.size(); ++i) first.others.push_back(with_waits(roots[i]));
  return first;
}

}  // namespace ddp::launcher
