#include "launcher/see/explain/explanation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "launcher/run/output/python_traceback.h"
#include "launcher/start/causes/cause_table.h"

namespace ddp::launcher {
namespace {

// Exceptions that only report what was done to a program, or that one of its processes has failed.
constexpr std::string_view kOfOthers[] = {"KeyboardInterrupt", "ChildFailedError", "SignalException",
                                          "ProcessExitedException", "ProcessRaisedException"};

// accelerate and deepspeed start Python, and report that it failed.
bool reports_python(std::string_view message) {
  constexpr std::string_view kCommand = "CalledProcessError: Command '['";
  const std::size_t at = message.find(kCommand);
  if (at == std::string_view::npos) return false;
  message.remove_prefix(at + kCommand.size());
  const std::string_view program = message.substr(0, message.find('\''));
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

bool only_reports(const Failure& failure) {
  if (failure.form == Form::words) return false;
  return reports_python(failure.message) || std::ranges::any_of(kOfOthers, [&](std::string_view words) {
           return failure.message.find(words) != std::string::npos;
         });
}

// Returns whether `one` came before `other`, or std::nullopt if that is unknown.
std::optional<bool> came_before(const Failure& one, const Failure& other) {
  if (one.time && other.time && one.time->clock == other.time->clock &&
      one.time->microseconds != other.time->microseconds) {
    return one.time->microseconds < other.time->microseconds;
  }
  if (one.at.file == other.at.file && one.at.line > 0 && other.at.line > 0) return one.at.line < other.at.line;
  return std::nullopt;
}

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

bool are_alike(const Failure& one, const Failure& other) {
  if (one.cause != nullptr || other.cause != nullptr) return one.cause == other.cause;
  return without_digits(one.message) == without_digits(other.message);
}

void add_rank(FailureGroup& group, std::optional<int> rank) {
  if (!rank) return;
  const auto place = std::ranges::lower_bound(group.ranks, *rank);
  if (place == group.ranks.end() || *place != *rank) group.ranks.insert(place, *rank);
}

// Puts failures that are alike together, in the order of their first ones.
std::vector<FailureGroup> grouped(const std::vector<Failure>& failures) {
  std::vector<FailureGroup> groups;
  for (const Failure& failure : failures) {
    auto group = std::ranges::find_if(groups, [&](const FailureGroup& one) { return are_alike(one.first, failure); });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), FailureGroup{.first = failure, .ranks = {}});
    } else if (const auto before = came_before(failure, group->first)) {
      if (*before) group->first = failure;
    } else {
      group->is_ordered = false;
    }
    ++group->count;
    add_rank(*group, failure.rank ? failure.rank : failure.local_rank);
  }
  return groups;
}

// Puts the group that came before all others first. Returns false if their order is unknown.
bool put_first(std::vector<FailureGroup>& groups) {
  const auto first = std::ranges::find_if(groups, [&](const FailureGroup& group) {
    return std::ranges::all_of(groups, [&](const FailureGroup& other) {
      return &other == &group || came_before(group.first, other.first).value_or(false);
    });
  });
  if (first == groups.end()) return groups.empty();
  std::rotate(groups.begin(), first, first + 1);
  return true;
}

bool are_of_one_rank(const Failure& one, const Failure& other) {
  if (one.rank || other.rank) return one.rank == other.rank;
  return one.local_rank && one.local_rank == other.local_rank && one.at.file == other.at.file;
}

bool may_equal(std::optional<int> one, std::optional<int> other) {
  return !one || !other || one == other;
}

bool may_be_of_one_rank(const Failure& one, const Failure& other) {
  return one.at.file == other.at.file && may_equal(one.rank, other.rank) && may_equal(one.local_rank, other.local_rank);
}

// Returns the first failure of each rank. What follows is a consequence.
std::vector<Failure> first_of_each_rank(const std::vector<Failure>& failures) {
  std::vector<Failure> first;
  for (const Failure& failure : failures) {
    const bool has_one =
        std::ranges::any_of(first, [&](const Failure& other) { return are_of_one_rank(other, failure); });
    if (!has_one) first.push_back(failure);
  }
  return first;
}

// A process aborts because of a failure that it has reported before. `earlier` are in the order of their lines.
bool follows(const Failure& abort, const std::vector<Failure>& earlier) {
  return abort.form == Form::abort && abort.cause == nullptr &&
         std::ranges::any_of(earlier, [&](const Failure& failure) {
           return failure.at.line < abort.at.line && failure.standing > Standing::went_on &&
                  may_be_of_one_rank(failure, abort);
         });
}

