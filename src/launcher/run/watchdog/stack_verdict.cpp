#include "launcher/run/watchdog/stack_verdict.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/run/ranks/root_causes.h"
#include "launcher/run/ranks/torch_stacks.h"
#include "launcher/run/stacks/stack_text.h"

namespace ddp::launcher {
namespace {

// A thread that runs, sleeps or waits for a disk is not in Work.wait(), which py-spy does not show.
AwaitedOperation awaited_by(const RankView& rank, const RankStacks& stacks) {
  if (stacks.source != "py-spy") return awaited_operation(stacks);
  AwaitedOperation awaited = awaited_in_python(stacks);
  if (awaited.wait != GroupWait::unknown || stacks.threads.empty() || !rank.process) return awaited;
  const char state = rank.process->state;
  if (state == 'R' || state == 'D' || waits_for_no_rank(*rank.process).value_or(false)) awaited.wait = GroupWait::none;
  return awaited;
}

CallView call_of(const AwaitedOperation& awaited, const RankStacks& stacks) {
  CallView call;
  call.what = awaited.operation;
  if (stacks.source == "py-spy") call.place = python_call(stacks).place;
  return call;
}

}  // namespace

void name_suspects_by_stacks(HangNews& news) {
  if (news.verdict.kind != VerdictKind::silent || !news.verdict.waiting.empty()) return;
  std::vector<RankView> known;
  std::vector<std::pair<int, CallView>> waits;
  for (const RankView& rank : news.ranks) {
    const auto stacks = std::ranges::find(news.evidence.stacks, rank.rank, &RankStacks::rank);
    const bool has_stacks = stacks != news.evidence.stacks.end() && !rank.has_ended;
    const AwaitedOperation awaited = has_stacks ? awaited_by(rank, *stacks) : AwaitedOperation();
    if (awaited.wait == GroupWait::unknown && !rank.has_ended) continue;
    known.push_back(rank);
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
    return verdict.is_by_stack && !verdict.culprits.empty() && (all_are_known || !is_among_waiting);
  };
  const std::vector<Verdict> verdicts = find_verdicts(known);
  const auto found = std::ranges::find_if(verdicts, names_suspects);
  if (found == verdicts.end()) return;
  news.verdict = *found;
  add_waits(news.ranks);
}

}  // namespace ddp::launcher
