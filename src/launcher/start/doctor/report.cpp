#include "launcher/start/doctor/report.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/start/doctor/between/between_findings.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::string_view kGradeNames[] = {"ok", "unknown", "warn", "FAIL"};
constexpr std::size_t kGradeWidth = 9;
constexpr std::size_t kNameWidth = 15;

std::string column(std::string_view text, std::size_t width) {
  std::string cell(text);
  cell.resize(std::max(width, cell.size()), ' ');
  return cell;
}

std::string_view name_of(Grade grade) {
  return kGradeNames[static_cast<std::size_t>(grade)];
}

// `nodes` says which nodes have found it, if there are several.
std::string line_of(const Finding& finding, const std::string& nodes = "") {
  std::string text = "  " + column(name_of(finding.grade), kGradeWidth) + column(finding.check, kNameWidth) + nodes +
                     base::printable(finding.text) + "\n";
  if (!finding.remedy.empty())
    text += "  " + column("", kGradeWidth + kNameWidth) + "try: " + base::printable(finding.remedy) + "\n";
  return text;
}

// Returns "1 FAIL, 2 warn, 20 ok".
std::string counts_of(const Findings& findings) {
  std::vector<std::string> counts;
  for (const Grade grade : {Grade::fail, Grade::warn, Grade::unknown, Grade::ok}) {
    const auto count = std::ranges::count(findings, grade, &Finding::grade);
    if (count > 0) counts.push_back(std::to_string(count) + " " + std::string(name_of(grade)));
  }
  return base::join(counts, ", ");
}

std::string text_of_node(const NodeFindings& node, bool is_alone) {
  std::string text = (is_alone ? "" : "node " + std::to_string(node.node) + ", ") + base::printable(node.host) + ": " +
                     base::counted(node.workers, "worker") + ", " + base::counted(node.gpus, "GPU") +
                     (is_alone ? "" : ": " + counts_of(node.findings)) + "\n";
  for (const Finding& finding : node.findings) text += is_alone ? line_of(finding) : "";
  return text;
}

std::string nodes_text(const std::vector<int>& nodes) {
  return base::plural(nodes.size(), "node ", "nodes ") + base::rank_list(nodes);
}

std::string text_of(const Difference& difference) {
  std::vector<std::string> texts;
  for (const auto& [value, nodes] : difference.values) {
    texts.push_back((value.empty() ? "none" : base::printable(value)) + " on " + nodes_text(nodes));
  }
  return "  " + column("", kGradeWidth) + column(base::printable(difference.name), kNameWidth) +
         base::join(texts, "; ") + "\n";
}

}  // namespace

Findings all_findings(const NodeResult& result) {
  Findings all;
  for (const NodeFindings& node : result.job.findings)
    all.insert(all.end(), node.findings.begin(), node.findings.end());
  if (result.expected == 1) return all;
  const Findings between = findings_between(result.job, result.expected);
  all.insert(all.end(), between.begin(), between.end());
  return all;
}

std::vector<SharedFinding> troubles_of(const JobRecord& job) {
  std::vector<SharedFinding> troubles;
  for (const NodeFindings& node : job.findings) {
    for (const Finding& finding : node.findings) {
      if (finding.grade == Grade::ok) continue;
      auto known = std::ranges::find(troubles, finding, &SharedFinding::finding);
      if (known == troubles.end()) known = troubles.insert(known, {finding, {}});
      known->nodes.push_back(node.node);
    }
  }
  std::ranges::stable_sort(troubles, std::greater(), [](const SharedFinding& each) { return each.finding.grade; });
  return troubles;
}

std::string report_text(const NodeResult& result) {
  const bool is_alone = result.expected == 1;
  std::string text;
  for (const NodeFindings& node : result.job.findings) text += text_of_node(node, is_alone);
  if (!is_alone) {
    for (const auto& [finding, nodes] : troubles_of(result.job)) text += line_of(finding, nodes_text(nodes) + ": ");
    text += "between the " + base::counted(result.expected, "node") + "\n";
    for (const Finding& finding : findings_between(result.job, result.expected)) text += line_of(finding);
    const std::vector<Difference> all = differences(result.job);
    if (!all.empty()) text += "differences\n";
    for (const Difference& difference : all) text += text_of(difference);
  }
  return text + counts_of(all_findings(result)) + "\n";
}

std::string report_json(const NodeResult& result, int exit_code) {
  wire::Json json = {{"exit_code", exit_code}, {"nodes", wire::Json::array()}};
  for (const NodeFindings& node : result.job.findings) {
    json["nodes"].push_back({{"node", node.node},
                             {"host", node.host},
                             {"workers", node.workers},
                             {"gpus", node.gpus},
                             {"findings", wire::json_of(node.findings)}});
  }
  const bool is_alone = result.expected == 1;
  json["between"] = wire::json_of(is_alone ? Findings() : findings_between(result.job, result.expected));
  json["differences"] = wire::Json::array();
  for (const Difference& difference : differences(result.job)) {
    wire::Json values = wire::Json::array();
    for (const auto& [value, nodes] : difference.values) values.push_back({{"value", value}, {"nodes", nodes}});
    json["differences"].push_back({{"name", difference.name}, {"values", values}});
  }
  json["speeds"] = wire::json_of(result.job.speeds);
  json["to_leave_out"] = is_alone ? std::vector<int>() : nodes_to_leave_out(result.job, result.expected);
  return json.dump(2, ' ', false, wire::Json::error_handler_t::replace) + "\n";
}

int exit_code_of(const Findings& findings, bool is_strict) {
  const auto has = [&](Grade grade) { return std::ranges::find(findings, grade, &Finding::grade) != findings.end(); };
  if (has(Grade::fail)) return kExitFail;
  return is_strict && has(Grade::warn) ? kExitWarn : 0;
}

}  // namespace ddp::launcher::doctor
