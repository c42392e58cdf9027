#include "launcher/start/doctor/between/check_decision.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/start/doctor/between/between_findings.h"
#include "launcher/start/doctor/report.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::string_view kProof = "peer-writes";
constexpr std::string_view kCause = "peer-access";

std::string line_of(const std::string& where, const Finding& finding) {
  const std::string remedy = finding.remedy.empty() ? "" : " (try: " + base::printable(finding.remedy) + ")";
  return "check of " + where + ": " + finding.check + ": " + base::printable(finding.text) + remedy;
}

// Says what may cause the broken writes that were proved.
LogLine cause_of_proof(const std::string& where, Finding finding, LogSource source) {
  if (finding.remedy.starts_with("ddplaunch doctor --deep")) finding.remedy.clear();  // that is done
  return {LogLevel::error, source, line_of(where, finding)};
}

// Returns a line for each finding of this grade. If `only` is set, only that node's.
std::vector<std::string> lines_of(const NodeResult& result, Grade grade, std::optional<int> only) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& where, const Findings& findings) {
    for (const Finding& finding : findings) {
      if (finding.grade == grade) lines.push_back(line_of(where, finding));
    }
  };
  const bool is_alone = result.expected == 1;
  for (const auto& [finding, nodes] : troubles_of(result.job)) {
    const bool is_wanted = !only || std::ranges::find(nodes, *only) != nodes.end();
    if (is_wanted)
      add(is_alone ? "this node" : names_of_nodes(result.job, only ? std::vector{*only} : nodes), {finding});
  }
  if (!is_alone && !only) add("the nodes", findings_between(result.job, result.expected));
  return lines;
}

}  // namespace

HangFindings explain_hang(const NodeResult& result) {
  // These checks concern what collectives use.
  constexpr std::string_view kChecks[] = {kProof,       kCause,      "gpu-health", "fabric", "rdma",
                                          "interfaces", "pci-links", "gpus",       "driver", "shared-memory"};
  const auto is_wanted = [&](const SharedFinding& each) {
    return each.finding.grade >= Grade::warn && std::ranges::find(kChecks, each.finding.check) != std::end(kChecks);
  };
  HangFindings found;
  const auto say = [&](const std::string& where, const Finding& finding) {
    found.lines.push_back({LogLevel::error, LogSource::hangs, line_of(where, finding)});
  };
  const bool is_alone = result.expected == 1;
  std::set<std::string> fallbacks;
  for (const SharedFinding& each : troubles_of(result.job)) {
    const bool is_proof = each.finding.check == kProof && each.finding.grade == Grade::fail;
    if (is_proof) fallbacks.insert(each.finding.fallback);
    // What is broken has a cause, also if only root can see it.
    const bool may_be_cause = each.finding.check == kCause && !fallbacks.empty();
    const std::string where = is_alone ? "this node" : names_of_nodes(result.job, each.nodes);
    if (is_wanted(each)) say(where, each.finding);
    if (each.finding.check == kProof && each.finding.grade == Grade::unknown)
      found.lines.push_back({LogLevel::note, LogSource::hangs, line_of(where, each.finding)});
    if (may_be_cause && !is_wanted(each)) found.lines.push_back(cause_of_proof(where, each.finding, LogSource::hangs));
  }
  if (!is_alone) {
    for (const Finding& finding : findings_between(result.job, result.expected)) {
      if (finding.grade == Grade::fail) fallbacks.insert(finding.fallback);
      if (finding.grade >= Grade::warn && finding.check != "clocks") say("the nodes", finding);
    }
  }
  if (found.lines.empty()) {
    found.lines.push_back({LogLevel::note, LogSource::hangs,
                           std::string("the check found nothing wrong ") +
                               (is_alone ? "with the GPUs of this node" : "between the GPUs and the nodes")});
  }
  if (result.node != 0) found.lines.clear();
  // A way without a fallback would stop the job again.
  if (fallbacks.size() == 1) found.fallback = *fallbacks.begin();
  return found;
}

std::vector<LogLine> explain_proof(const std::string& where, const Findings& findings) {
  const std::string place = where + ", beside its workers";
  constexpr LogSource kSource = LogSource::launcher;  // the event log has these lines, unlike reports of a hang
  Grade worst = Grade::ok;
  std::vector<LogLine> lines;
  for (const Finding& finding : findings) {
    if (finding.check != kProof) continue;
    worst = std::max(worst, finding.grade);
    const LogLevel level = finding.grade == Grade::fail ? LogLevel::error : LogLevel::note;
    lines.push_back({level, kSource, line_of(place, finding)});
  }
  for (const Finding& finding : findings) {
    // What is broken has a cause.
    if (finding.check == kCause && finding.grade != Grade::ok && worst == Grade::fail)
      lines.push_back(cause_of_proof(place, finding, kSource));
  }
  return lines;
}

CheckDecision decide_on_check(const NodeResult& result, const NodesPlan& nodes) {
  CheckDecision decision;
  const auto say = [&](LogLevel level, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) decision.lines.push_back({level, LogSource::launcher, line});
  };
  const bool is_alone = result.expected == 1;
  std::vector<int> bad = is_alone ? std::vector<int>() : nodes_to_leave_out(result.job, result.expected);
  if (is_alone && exit_code_of(all_findings(result), false) != 0) bad = {0};
  const int good = result.expected - static_cast<int>(bad.size());
  const bool is_first_bad = !bad.empty() && bad.front() == 0;
  const bool can_start = bad.empty() || (!is_alone && good >= nodes.min && !is_first_bad);
  const bool is_bad = std::ranges::find(bad, result.node) != bad.end();
  const LogLevel level = can_start && !is_bad ? LogLevel::warning : LogLevel::error;
  if (result.node == 0) {
    say(LogLevel::warning, lines_of(result, Grade::warn, std::nullopt));
    say(level, lines_of(result, Grade::fail, std::nullopt));
  } else if (is_bad) {
    say(level, lines_of(result, Grade::fail, result.node));
  }
  decision.nodes = good;
  if (bad.empty()) return decision;
  const std::string which = names_of_nodes(result.job, bad);
  if (!can_start) {
    decision.starts = false;
    const std::string why = is_alone       ? "a check fails"
                            : is_first_bad ? "a check fails on node 0, at which the others meet"
                                           : which + base::plural(std::ssize(bad), " fails", " fail") +
                                                 " a check, and --nnodes=" + nodes.asked + " needs " +
                                                 base::counted(nodes.min, "node");
    say(LogLevel::error, {"the job does not start: " + why + ". ddplaunch doctor, with the same options, shows more"});
    return decision;
  }
  decision.starts = !is_bad;
  decision.is_left_out = is_bad;
  if (is_bad) {
    say(LogLevel::error, {"this node is left out of the job, because it fails a check. The job starts on the other " +
                          base::counted(good, "node")});
  } else if (result.node == 0) {
    say(LogLevel::warning, {which + base::plural(std::ssize(bad), " is", " are") +
                            " left out of the job, which starts on " + base::counted(good, "node")});
  }
  return decision;
}

}  // namespace ddp::launcher::doctor
