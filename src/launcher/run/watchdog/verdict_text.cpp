#include "launcher/run/watchdog/verdict_text.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ddp::launcher {
namespace {

// Returns whether both sides of different calls have as many ranks, so that it is unknown which side is wrong.
bool nobody_knows(const Verdict& verdict) {
  return std::ranges::all_of(verdict.sides, [&](const RankCall& side) { return verdict.blames(side.rank); });
}

// Returns text such as "ranks 0, 1 wait in different collectives: rank 0 in all_reduce at h.py:26, rank 1 in barrier at
// h.py:28".
std::string by_stack(const Verdict& verdict) {
  const bool for_each_other = verdict.kind == VerdictKind::each_other;
  std::string text = base::ranks_text(verdict.culprits) +
                     (for_each_other          ? " wait for each other"
                      : nobody_knows(verdict) ? " wait in different collectives"
                                              : base::plural(verdict.culprits.size(),
                                                             " waits in a different collective from the other ranks",
                                                             " wait in different collectives from the other ranks"));
  if (verdict.sides.empty()) text += " in " + call_text(verdict);
  for (const RankCall& side : verdict.sides) {
    text += (&side == &verdict.sides.front() ? ": " : ", ") + base::ranks_text({side.rank}) + " in " +
            describe_with_place(side.call);
  }
  return text;
}

// Returns text such as "rank 1 called all_reduce f32[9] at a.cpp:1 as #7 of world, and the other ranks called
// all_reduce f32[8] at a.cpp:1".
std::string by_call(const Verdict& verdict) {
  const bool is_known = verdict.sides.size() == 2 && verdict.is_described();
  const std::string place = "#" + std::to_string(verdict.sequence) + " of " + verdict.group;
  const std::string culprits = base::ranks_text(verdict.culprits);
  if (!is_known || verdict.is_transfer) {
    const bool same_call = verdict.kind == VerdictKind::different_arguments;
    return culprits + " called " +
           (same_call ? call_text(verdict) + " with different arguments" : "different collectives as " + place);
  }
  const RankCall& first = verdict.sides[0];
  const RankCall& second = verdict.sides[1];
  const std::string own = base::ranks_text({second.rank}) + " called " + describe_with_place(second.call);
  const std::string other = " called " + describe_with_place(first.call);
  if (nobody_knows(verdict)) return base::ranks_text({first.rank}) + other + ", and " + own + ", as " + place;
  if (verdict.culprits.size() == 1) return own + " as " + place + ", and the other ranks" + other;
  return culprits + " differ from the other ranks in " + place + ": " + own + ", and " +
         base::ranks_text({first.rank}) + other;
}

// Returns text such as "; rank 0 has not called it either, and waits for rank 1 in recv at train.py:6".
std::string through_text(const Verdict& verdict) {
  std::string text;
  for (const RankCall& one : verdict.through) {
    text += "; " + base::ranks_text({one.rank}) + " has not called it either, and waits for " +
            base::ranks_text(verdict.culprits) + " in " + one.call.what;
  }
  return text;
}

// Returns the ranks that wait, such as "rank 2 waits". A rank that is stopped in its call is among them, but it does
// not wait for itself. Returns an empty text if there are none.
std::string waiting_text(const Verdict& verdict) {
  std::vector<int> waiting = verdict.waiting;
  if (verdict.kind == VerdictKind::stopped) std::erase_if(waiting, [&](int rank) { return verdict.blames(rank); });
  return waiting.empty() ? "" : base::ranks_text(waiting, "waits", "wait");
}

// Returns text such as ", and rank 2 waits in all_reduce f32[8] (#7 of world)".
std::string and_others_wait(const Verdict& verdict) {
  return ", and " + waiting_text(verdict) + (verdict.is_transfer ? " for " : " in ") + call_text(verdict);
}

std::string ended_text(const Verdict& verdict) {
  const std::string culprits = base::ranks_text(verdict.culprits, "has", "have") + " exited";
  if (verdict.group.empty()) {
    return culprits + ", and " + waiting_text(verdict) + " for it" +
           (verdict.call.empty() ? "" : " in " + verdict.call);
  }
  return culprits + (verdict.waiting.empty() ? " without finishing " + call_text(verdict) : and_others_wait(verdict));
}

std::string stopped_text(const Verdict& verdict) {
  return base::ranks_text(verdict.culprits, "is", "are") + " stopped" +
         (waiting_text(verdict).empty() ? " in " + call_text(verdict) : and_others_wait(verdict));
}

std::string not_called_text(const Verdict& verdict) {
  const std::string waiting = waiting_text(verdict);
  if (verdict.is_by_stack) {
    return base::ranks_text(verdict.culprits, "is", "are") + " in no collective; " + waiting + " in " +
           call_text(verdict);
  }
  const std::string others = (verdict.is_transfer ? ", for which " : ", in which ") + waiting;
  if (verdict.is_held) {
    return base::ranks_text(verdict.culprits, "has", "have") + " called but not started " + call_text(verdict) +
           others + "; is a CollectiveBatch still open?";
  }
  return base::ranks_text(verdict.culprits, "has", "have") + " not called " + call_text(verdict) + others +
         through_text(verdict);
}

std::string each_other_text(const Verdict& verdict) {
  return base::ranks_text(verdict.waiting) +
         base::plural(verdict.culprits.size(), " waits for itself", " wait for each other") +
         (verdict.is_transfer ? ", first for " : ", first in ") + call_text(verdict);
}

std::string transport_text(const Verdict& verdict) {
  const std::string call = call_text(verdict);
  if (verdict.is_transfer) {
    return waiting_text(verdict) + " for " + call +
           (verdict.is_partial ? ", on a rank of which this node knows nothing"
                               : ", which was called but does not complete");
  }
  if (!verdict.is_partial && !verdict.finished.empty()) {
    return "all ranks have called " + call + ", which is done on " + base::ranks_text(verdict.finished) + " only";
  }
  if (!verdict.is_partial) return "all ranks are in " + call + ", which makes no progress";
  return waiting_text(verdict) + " in " + call +
         " for ranks of which this node knows nothing, or for the network to them";
}

std::string gpu_behind_text(const Verdict& verdict) {
  const std::size_t count = verdict.culprits.size();
  return base::plural(count, "the GPU of ", "the GPUs of ") + base::ranks_text(verdict.culprits, "has", "have") +
         " not started " + call_text(verdict) + ", which all ranks have called: " +
         base::plural(count, "earlier work in its stream does not complete",
                      "earlier work in their streams does not complete");
}

std::string silent_text(const Verdict& verdict) {
  if (!verdict.waiting.empty()) return waiting_text(verdict) + " for other ranks, which do not arrive";
  return "no rank shows any activity, and none waits in a known collective";
}

std::string behind_text(const Verdict& verdict) {
  return base::ranks_text(verdict.culprits, "has", "have") + " sent no heartbeat; " + waiting_text(verdict) + " or " +
         base::plural(verdict.waiting.size(), "continues", "continue");
}

std::string sentence(const Verdict& verdict) {
  const bool is_by_side = differs(verdict.kind) || verdict.kind == VerdictKind::each_other;
  if (verdict.is_by_stack && is_by_side) return by_stack(verdict);
  // In the order of the kinds.
  constexpr std::array kTexts = {ended_text,      stopped_text,   not_called_text, by_call,     by_call,
                                 each_other_text, transport_text, silent_text,     behind_text, gpu_behind_text};
  return kTexts[static_cast<std::size_t>(verdict.kind)](verdict);
}

}  // namespace

std::string call_text(const Verdict& verdict) {
  if (verdict.is_by_stack) return verdict.call.empty() ? "a collective" : verdict.call;
  return (verdict.call.empty() ? "collective" : verdict.call) + " (#" + std::to_string(verdict.sequence) + " of " +
         verdict.group + ")";
}

std::string hang_headline(const Verdict& verdict) {
  return sentence(verdict) + "  [" + std::string(code_of(verdict.kind)) + " " + std::string(title_of(verdict.kind)) +
         "]";
}

}  // namespace ddp::launcher
