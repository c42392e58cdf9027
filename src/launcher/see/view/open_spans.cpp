#include "launcher/see/view/open_spans.h"

#include <algorithm>

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr const char* kUnknown = "collective";

OpenSpan open_call(const RankView& rank, std::size_t group, std::uint64_t number) {
  OpenSpan span{false, kUnknown, rank.page.groups[group].name, number, rank.seen_at};
  if (group < rank.arrivals.size()) {
    const auto& arrivals = rank.arrivals[group];
    const auto arrival = std::ranges::find(arrivals, number, &Arrival::sequence);
    if (arrival != arrivals.end()) span.since = arrival->called_at;
  }
  if (group < rank.calls.size()) {
    const auto& calls = rank.calls[group];
    const auto call = std::ranges::find(calls, number, &CallView::sequence);
    if (call != calls.end() && call->called_at != 0) span.since = call->called_at;
    if (call != calls.end() && !call->what.empty()) span.name = describe(*call);
  }
  return span;
}

}  // namespace

std::vector<OpenSpan> open_spans(const RankView& rank) {
  std::vector<OpenSpan> spans;
  if (!rank.page.is_written) return spans;
  for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
    const GroupView& group = rank.page.groups[i];
    if (group.is_left || group.is_by_stack || group.called <= group.finished) continue;
    const std::uint64_t last = std::min(group.called, group.finished + limits::kTraceOpenCalls);
    for (std::uint64_t number = group.finished + 1; number <= last; ++number) {
      spans.push_back(open_call(rank, i, number));
    }
  }
  const PageView& page = rank.page;
  const bool has_phase = !is_training(page.phase) && page.phase != RankPhase::done && page.phase_since != 0;
  if (has_phase) {
    const std::string name =
        std::string(name_of(page.phase)) + (page.phase_name.empty() ? "" : " ('" + page.phase_name + "')");
    spans.push_back({true, name, "", 0, page.phase_since});
  }
  return spans;
}

void keep_what_is_known(const std::vector<OpenSpan>& known, std::vector<OpenSpan>& spans) {
  for (OpenSpan& span : spans) {
    const auto same = std::ranges::find_if(known, [&](const OpenSpan& other) {
      return !span.is_phase && !other.is_phase && other.number == span.number && other.group == span.group;
    });
    if (same == known.end()) continue;
    span.since = std::min(span.since, same->since);
    if (span.name == kUnknown) span.name = same->name;
  }
}

}  // namespace ddp::launcher
