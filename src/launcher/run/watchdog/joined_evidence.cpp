#include "launcher/run/watchdog/joined_evidence.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launcher/run/ranks/root_causes.h"
#include "launcher/run/ranks/torch_stacks.h"
#include "launcher/run/stacks/stack_text.h"
#include "launcher/run/watchdog/evidence/ras_client.h"
#include "launcher/run/watchdog/evidence/ras_text.h"

namespace ddp::launcher {
namespace {

// A thread that runs, sleeps or waits for a disk is not in Work.wait(), which py-spy does not show.
AwaitedOperation awaited_by(const RankView& rank, const RankStacks& stacks) {
  if (stacks.source != StackSource::py_spy) return awaited_operation(stacks);
  AwaitedOperation awaited = awaited_in_python(stacks);
  if (awaited.wait != GroupWait::unknown || stacks.threads.empty() || !rank.process) return awaited;
  const char state = rank.process->state;
  if (state == 'R' || state == 'D' || waits_for_no_rank(*rank.process).value_or(false)) awaited.wait = GroupWait::none;
  return awaited;
}

CallView call_of(const AwaitedOperation& awaited, const RankStacks& stacks) {
  CallView call;
  call.what = awaited.operation;
  if (stacks.source == StackSource::py_spy) call.place = python_call(stacks).place;
  return call;
}

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

void name_suspects_by_stacks(HangNews& news) {
  const bool is_open = news.verdict.kind == VerdictKind::silent && news.verdict.waiting.empty();
  // The stack of a rank may have come later than the verdict.
  const bool may_lack_stacks =
      news.verdict.is_by_stack && (news.verdict.kind == VerdictKind::transport || differs(news.verdict.kind));
  // Steps show that a rank is behind, and stacks may show what the others wait for.
  const bool is_behind = news.verdict.kind == VerdictKind::behind;
  if (!is_open && !may_lack_stacks && !is_behind) return;
  std::vector<RankView> known;
  std::vector<std::pair<int, CallView>> waits;
  for (const RankView& rank : news.ranks) {
    const auto stacks = std::ranges::find(news.evidence.stacks, rank.rank, &RankStacks::rank);
    const bool has_stacks = stacks != news.evidence.stacks.end() && !rank.has_ended;
    const AwaitedOperation awaited = has_stacks ? awaited_by(rank, *stacks) : AwaitedOperation();
    if (awaited.wait == GroupWait::unknown && !rank.has_ended) continue;
    known.push_back(rank);
    take_wait_by_stack(known.back());
    if (awaited.wait == GroupWait::operation) waits.emplace_back(rank.rank, call_of(awaited, *stacks));
  }
  const auto add_waits = [&](std::vector<RankView>& ranks) {
    for (const auto& [number, call] : waits) {
      const auto rank = std::ranges::find(ranks, number, &RankView::rank);
      if (rank != ranks.end()) add_wait_by_stack(*rank, static_cast<int>(known.size()), call);
    }
  };
  add_waits(known);
  // A rank of which nothing is known may be the one for which the others wait, each in a group of its own.
  const bool all_are_known = known.size() == news.ranks.size();
  const auto names_suspects = [&](const Verdict& verdict) {
    const bool is_among_waiting = differs(verdict.kind) || verdict.kind == VerdictKind::each_other;
    const bool contradicts = is_behind && verdict.culprits != news.verdict.culprits;
    return verdict.is_by_stack && !verdict.culprits.empty() && (all_are_known || !is_among_waiting) && !contradicts;
  };
  const std::vector<Verdict> verdicts = find_verdicts(known);
  const auto found = std::ranges::find_if(verdicts, names_suspects);
  if (found == verdicts.end()) return;
  news.verdict = *found;
  for (RankView& rank : news.ranks) take_wait_by_stack(rank);
  add_waits(news.ranks);
}

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
