#include "launcher/see/report/hang_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "launcher/run/ranks/rank_state.h"
#include "launcher/run/ranks/root_causes.h"
#include "launcher/run/stacks/stack_merge.h"
#include "launcher/run/watchdog/verdict_text.h"

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

constexpr std::size_t kMostRanks = 18;  // ranks with a line each, if nothing else is shown
constexpr std::size_t kMostStackLines = 8;
constexpr std::size_t kMostStackLinesOfNote = 3;
constexpr std::size_t kMostSourceLines = 4;  // lines of each evidence source

std::string_view state_name(char state) {
  constexpr std::array<std::pair<char, std::string_view>, 6> kNames = {{{'R', "running"},
                                                                        {'S', "sleeping"},
                                                                        {'D', "in the kernel, uninterruptible"},
                                                                        {'T', "stopped"},
                                                                        {'t', "stopped by a debugger"},
                                                                        {'Z', "exited (zombie)"}}};
  const auto* found = std::ranges::find(kNames, state, &std::pair<char, std::string_view>::first);
  return found == kNames.end() ? "in an unknown state" : found->second;
}

std::string since(std::uint64_t then, std::uint64_t now) {
  return base::human_duration(std::chrono::nanoseconds(now > then ? now - then : 0));
}

std::string at_place(const std::string& place) {
  return place.empty() ? "" : " at " + place;
}

// Returns the last call of a rank, over all its groups, and whether it is finished.
std::pair<const CallView*, bool> last_call_of(const RankView& rank) {
  std::pair<const CallView*, bool> last;
  for (std::size_t i = 0; i < rank.calls.size() && i < rank.page.groups.size(); ++i) {
    if (rank.calls[i].empty()) continue;
    const CallView& call = rank.calls[i].back();
    if (last.first != nullptr && last.first->called_at >= call.called_at) continue;
    last = {&call, rank.page.groups[i].finished >= call.sequence};
  }
  return last;
}

// Returns a text such as "waits in send int32[4] to rank 1 of world", or an empty one if the rank waits for none.
std::string open_transfer_text(const RankView& rank) {
  for (const GroupView& group : rank.page.groups) {
    const auto open = std::ranges::find_if(
        group.transfers, [](const TransferView& transfer) { return !transfer.is_done && transfer.is_waited_for; });
    if (open != group.transfers.end())
      return "waits in " + describe(*open) + " of " + group.name + at_place(open->place);
  }
  return "";
}

// Says what is known of a rank that shows no call.
std::string without_call_text(const RankView& rank) {
  if (rank.page.groups.empty() && rank.page.steps > 0) {
    return base::counted(static_cast<std::int64_t>(rank.page.steps), "heartbeat");
  }
  if (!rank.page.is_written) return rank.is_torch ? "waits in no collective" : "does not show its collectives";
  // NCCL's RAS counts calls and shows none.
  std::uint64_t launched = 0;
  for (const GroupView& group : rank.page.groups) launched += group.launches ? group.called : 0;
  if (launched > 0) return "has called " + base::counted(static_cast<std::int64_t>(launched), "collective");
  return rank.page.phase == RankPhase::done ? "has left its process groups" : "has called no collective yet";
}

// Returns a text such as "last call: all_reduce #12 at train.cpp:88, finished".
std::string last_call(const RankView& rank) {
  const auto& groups = rank.page.groups;
  if (!groups.empty() && groups.back().is_by_stack) {
    const bool is_known = rank.calls.size() == groups.size() && !rank.calls.back().empty();
    return "waits in " + (is_known ? describe_with_place(rank.calls.back().back()) : "a collective");
  }
  if (const std::string text = open_transfer_text(rank); !text.empty()) return text;
  const auto [call, is_finished] = last_call_of(rank);
  if (call == nullptr) return without_call_text(rank);
  return std::string(is_finished ? "last call: " : "waits in ") + describe(*call) + " #" +
         std::to_string(call->sequence) + at_place(call->place) + (is_finished ? ", finished" : "");
}

