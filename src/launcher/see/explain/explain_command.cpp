#include "launcher/see/explain/explain_command.h"

#include <span>
#include <vector>

#include "base/exit_code.h"
#include "launcher/see/explain/explanation.h"
#include "launcher/see/explain/explanation_text.h"
#include "launcher/see/explain/hang_records.h"
#include "launcher/see/explain/log_inputs.h"

namespace ddp::launcher {

namespace {

// Returns what to do about a hang. The kinds that are not certain have no remedy.
std::string remedy_for(HangKind kind) {
  switch (kind) {
    case HangKind::not_called:
      return "Look at what the rank does instead, while the job hangs: py-spy dump --pid PID. ddplaunch prints it by "
             "itself.";
    case HangKind::mismatch:
      return "Let all ranks call the same collectives in the same order, with the same sizes. "
             "TORCH_DISTRIBUTED_DEBUG=DETAIL names the first difference.";
    case HangKind::all_called:
      return "Test the transport: NCCL_DEBUG=INFO, and NCCL_P2P_DISABLE=1 (docs/how-to/nccl-p2p.md). Look for errors "
             "of "
             "GPUs: sudo dmesg -T | grep Xid.";
    case HangKind::circular_wait:
      return "Let all ranks call the collectives of the groups in the same order.";
    case HangKind::none:
    case HangKind::cannot_be_decided:
      break;
  }
  return "";
}

// Returns what the records of collectives of all logs say, or std::nullopt if there are none.
std::optional<HangVerdict> verdict_on(std::span<const LogFindings> logs) {
  std::vector<CollectiveRecords> records;
  for (const LogFindings& log : logs) records.insert(records.end(), log.records.begin(), log.records.end());
  if (records.empty()) return std::nullopt;
  const HangFinding finding = judge_hang(records, std::nullopt);
  HangVerdict verdict{.text = hang_text(finding), .remedy = "", .ranks = finding.culprits, .missing = {}};
  verdict.remedy = remedy_for(finding.kind);
  verdict.is_certain = !verdict.remedy.empty();
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
