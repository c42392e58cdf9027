#include "launcher/run/job/blame.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "base/exit_code.h"
#include "launcher/limits.h"

namespace ddp::launcher {

using wire::Knowledge;

namespace {

bool is_difference(const std::optional<Verdict>& verdict) {
  return verdict && !verdict->sides.empty();
}

// Returns the latest verdict that reports a difference, because it has seen the most calls. Returns null if there is
// none.
const Verdict* latest_difference(std::span<const WorkerEnd> ends) {
  const auto seen =
      std::find_if(ends.rbegin(), ends.rend(), [](const auto& end) { return is_difference(end.verdict); });
  return seen == ends.rend() ? nullptr : &*seen->verdict;
}

bool shows_difference(const WorkerEnd& end) {
  return failed_by_itself(end) && (end.found_mismatch() || is_difference(end.verdict));
}

// Returns the difference because of which the job failed, or null if it failed because of something else. Ranks that
// had lost another one before a difference was seen show nothing else.
const Verdict* difference_behind(std::span<const WorkerEnd> ends) {
  const auto first = std::ranges::find_if(ends, [](const WorkerEnd& end) {
    return shows_difference(end) || (failed_by_itself(end) && !end.is_secondary());
  });
  return first != ends.end() && shows_difference(*first) ? latest_difference(ends) : nullptr;
}

// Returns whether `end` has lost `rank`. Gloo and NCCL do not report which rank was lost. If exactly one rank has
// exited with 0, it is the lost rank.
bool has_lost(const WorkerEnd& end, int rank, std::span<const WorkerEnd> ends) {
  if (!end.is_secondary() || end.error->peer) return end.is_secondary() && end.error->peer == rank;
  return std::ranges::count_if(ends, &WorkerEnd::has_left) == 1 &&
         std::ranges::find_if(ends, &WorkerEnd::has_left)->rank == rank;
}

// Ranks that lost another rank may be seen to end before that rank. One of them may have lost another one of them.
bool was_lost(int rank, std::span<const WorkerEnd> ends) {
  return std::ranges::any_of(ends,
                             [&](const WorkerEnd& end) { return failed_by_itself(end) && has_lost(end, rank, ends); });
}

// Returns whether the worker's record says why it failed. A record that answers the launcher's signal does not.
bool says_why(const WorkerEnd& end) {
  return end.error && !end.is_secondary() && end.error->written_at && !end.error->is_after_signal;
}

// Returns the end with the oldest record that says why a worker failed, or `known` if that is older or shows as much. A
// record of a lost rank, and an exit code without a record, never show as much, whatever their age.
const WorkerEnd& first_to_say_why(const WorkerEnd& known, std::span<const WorkerEnd> ends) {
  const bool is_mute = !known.error && !known.status.was_killed() && !known.status.success();
  const WorkerEnd* earliest = says_why(known) || !(known.is_secondary() || is_mute) ? &known : nullptr;
  for (const WorkerEnd& end : ends) {
    if (!says_why(end)) continue;
    if (earliest == nullptr || (earliest->error && end.error->written_at < earliest->error->written_at)) {
      earliest = &end;
    }
  }
  return earliest == nullptr ? known : *earliest;
}

}  // namespace

bool WorkerEnd::is_our_doing() const {
  if (after_kill && status.was_killed_by(SIGKILL)) return true;
  return after_signal && std::ranges::any_of(std::array{SIGINT, SIGTERM}, [&](int signal) {
           return status.was_killed_by(signal) || status == base::ExitStatus::exited(128 + signal);
         });
}

bool failed_by_itself(const WorkerEnd& end) {
  return (!end.status.success() || end.verdict) && !end.is_our_doing();
}

bool others_know_more(const WorkerEnd& end) {
  if (end.another_failed_before || end.is_secondary()) return true;
  if (end.found_mismatch() && !end.verdict) return true;
  return is_difference(end.verdict) && (end.verdict->is_open || !end.verdict->blames(end.rank));
}

const WorkerEnd* find_first_failure(std::span<const WorkerEnd> ends) {
  const auto first = std::ranges::find_if(ends, failed_by_itself);
  return first == ends.end() ? nullptr : &*first;
}

const WorkerEnd* find_culprit(std::span<const WorkerEnd> ends) {
  const WorkerEnd* first = find_first_failure(ends);
  if (first == nullptr) return nullptr;
  const auto find = [&](const auto& condition) {
    const auto found = std::ranges::find_if(ends, condition);
    return found == ends.end() ? nullptr : &*found;
  };
  if (const Verdict* difference = difference_behind(ends); difference != nullptr) {
    const WorkerEnd* differs =
        find([&](const WorkerEnd& end) { return failed_by_itself(end) && difference->blames(end.rank); });
    return differs == nullptr ? find(shows_difference) : differs;
  }
  const bool names_peer = first->is_secondary() && first->error->peer;
  const WorkerEnd* cause = find([&](const WorkerEnd& end) {
    const std::chrono::milliseconds wait =
        names_peer && !end.after_signal ? limits::kNamedPeerWait : limits::kSecondaryWait;
    return failed_by_itself(end) && !end.is_secondary() && end.when - first->when <= wait;
  });
  const WorkerEnd& known = cause == nullptr ? *first : *cause;
  const WorkerEnd& earlier = first_to_say_why(known, ends);
  if (&earlier != &known || cause != nullptr) return &earlier;
  const WorkerEnd* left = find([&](const WorkerEnd& end) { return end.has_left() && was_lost(end.rank, ends); });
  if (left != nullptr) return left;
  const WorkerEnd* with_own = find([](const WorkerEnd& end) {
    return !end.status.success() && end.error && end.error->had_own_error && !end.error->is_after_signal;
  });
  return with_own == nullptr ? first : with_own;
}

std::optional<Verdict> verdict_on(const WorkerEnd& culprit, std::span<const WorkerEnd> ends) {
  if (const Verdict* difference = difference_behind(ends); difference != nullptr) return *difference;
  if (!culprit.status.success()) return culprit.gave_up() ? culprit.verdict : std::nullopt;
  if (culprit.verdict) return culprit.verdict;
  Verdict verdict;
  for (const WorkerEnd& end : ends) {
    if (!has_lost(end, culprit.rank, ends)) continue;
    if (verdict.waiting.empty() && end.verdict) verdict = *end.verdict;  // the collective in which it waited
    verdict.waiting.push_back(end.rank);
  }
  verdict.kind = VerdictKind::ended;
  verdict.culprits = {culprit.rank};
  std::ranges::sort(verdict.waiting);
  return verdict;
}

wire::Knowledge knowledge_of(const WorkerEnd& culprit, std::span<const WorkerEnd> ends) {
  if (culprit.found_mismatch() || (culprit.is_secondary() && difference_behind(ends))) return Knowledge::disputed;
  return culprit.is_secondary() ? Knowledge::secondary : Knowledge::certain;
}

bool says_more(const wire::Cause& cause, const std::optional<wire::Cause>& known) {
  return !known || cause.knowledge > known->knowledge;
}

std::chrono::milliseconds wait_for_more(const wire::Cause& cause) {
  if (cause.knowledge == Knowledge::certain) return {};
  if (cause.knowledge != Knowledge::secondary) return limits::kSettleTime;
  return cause.lost_peer == wire::kNoPeer ? limits::kSecondaryWait : limits::kNamedPeerWait;
}

wire::Cause lost_node(const std::string& text, bool may_restart) {
  return {
      .text = text, .exit_code = base::kExitOwnFault, .may_restart = may_restart, .code = wire::CauseCode::lost_node};
}

wire::Cause left_early(const wire::Cause& secondary, const std::string& node) {
  return {.text = "rank " + std::to_string(secondary.lost_peer) +
                  ": exit code 0 before its collectives were done (reported by " + secondary.node + ": " +
                  secondary.text + ")",
          .node = node,
          .exit_code = base::kExitHung,
          .may_restart = true,
          .code = wire::CauseCode::program};
}

}  // namespace ddp::launcher