// Returns how far the rank's GPU is with the collective of the verdict, or an empty string if that is not known.
std::string gpu_text(const RankView& rank, const Verdict& verdict) {
  for (const GroupView& group : rank.page.groups) {
    const std::uint64_t number = verdict.sequence;
    if (key_of(group) != verdict.key() || verdict.is_transfer || group.gpu_queued < number) continue;
    if (!group.shows_gpu()) continue;
    const std::string what = group.gpu_finished >= number  ? " has finished #"
                             : group.gpu_started >= number ? " is executing #"
                                                           : " has not started #";
    return "; its GPU" + what + std::to_string(number);
  }
  return "";
}

// Returns an empty string if the activity was not measured.
std::string activity_text(const std::optional<RankActivity>& activity) {
  if (!activity) return "";
  const std::string cpu = ", CPU " + std::to_string(std::lround(100 * activity->cpu_share)) + " %";
  if (activity->still_for.count() > 0)
    return cpu + ", no sign of life for " + base::human_duration(activity->still_for);
  if (activity->last_sign == Sign::none || activity->last_sign == Sign::processor) return cpu;
  return cpu + "; " + std::string(describe(activity->last_sign));
}

// Describes what a rank is doing, from all that is known about it.
std::string whereabouts(const RankView& rank, const Verdict& verdict, std::uint64_t now) {
  std::string text = "  rank " + std::to_string(rank.rank) + " (" +
                     (rank.node.empty() ? "" : "node " + rank.node + ", ") + "pid " + std::to_string(rank.pid) + "): ";
  if (rank.has_ended) return text + "has exited; " + last_call(rank);
  const bool has_phase = rank.page.phase_since > 0 || rank.page.phase != RankPhase::starting;
  if (rank.page.is_written && has_phase) {
    text += name_of(rank.page.phase);
    if (!rank.page.phase_name.empty()) text += " '" + rank.page.phase_name + "'";
    const bool is_reported = rank.page.progress_done > 0;
    const std::uint64_t steps = is_reported || rank.page.groups.empty() ? 0 : steps_of(rank.page);
    if (rank.page.phase == RankPhase::training && steps > 0)
      text += ", " + base::counted(static_cast<std::int64_t>(steps), "step") + " done";
    if (rank.page.phase != RankPhase::training && rank.page.phase_since > 0)
      text += " for " + since(rank.page.phase_since, now);
    if (!rank.page.phase_place.empty()) text += " at " + rank.page.phase_place;
    text += "; ";
  }
  if (rank.page.progress_done > 0) {
    const std::string total = rank.page.progress_total > 0 ? " of " + std::to_string(rank.page.progress_total) : "";
    text += "step " + std::to_string(rank.page.progress_done) + total + "; ";
  }
  text += last_call(rank) + gpu_text(rank, verdict);
  if (!rank.process) return text + "; its process cannot be inspected";
  text += "; " + std::string(state_name(rank.process->state));
  if (!rank.process->waits_in.empty()) text += " in " + rank.process->waits_in;
  return text + activity_text(rank.activity);
}

// Shows where the threads are, and why the stacks of some ranks are missing.
std::vector<std::string> stack_lines(const std::vector<RankStacks>& stacks) {
  if (stacks.empty()) return {};
  std::vector<std::string> lines;
  const std::vector<MergedStack> merged = merge_stacks(stacks);
  for (const std::string& line : essence(merged, kMostStackLines)) lines.push_back("  " + line);
  if (!lines.empty()) lines.insert(lines.begin(), "  stacks of their main threads, innermost function first:");
  std::map<std::string, std::vector<int>> without;
  for (const RankStacks& rank : stacks) {
    if (rank.threads.empty()) without[base::join(rank.missing, "; ")].push_back(rank.rank);
  }
  std::size_t shown = 0;
  for (const auto& [why, ranks] : without) {
    if (++shown > 2) break;
    const bool have_ended = ranks.size() > 1 && why == "it has exited";
    lines.push_back("  no stack of " + base::ranks_text(ranks) + ": " + (have_ended ? "they have exited" : why));
  }
  return lines;
}

