#include "launcher/start/doctor/report.h"

#include <algorithm>
#include <vector>

#include "base/printable.h"
#include "base/text.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::string_view kGradeNames[] = {"ok", "unknown", "warn", "FAIL"};

std::string column(std::string_view text, std::size_t width) {
  std::string cell(text);
  cell.resize(std::max(width, cell.size()), ' ');
  return cell;
}

std::string_view name_of(Grade grade) {
  return kGradeNames[static_cast<std::size_t>(grade)];
}

}  // namespace

std::string report_text(const Node& node, std::span<const Finding> findings) {
  constexpr std::size_t kGradeWidth = 9;
  constexpr std::size_t kNameWidth = 15;
  std::string text = base::printable(node.host_name) + ": " + base::counted(node.workers, "worker") + ", " +
                     base::counted(std::ssize(node.gpus), "GPU") + "\n";
  for (const Finding& finding : findings) {
    text += "  " + column(name_of(finding.grade), kGradeWidth) + column(finding.check, kNameWidth) +
            base::printable(finding.text) + "\n";
    if (!finding.remedy.empty())
      text += "  " + column("", kGradeWidth + kNameWidth) + "try: " + base::printable(finding.remedy) + "\n";
  }
  std::vector<std::string> counts;
  for (const Grade grade : {Grade::fail, Grade::warn, Grade::unknown, Grade::ok}) {
    const auto count = std::ranges::count(findings, grade, &Finding::grade);
    if (count > 0) counts.push_back(std::to_string(count) + " " + std::string(name_of(grade)));
  }
  return text + base::join(counts, ", ") + "\n";
}

std::string report_json(const Node& node, std::span<const Finding> findings, int exit_code) {
  wire::Json json = {{"node", node.host_name},
                     {"workers", node.workers},
                     {"gpus", node.gpus.size()},
                     {"exit_code", exit_code},
                     {"findings", wire::json_of(Findings(findings.begin(), findings.end()))}};
  return json.dump(2, ' ', false, wire::Json::error_handler_t::replace) + "\n";
}

int exit_code_of(std::span<const Finding> findings, bool is_strict) {
  const auto has = [&](Grade grade) { return std::ranges::find(findings, grade, &Finding::grade) != findings.end(); };
  if (has(Grade::fail)) return kExitFail;
  return is_strict && has(Grade::warn) ? kExitWarn : 0;
}

}  // namespace ddp::launcher::doctor
