// `ddplaunch explain` reads logs and dumps that other programs wrote, so it must accept any bytes.
#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "fuzz/fuzz_targets.h"
#include "launcher/see/explain/explanation.h"
#include "launcher/see/explain/explanation_text.h"
#include "launcher/see/explain/flight_dump.h"
#include "launcher/see/explain/hang_records.h"
#include "launcher/see/explain/log_reader.h"
#include "launcher/see/explain/plain_value.h"
#include "launcher/see/explain/watchdog_lines.h"

namespace ddp::fuzz {
namespace {

std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// A rank without records is never blamed, and every finding can be put into words.
void judge(const std::vector<launcher::CollectiveRecords>& records) {
  for (const std::optional<int> world_size : {std::optional<int>(), std::optional(4)}) {
    const launcher::HangFinding finding = launcher::judge_hang(records, world_size);
    DDP_CHECK(launcher::hang_text(finding).empty() == (finding.kind == launcher::HangKind::none), records.size());
    if (finding.has_ranks_of_group || finding.kind != launcher::HangKind::not_called) continue;
    DDP_CHECK(!finding.culprits.empty(), records.size());
    for (const int culprit : finding.culprits) {
      DDP_CHECK(
          std::any_of(records.begin(), records.end(),
                      [&](const launcher::CollectiveRecords& one) { return one.rank == culprit || one.rank < 0; }),
          culprit);
    }
  }
}

}  // namespace

void explain_pickle(Input input) {
  const auto data = launcher::read_pickle(text_of(input));
  if (!data) return;
  for (const launcher::PlainNode& node : data.value().nodes) {
    for (const std::uint32_t item : node.items) DDP_CHECK(item < data.value().nodes.size(), item);
  }
}

void explain_dump(Input input) {
  const auto records = launcher::read_flight_dump(text_of(input), "rank_1");
  if (records) judge(records.value());
}

void explain_lines(Input input) {
  launcher::WatchdogLines lines;
  std::string_view text = text_of(input);
  while (!text.empty()) lines.add(std::nullopt, base::take_line(text));
  judge(lines.records());
}

// The parts in which a log is read do not matter, and each answer can be printed.
void explain_log(Input input) {
  const std::string_view text = text_of(input);
  launcher::LogReader whole("x.log", std::nullopt);
  launcher::LogReader parts("x.log", std::nullopt);
  whole.add(text);
  for (std::size_t at = 0; at < text.size(); at += 13) parts.add(text.substr(at, 13));
  const launcher::LogFindings findings = whole.finish();
  const launcher::LogFindings same = parts.finish();
  DDP_CHECK(findings.lines == same.lines && findings.failures.size() == same.failures.size(), findings.lines);
  const launcher::Explanation explanation = launcher::explain({&findings, 1}, std::nullopt);
  DDP_CHECK(!launcher::explanation_text(explanation).empty() && !launcher::explanation_json(explanation).empty(),
            findings.lines);
}

}  // namespace ddp::fuzz