// Shows where the culprits are, for a note.
std::vector<std::string> culprits_stack_lines(const HangNews& news) {
  std::vector<RankStacks> theirs;
  for (const RankStacks& rank : news.evidence.stacks) {
    if (news.verdict.blames(rank.rank)) theirs.push_back(rank);
  }
  std::vector<std::string> lines;
  for (const std::string& line : essence(merge_stacks(theirs), kMostStackLinesOfNote)) lines.push_back("  " + line);
  return lines;
}

// Returns whether this is a worker of PyTorch's data loader that waits for work.
bool is_idle(const ThreadStack& thread) {
  for (std::size_t i = 1; i < thread.frames.size(); ++i) {
    const bool is_loop = thread.frames[i].starts_with("_worker_loop (");
    if (is_loop && thread.frames[i - 1].find("/queues.py:") != std::string::npos) return true;
  }
  return false;
}

// Returns where the processes that the culprits have started are. Processes at the same place are listed once.
std::vector<std::string> process_lines(const HangNews& news) {
  std::vector<std::string> lines;
  for (const RankStacks& rank : news.evidence.stacks) {
    std::map<std::vector<std::string>, const ThreadStack*> processes;
    for (const ThreadStack& thread : rank.threads) {
      if (thread.name.starts_with(kOfProcess) && !is_idle(thread)) processes.try_emplace(thread.frames, &thread);
    }
    if (!news.verdict.blames(rank.rank)) continue;
    for (const auto& [frames, thread] : processes) {
      if (lines.size() >= kMostStackLinesOfNote) break;
      const std::array<RankStacks, 1> one = {RankStacks{rank.rank, rank.source, {*thread}, {}}};
      const std::string who = base::ranks_text({rank.rank});
      for (const std::string& line : essence(merge_stacks(one), 2)) {
        lines.push_back("  " +
                        (line.starts_with(who) ? who + ", its " + thread->name + line.substr(who.size()) : line));
      }
    }
  }
  return lines;
}

// Shows what evidence sources other than the ranks report, or why they report nothing.
std::vector<std::string> source_lines(const std::vector<EvidenceSource>& sources) {
  std::vector<std::string> lines;
  for (const EvidenceSource& source : sources) {
    std::vector<std::string> said = source.essence;
    base::append(said, source.missing);
    for (std::size_t i = 0; i < said.size() && i < kMostSourceLines; ++i) {
      lines.push_back("  " + source.name + ": " + said[i]);
    }
    if (said.size() > kMostSourceLines) lines.back() = "  " + source.name + ": … (the rest is in the dump)";
    if (said.empty())
      lines.push_back("  " + source.name + ": no errors, no warnings (the dump contains its full answer)");
  }
  return lines;
}

// Returns whether PyTorch's recorder has shown the verdict's collective.
bool is_recorded(const HangNews& news) {
  return std::ranges::any_of(news.ranks, [&](const RankView& rank) {
    return std::ranges::any_of(rank.page.groups, [&](const GroupView& group) {
      return group.is_sampled && !group.launches && news.verdict.is_under_way_in(group);
    });
  });
}

// PyTorch's recorder does not record the root of a collective, so ranks may name different roots.
bool may_differ_in_root(const HangNews& news) {
  constexpr std::array<std::string_view, 4> kWithRoot = {"broadcast", "reduce ", "gather", "scatter"};
  return is_recorded(news) &&
         std::ranges::any_of(kWithRoot, [&](std::string_view name) { return news.verdict.call.starts_with(name); });
}