// Moves those failures to `others` for which `is_other` is true. It is called before any has moved.
void move_to(std::vector<Failure>& others, std::vector<Failure>& failures, auto is_other) {
  std::vector<Failure> left;
  for (const Failure& failure : failures) (is_other(failure) ? others : left).push_back(failure);
  failures = std::move(left);
}

// Moves failures that a program has printed to `others` if another failure ended that program.
void leave_uncaught(std::vector<Failure>& failures, std::vector<Failure>& others) {
  move_to(others, failures, [&](const Failure& failure) {
    return failure.standing < Standing::uncaught && std::ranges::any_of(failures, [&](const Failure& end) {
             return end.standing == Standing::uncaught && may_be_of_one_rank(failure, end);
           });
  });
}

// An exception whose rank is unknown was printed by its program if the rank that ended first has said why.
void leave_first_to_end(std::vector<Failure>& failures, std::vector<Failure>& others, const EndOfRank& end) {
  const bool is_said = end.rank && std::ranges::any_of(failures, [&](const Failure& failure) {
                         return failure.rank == end.rank && failure.standing == Standing::uncaught;
                       });
  if (!is_said) return;
  move_to(others, failures, [](const Failure& failure) {
    return !failure.rank && !failure.local_rank && failure.form == Form::exception;
  });
}

