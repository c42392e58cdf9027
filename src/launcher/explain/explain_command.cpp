#include "launcher/explain/explain_command.h"

#include <span>
#include <utility>
#include <vector>

#include "base/exit_code.h"
#include "launcher/explain/explanation.h"
#include "launcher/explain/explanation_text.h"
#include "launcher/explain/hang_records.h"
#include "launcher/explain/log_inputs.h"

namespace ddp::launcher {

namespace {

// Returns what the records of collectives of all logs say, or std::nullopt if there are none.
std::optional<HangVerdict> verdict_on(std::span<const LogFindings> logs) {
  std::vector<CollectiveRecords> records;
  for (const LogFindings& log : logs) records.insert(records.end(), log.records.begin(), log.records.end());
  if (records.empty()) return std::nullopt;
  const HangFinding finding = judge_hang(records, std::nullopt);
  HangVerdict verdict{.text = hang_text(finding), .ranks = finding.culprits, .missing = {}};
  verdict.is_certain = finding.kind != HangKind::none && finding.kind != HangKind::cannot_be_decided;
  if (!verdict.is_certain && !finding.missing.empty()) verdict.missing.push_back(finding.missing);
  return verdict;
}

}  // namespace

int run_explain_command(const ExplainOptions& options, Log& log, const std::function<int(const std::string&)>& print) {
  const auto fail = [&](const std::string& text) {
    log.write({LogLevel::error, LogSource::launcher, text});
    return base::kExitOwnFault;
  };
  const auto files = find_log_inputs(options.inputs);
  if (!files) return fail(files.error().message);
  const auto read = read_log_inputs(files.value());
  if (!read) return fail(read.error().message);
  for (const std::string& note : read.value().notes) log.write({LogLevel::warning, LogSource::launcher, note});
  const Explanation explanation = explain(read.value().logs, verdict_on(read.value().logs));
  const int printed = print(options.json ? explanation_json(explanation) : explanation_text(explanation));
  if (printed != 0) return printed;
  return explanation.is_certain() ? 0 : base::kExitNotExplained;
}

}  // namespace ddp::launcher