// Suggests what to try with the transport of data, if all ranks have called.
std::vector<std::string> hint_lines(const HangNews& news) {
  if (news.verdict.kind != VerdictKind::transport) return {};
  if (may_differ_in_root(news)) {
    return {
        "  check that all ranks name the same src or dst in this call (PyTorch does not record it); otherwise try "
        "GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME or, for GPUs, ddplaunch doctor --deep"};
  }
  std::vector<std::string> lines;
  if (is_recorded(news)) {
    lines.push_back(
        "  if the ranks use GPUs, one of them may still run earlier work: PyTorch does not record what a GPU has "
        "begun");
  }
  const bool on_gpus =
      std::ranges::any_of(news.ranks, [&](const RankView& rank) { return !gpu_text(rank, news.verdict).empty(); });
  lines.push_back(
      on_gpus
          ? "  ddplaunch doctor --deep on a node proves whether its GPUs can write to each other, also beside this job "
            "if "
            "they have memory left. NCCL_DEBUG=INFO makes NCCL log what it does"
          : "  try GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME=<the interface that reaches the other nodes>; for GPUs, "
            "try ddplaunch doctor --deep and NCCL_DEBUG=INFO");
  return lines;
}

// Describes programs whose collectives are not known, and why no more is known.
std::vector<std::string> evidence_lines(const HangNews& news) {
  if (news.verdict.kind != VerdictKind::silent && news.verdict.kind != VerdictKind::behind) return {};
  std::vector<int> without;
  for (const RankView& rank : news.ranks) {
    if (!rank.page.is_written && !rank.has_ended) without.push_back(rank.rank);
  }
  std::vector<std::string> lines;
  if (const std::vector<int> odd = find_odd_ranks(news.ranks); !odd.empty()) {
    lines.push_back("  " + base::ranks_text(odd, "waits", "wait") +
                    " neither for a message nor for another thread, unlike the other ranks");
  }
  if (!without.empty()) {
    lines.push_back("  " + base::ranks_text(without, "reports", "report") +
                    " neither collectives nor heartbeats; ddp_page.py or ddp_page.h can report them");
  }
  return lines;
}

// Says why stacks had to be read.
std::vector<std::string> stack_lines(const HangNews& news) {
  const auto is_recorded = [](const GroupView& group) { return !group.is_by_stack && group.called > 0; };
  const auto has_recording = [&](const RankView& rank) { return std::ranges::any_of(rank.page.groups, is_recorded); };
  const bool is_read = news.verdict.is_by_stack && std::ranges::any_of(news.ranks, &RankView::is_torch);
  if (!is_read || std::ranges::any_of(news.ranks, has_recording)) return {};
  return {"  this PyTorch does not record its collectives (NCCL's since 2.6, Gloo's since 2.12), so stacks were read"};
}

// A certain hang is reported at once, so its duration is left out.
std::string how_long(const HangNews& news) {
  const bool is_at_once = news.kind == HangNews::Kind::hung && news.judgement.limit.count() == 0;
  return is_at_once ? "" : ", for " + base::human_duration(news.age);
}

std::string stop_text(const HangNews& news) {
  const std::vector<int>& ranks = news.verdict.culprits;
  if (news.kind == HangNews::Kind::resumed) return base::ranks_text(ranks, "continues", "continue");
  return base::ranks_text(ranks, "is", "are") +
         " stopped (SIGSTOP or a debugger); --hang-timeout is paused meanwhile  [DDP-H02 stopped]";
}

