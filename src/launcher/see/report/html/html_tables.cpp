#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"

namespace ddp::launcher {
namespace {

// A time of 0 was not recorded.
std::optional<double> known(double seconds) {
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

std::string seconds_cell(std::optional<double> seconds) {
  return seconds ? number_cell(*seconds, seconds_text(*seconds)) : number_cell(-1, "–");
}

// Holds what is known of a rank from the history and from its worker; either may be missing.
struct RankRow {
  const RankHistory* history = nullptr;
  const WorkerRecord* worker = nullptr;
};

std::string rank_row(int rank, const RankRow& row, bool is_target) {
  const std::string number = std::to_string(rank);
  const std::string node = row.history != nullptr ? row.history->node : row.worker->node;
  std::string html = "<tr data-rank=" + number + " data-node=\"" + html_text(node) + "\"" +
                     (is_target ? " id=rank-" + number : "") + "><td class=n data-v=" + number + ">" +
                     (is_target ? number : "<a href=\"#rank-" + number + "\">" + number + "</a>") + "</td>" +
                     text_cell(node);
  const WorkerRecord none;
  const WorkerRecord& worker = row.worker == nullptr ? none : *row.worker;
  html += worker.pid == 0 ? number_cell(0, "–") : number_cell(worker.pid, std::to_string(worker.pid));
  html += text_cell(worker.gpu.empty() ? "–" : worker.gpu);
  const RankHistory empty;
  const RankHistory& history = row.history == nullptr ? empty : *row.history;
  const double whole = seconds_of(history);
  html += number_cell(static_cast<double>(history.steps), std::to_string(history.steps));
  html += seconds_cell(history.step_median) + seconds_cell(history.step_p99);
  for (const RankState state : {RankState::computing, RankState::phase, RankState::collective, RankState::waiting}) {
    const double part = history.seconds[static_cast<std::size_t>(state)];
    html += number_cell(whole > 0 ? part / whole : 0, share_text(part, whole));
  }
  html += number_cell(history.waited_for_seconds, seconds_text(history.waited_for_seconds));
  html += worker.peak_memory == 0
              ? number_cell(0, "–")
              : number_cell(static_cast<double>(worker.peak_memory), base::human_bytes(worker.peak_memory));
  return html + text_cell(worker.end.empty() ? "–" : worker.end) + "</tr>\n";
}

std::string rate_cell(std::optional<double> rate) {
  return rate ? number_cell(*rate, rate_text(*rate)) : number_cell(-1, "–");
}

std::string last_cell(const CollectiveHistory& row) {
  if (!row.last_rank) return number_cell(-1, "–");
  const double part = row.matched > 0 ? static_cast<double>(row.last_count) / static_cast<double>(row.matched) : 0;
  return "<td class=n data-v=" + plain_number(part) + ">" + rank_link(*row.last_rank) + ", " +
         html_text(share_text(static_cast<double>(row.last_count), static_cast<double>(row.matched))) + "</td>";
}

std::string collective_row(const CollectiveHistory& row) {
  return "<tr>" + text_cell(row.operation) + text_cell(row.name) + text_cell(row.group) +
         number_cell(row.size, std::to_string(row.size)) +
         number_cell(static_cast<double>(row.count), std::to_string(row.count)) +
         number_cell(static_cast<double>(row.bytes), base::human_bytes(row.bytes)) + seconds_cell(known(row.median)) +
         seconds_cell(known(row.p99)) + seconds_cell(known(row.longest)) +
         seconds_cell(row.gpu_median ? row.gpu_median : row.transfer_median) + last_cell(row) +
         rate_cell(row.algorithm_rate) + rate_cell(row.bus_rate) + "</tr>\n";
}

// Says which collectives were recorded.
std::string record_note(const AttemptRecord& attempt) {
  std::string note = attempt.recording == "all" ? "All collectives were recorded."
                                                : "A sample of the collectives was recorded: 32 in a row of every 256. "
                                                  "<code>--record=all</code> records all of them.";
  const AttemptHistory& history = *attempt.history;
  if (history.dropped > 0)
    note += " " + std::to_string(history.dropped) + " records were lost, because the workers wrote too fast.";
  if (history.other_collectives > 0)
    note += " " + std::to_string(history.other_collectives) + " records of other names are left out.";
  if (history.clock_error > 0)
    note += " Times of different nodes may differ by " + seconds_text(history.clock_error) + ".";
  return note;
}

}  // namespace

const AttemptRecord* last_with_history(const RunRecord& run) {
  const auto found = std::find_if(run.attempts.rbegin(), run.attempts.rend(),
                                  [](const AttemptRecord& each) { return each.history.has_value(); });
  return found == run.attempts.rend() ? nullptr : &*found;
}

double seconds_of(const RankHistory& rank) {
  double sum = 0;
  for (const double seconds : rank.seconds) sum += seconds;
  return sum - rank.seconds[static_cast<std::size_t>(RankState::ended)];
}

std::string ranks_section(const RunRecord& run) {
  if (run.attempts.empty()) return "";
  const AttemptRecord& attempt = run.attempts.back();
  const AttemptRecord* const with_history = last_with_history(run);
  const bool has_strips = with_history != nullptr && !with_history->history->ranks.empty();
  std::map<int, RankRow> rows;
  for (const WorkerRecord& worker : attempt.workers) rows[worker.rank].worker = &worker;
  if (attempt.history) {
    for (const RankHistory& rank : attempt.history->ranks) rows[rank.rank].history = &rank;
  }
  if (rows.empty()) return "";
  static constexpr std::array<std::string_view, 14> kHeads = {
      "#rank",      "node",   "#pid",        "GPU",      "#steps",      "#step, median", "#step, p99",
      "#computing", "#phase", "#collective", "#waiting", "#waited for", "#peak memory",  "end"};
  std::string html =
      "<section id=numbers class=card>\n<h2>The ranks in numbers</h2>\n<p>Attempt " + std::to_string(attempt.number) +
      ". <em>Waited for</em> is the time in which other ranks had called a collective that this rank had "
      "not.</p>\n<div class=\"scroll tall\" tabindex=0 role=group aria-label=\"The ranks in numbers\"><table "
      "class=sortable>\n" +
      table_head(kHeads) + "<tbody>\n";
  for (const auto& [rank, row] : rows) html += rank_row(rank, row, !has_strips);
  return html + "</tbody></table></div>\n</section>\n";
}

std::string collectives_section(const RunRecord& run) {
  const auto attempt = std::find_if(run.attempts.rbegin(), run.attempts.rend(), [](const AttemptRecord& each) {
    return each.history && !each.history->collectives.empty();
  });
  if (attempt == run.attempts.rend()) return "";
  static constexpr std::array<std::string_view, 13> kHeads = {
      "operation", "name",     "group",     "#ranks",        "#count", "#data", "#median",
      "#p99",      "#longest", "#transfer", "#slowest rank", "#algbw", "#busbw"};
  std::string html =
      "<section id=collectives class=card>\n<h2>Collectives</h2>\n<p>Attempt " + std::to_string(attempt->number) +
      ". " + record_note(*attempt) +
      " The first three times are from the call on a rank to its end on that rank. <em>Transfer</em> is the median "
      "from the last rank's call to the last end, or the time on the GPU. The slowest rank called last most often. "
      "<em>algbw</em> and <em>busbw</em> are those of nccl-tests for the transfer.</p>\n"
      "<div class=\"scroll tall\" tabindex=0 role=group aria-label=\"Collectives\"><table class=sortable>\n" +
      table_head(kHeads) + "<tbody>\n";
  for (const CollectiveHistory& row : attempt->history->collectives) html += collective_row(row);
  return html + "</tbody></table></div>\n</section>\n";
}

}  // namespace ddp::launcher