// The output of several ranks may be mixed without tags. Of two causes that are near each other, one says more.
void merge_near_causes(std::vector<Failure>& failures) {
  constexpr std::uint64_t kNearLines = 40;
  for (std::size_t i = 1; i < failures.size();) {
    Failure& before = failures[i - 1];
    const Failure& failure = failures[i];
    const bool is_near = !before.rank && !failure.rank && before.at.file == failure.at.file &&
                         failure.at.line - before.at.line <= kNearLines && before.cause != nullptr &&
                         failure.cause != nullptr;
    if (!is_near) {
      ++i;
      continue;
    }
    if (better_cause(before.cause, failure.cause) == failure.cause && failure.cause != before.cause) {
      before.cause = failure.cause;
      before.message = failure.message;
      before.place = failure.place;
    }
    before.standing = std::max(before.standing, failure.standing);
    failures.erase(failures.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// A launcher says again that a process has crashed which Python itself has reported.
void merge_crashes(std::vector<Failure>& failures) {
  for (std::size_t i = 0; i < failures.size();) {
    const Failure& said = failures[i];
    const auto crash = std::ranges::find_if(failures, [&](const Failure& failure) {
      return failure.form == Form::crash && failure.at.line < said.at.line && may_be_of_one_rank(failure, said) &&
             (failure.cause == nullptr || failure.cause == said.cause);
    });
    if (!said.is_of_launcher() || crash == failures.end()) {
      ++i;
      continue;
    }
    crash->cause = said.cause;
    failures.erase(failures.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Python exits with 1 after an exception.
bool ended_by_exception(const EndOfRank& end) {
  return end.text == "exit code 1" || end.text.starts_with("exit code 1,");
}

// Returns whether the failure is not the one that ended the rank of which the launcher speaks. An exception that
// nothing has caught ends with exit code 1, and is known by its traceback. Anything else may have been handled.
bool contradicts(const EndOfRank& end, const Failure& failure) {
  const bool is_known = failure.form == Form::abort || failure.is_of_launcher();
  if (is_known || failure.proof() != Proof::failure || end.is_hang || end.text.empty()) return false;
  const bool is_other = (end.rank && failure.rank && end.rank != failure.rank) ||
                        (!end.rank && end.local_rank && failure.local_rank && end.local_rank != failure.local_rank);
  if (is_other) return end.is_own || failure.standing != Standing::uncaught;
  const bool is_signal =
      failure.message.starts_with("Fatal Python error: ") || end.text.find("SIGABRT") != std::string::npos;
  return failure.form != Form::words && !is_signal && !ended_by_exception(end);
}

// Returns the failure that the launcher itself describes, or std::nullopt if it says nothing about the reason.
std::optional<Failure> failure_of(const EndOfRank& end) {
  constexpr std::pair<const char*, const char*> kBySignal[] = {{"SIGKILL", "worker-killed"},
                                                               {"SIGBUS", "worker-bus-error"},
                                                               {"SIGSEGV", "worker-segmentation-fault"},
                                                               {"Killed", "worker-killed"},
                                                               {"Bus error", "worker-bus-error"},
                                                               {"Segmentation fault", "worker-segmentation-fault"}};
  Failure failure{.rank = end.rank, .local_rank = end.local_rank, .at = end.at, .message = end.text, .place = ""};
  failure.cause = end.cause;
  if (failure.cause != nullptr && failure.cause->proof != Proof::failure) return std::nullopt;
  for (const auto& [signal, cause] : kBySignal) {
    if (end.text.find(signal) != std::string::npos) failure.cause = find_cause_by_id(cause);
  }
  if (failure.cause == nullptr && end.quoted.empty()) return std::nullopt;
  if (end.is_error_quoted || (ended_by_exception(end) && names_exception(end.quoted))) {
    failure.message = end.quoted;
  } else if (!end.quoted.empty()) {
    failure.message += (end.is_own ? "; its last line: " : "; the last line before it: ") + end.quoted;
  }
  return failure;
}

// Returns the last exception of the rank that ended with the exit code of an exception, or of each rank if it is
// unknown.
std::vector<Failure> last_exceptions(const std::vector<Failure>& caught, const std::optional<EndOfRank>& end) {
  std::vector<Failure> last;
  for (const Failure& failure : caught) {
    const bool is_other =
        end && !(may_equal(end->rank, failure.rank) && may_equal(end->local_rank, failure.local_rank));
    const bool may_have_ended =
        failure.form != Form::words && failure.proof() == Proof::failure && failure.standing > Standing::restarted;
    if (!may_have_ended || is_other) continue;
    std::erase_if(last, [&](const Failure& other) {
      return other.rank == failure.rank && other.local_rank == failure.local_rank;
    });
    last.push_back(failure);
  }
  return last;
}

// Returns what the launchers say about the first failure: that with the first time, if there are times.
std::optional<EndOfRank> first_end(std::span<const LogFindings> logs) {
  std::optional<EndOfRank> first;
  for (const LogFindings& log : logs) {
    if (!log.has_failed) continue;
    for (const EndOfRank& end : log.ends) {
      const bool is_earlier = first && end.time && (!first->time || end.time->microseconds < first->time->microseconds);
      if (!first || is_earlier) first = end;
    }
  }
  return first;
}

// The failures of all logs, by what they say about the cause.
struct SortedFailures {
  std::vector<Failure> own;
  std::vector<Failure> secondary;
  std::vector<Failure> caught;
  std::vector<Failure> reports;  // they say nothing about a cause, and are shown if there is nothing else
};

SortedFailures sorted(std::span<const LogFindings> logs, const std::optional<EndOfRank>& end, bool has_failed) {
  const Standing least = has_failed ? Standing::printed : Standing::said;
  SortedFailures all;
  for (const LogFindings& log : logs) {
    for (const Failure& failure : log.failures) {
      const bool is_caught = failure.standing < least || (end && contradicts(*end, failure));
      if (!is_caught && follows(failure, log.failures)) continue;
      const bool is_report = only_reports(failure) || (failure.form == Form::fragment && failure.cause == nullptr);
      auto& own_or_secondary = failure.proof() == Proof::failure ? all.own : all.secondary;
      (is_caught ? all.caught : is_report ? all.reports : own_or_secondary).push_back(failure);
    }
  }
  merge_near_causes(all.own);
  merge_crashes(all.own);
  leave_uncaught(all.own, all.caught);
  if (end) leave_first_to_end(all.own, all.caught, *end);
  return all;
}

// Returns what most likely ended the job if the logs show no failure that did.
std::vector<Failure> most_likely(const SortedFailures& all, const std::optional<EndOfRank>& end, bool has_failed) {
  std::vector<Failure> found;
  // Python prints what was buffered after its traceback, and other ranks go on for a while.
  if (has_failed && (!end || ended_by_exception(*end))) found = last_exceptions(all.caught, end);
  if (!found.empty()) return found;
  if (!end) {
    std::ranges::copy_if(all.caught, std::back_inserter(found), [&](const Failure& failure) {
      return failure.standing == Standing::in_thread && failure.cause == nullptr && all.secondary.empty();
    });
    return found;
  }
  const bool has_waited = std::ranges::any_of(all.secondary, [&](const Failure& failure) {
    return failure.form != Form::words && failure.rank && failure.rank == end->rank;
  });
  if (has_waited) return found;
  if (auto failure = failure_of(*end)) found.push_back(std::move(*failure));
  return found;
}

// Gives the only failure the rank of which the launcher speaks, if it is the one that ended that rank.
void name_rank(FailureGroup& group, const EndOfRank& end) {
  Failure& first = group.first;
  if (end.is_hang || first.rank || group.count != 1) return;
  const bool is_of_end = first.is_of_launcher() || first.form == Form::abort || first.form == Form::crash ||
                         (first.form != Form::words && ended_by_exception(end));
  const bool is_known = first.local_rank ? first.local_rank == end.local_rank : is_of_end;
  if (!is_known) return;
  if (first.message.starts_with("failed (exitcode: ")) first.message = end.text;
  first.rank = end.rank;
  first.local_rank = end.local_rank;
  group.ranks.clear();
  add_rank(group, first.rank ? first.rank : first.local_rank);
}

// Says which error is missing if all that is known are ranks that lost another one.
std::string missing_error(std::span<const LogFindings> logs, const std::vector<FailureGroup>& secondary) {
  std::set<int> silent;
  for (const LogFindings& log : logs) silent.insert(log.ranks.begin(), log.ranks.end());
  for (const FailureGroup& group : secondary) {
    for (const int rank : group.ranks) silent.erase(rank);
  }
  if (silent.empty()) return "the error of the rank that failed first. Give the logs of all ranks, as a directory";
  return "an error of " + base::ranks_text({silent.begin(), silent.end()}) + ", which printed none. Look at what " +
         base::plural(silent.size(), "it", "they") + " did last";
}

// PyTorch's rank 0 names those for which it waited: "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 4000 ms".
std::optional<HangVerdict> verdict_of_barrier(const std::vector<Failure>& secondary) {
  for (const Failure& failure : secondary) {
    std::string_view names = failure.message;
    names = names.substr(0, names.find(" failed to pass monitoredBarrier"));
    const std::size_t begin = names.rfind("Rank");
    if (names.size() == failure.message.size() || begin == std::string_view::npos) continue;
    HangVerdict verdict{.remedy = "Look at what the rank does instead, while the job hangs: py-spy dump --pid PID.",
                        .is_certain = true};
    for (const std::string_view name : base::split(names.substr(names.find(' ', begin) + 1), ',')) {
      if (const auto rank = base::parse_integer(base::trimmed(name), 0, 1'000'000))
        verdict.ranks.push_back(static_cast<int>(*rank));
    }
    if (verdict.ranks.empty()) continue;
    verdict.text =
        base::ranks_text(verdict.ranks, "has", "have") + " not reached the monitored barrier in which rank 0 waited";
    return verdict;
  }
  return std::nullopt;
}

}  // namespace

const Cause* Explanation::cause() const {
  return failures.empty() || !is_ordered ? nullptr : failures.front().first.cause;
}

bool Explanation::is_certain() const {
  if (!failures.empty()) return cause() != nullptr;
  return (hang && hang->is_certain) || (end && end->is_hang);
}

Explanation explain(std::span<const LogFindings> logs, std::optional<HangVerdict> hang) {
  Explanation result;
  result.end = first_end(logs);
  for (const LogFindings& log : logs) result.lines += log.lines;
  const bool has_failed = std::ranges::any_of(logs, &LogFindings::has_failed);
  SortedFailures all = sorted(logs, result.end, has_failed);
  if (all.own.empty()) all.own = most_likely(all, result.end, has_failed);
  if (all.own.empty() && all.secondary.empty() && !result.end) all.secondary = std::move(all.reports);
  result.failures = grouped(first_of_each_rank(all.own));
  result.is_ordered = put_first(result.failures);
  result.secondary = grouped(all.secondary);
  result.caught = grouped(all.caught);
  if (result.failures.size() == 1 && result.end) name_rank(result.failures.front(), *result.end);
  result.hang = hang ? std::move(hang) : verdict_of_barrier(all.secondary);
  if (result.is_certain()) return result;
  if (result.hang) result.missing = result.hang->missing;
  if (result.failures.empty() && !result.secondary.empty() && result.missing.empty()) {
    result.missing.push_back(missing_error(logs, result.secondary));
  }
  return result;
}

}  // namespace ddp::launcher