// Says what the launcher will do about it.
std::string outlook(const HangNews& news) {
  const StallJudgement& judgement = news.judgement;
  const std::string limit = base::human_duration(judgement.limit) + " (" + judgement.why + ")";
  if (news.kind == HangNews::Kind::hung) {
    const std::string why = judgement.limit.count() == 0 ? judgement.why : "the limit was " + limit;
    return why + (news.ends_job ? "; the job is terminated" : "; the job continues (--hang-action)");
  }
  if (judgement.hang_class != HangClass::unknown && judgement.ends_in) {
    return std::string(news.ends_job ? "the job will be terminated in " : "the hang is reported again in ") +
           base::human_duration(*judgement.ends_in) + "; the limit is " + limit;
  }
  const std::string goes_on = "the job continues, because no --hang-timeout was given";
  if (!news.ends_job) return goes_on;
  return goes_on + (all_wait(news.verdict.kind) ? ". If no data moves, it" : ". Without a sign of life, it") +
         " will be terminated in " + base::human_duration(*judgement.ends_in);
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

std::vector<std::string> difference_lines(const Verdict& verdict) {
  if (verdict.around.empty() || verdict.is_by_stack) return {};
  std::vector<std::string> lines = {"  the calls before and after it:"};
  for (const RankCall& one : verdict.around) {
    const std::string who = one.call.sequence < verdict.sequence ? "both   " : "rank " + std::to_string(one.rank) + " ";
    // Other nodes show fingerprints of their calls, and describe them only if they are asked.
    const std::string what =
        one.call.what.empty() ? "a call that its node has not described" : describe_with_place(one.call);
    lines.push_back("    #" + std::to_string(one.call.sequence) + "  " + who + " " + what);
  }
  return lines;
}

std::vector<std::string> hang_report(const HangNews& news, std::uint64_t now) {
  using Kind = HangNews::Kind;
  if (news.kind == Kind::stopped || news.kind == Kind::resumed) return {stop_text(news)};
  if (news.kind == Kind::goes_on) {
    return {"the job continues: " + (news.verdict.group.empty() || news.verdict.is_by_stack
                                         ? std::string("the ranks are active again")
                                         : call_text(news.verdict) + " is complete")};
  }
  const bool nobody_waits = news.kind == Kind::asked && news.verdict.kind == VerdictKind::silent;
  std::vector<std::string> lines = {nobody_waits ? "state of the ranks:"
                                                 : hang_headline(news.verdict) + how_long(news)};
  base::append(lines, difference_lines(news.verdict));
  std::vector<std::string> stacks =
      news.kind == Kind::stalled ? culprits_stack_lines(news) : stack_lines(news.evidence.stacks);
  base::append(stacks, process_lines(news));
  base::append(stacks, source_lines(news.evidence.sources));
  const std::size_t most_ranks = kMostRanks - std::min(kMostRanks - 2, stacks.size() + lines.size() - 1);
  // The culprits come first. All other ranks follow if the job has hung, if the user has asked, or if there are no
  // culprits.
  std::size_t shown = 0;
  std::size_t left_out = 0;
  for (const bool culprits : {true, false}) {
    const bool wanted =
        culprits || news.kind == Kind::hung || news.kind == Kind::asked || news.verdict.culprits.empty();
    for (const RankView& rank : news.ranks) {
      if (!wanted || news.verdict.blames(rank.rank) != culprits) continue;
      shown < most_ranks ? lines.push_back(whereabouts(rank, news.verdict, now)) : static_cast<void>(++left_out);
      ++shown;
    }
  }
  if (left_out > 0) lines.push_back("  … and " + base::counted(static_cast<std::int64_t>(left_out), "more rank"));
  base::append(lines, hint_lines(news));
  base::append(lines, evidence_lines(news));
  base::append(lines, stack_lines(news));
  base::append(lines, stacks);
  if (news.kind != Kind::asked) {
    lines.push_back("  " + outlook(news));
  } else {
    if (!news.explanation.empty()) lines.push_back("  " + news.explanation);
    base::append(lines, straggler_table_lines(news.stragglers));
  }
  return lines;
}

bool lacks_py_spy(const Evidence& evidence) {
  return std::ranges::any_of(evidence.stacks, [](const RankStacks& rank) {
    return std::ranges::any_of(rank.missing,
                               [](const std::string& why) { return why.starts_with("py-spy: not found"); });
  });
}

}  // namespace ddp::launcher
