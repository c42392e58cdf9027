#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"

namespace ddp::launcher {
namespace {

// Returns the attempt whose end decides about the run, or null if there is none.
const AttemptRecord* last_attempt(const RunRecord& run) {
  return run.attempts.empty() ? nullptr : &run.attempts.back();
}

// Returns the latest news of a stall that is not over, or null.
const StallRecord* open_stall(const AttemptRecord& attempt) {
  const StallRecord* open = nullptr;
  for (const StallRecord& stall : attempt.stalls) {
    const bool is_over = stall.state == "goes_on" || stall.state == "resumed";
    if (stall.state != "asked") open = is_over ? nullptr : &stall;
  }
  return open;
}

std::string worker_facts(const AttemptRecord& attempt, int rank) {
  const auto worker = std::ranges::find(attempt.workers, rank, &WorkerRecord::rank);
  std::string facts = rank_link(rank);
  if (worker == attempt.workers.end()) return facts;
  if (!worker->node.empty()) facts += " on node " + html_text(worker->node);
  if (worker->pid != 0) facts += ", pid " + std::to_string(worker->pid);
  if (!worker->gpu.empty()) facts += ", GPU " + html_text(worker->gpu);
  if (worker->peak_memory != 0) facts += ", peak memory " + base::human_bytes(worker->peak_memory);
  return facts;
}

std::string culprit_lines(const AttemptRecord& attempt, std::span<const int> culprits) {
  if (culprits.empty()) return "";
  if (culprits.size() > 8) return "<p>Culprits: " + rank_links(culprits) + "</p>\n";
  std::string lines;
  for (const int rank : culprits) lines += "<p>Culprit: " + worker_facts(attempt, rank) + "</p>\n";
  return lines;
}

// The first line is the headline, and the others are quoted as the console shows them.
std::string text_html(const std::vector<std::string>& text) {
  if (text.empty()) return "";
  const std::vector<std::string> rest(text.begin() + 1, text.end());
  return "<p class=headline>" + html_text(text.front()) + "</p>\n" +
         (rest.empty() ? "" : "<pre>" + html_lines(rest) + "</pre>\n");
}

// Names the rank for which the others waited much longer than for any other one.
std::string straggler_sentence(const AttemptRecord& attempt) {
  constexpr double kWorthASentence = 0.1;  // share of the time
  constexpr double kLeastSeconds = 1;
  if (!attempt.history || attempt.history->ranks.empty()) return "";
  const auto longest = std::ranges::max_element(attempt.history->ranks, {}, &RankHistory::waited_for_seconds);
  double next = 0;
  for (const RankHistory& rank : attempt.history->ranks) {
    if (&rank != &*longest) next = std::max(next, rank.waited_for_seconds);
  }
  const double seconds = longest->waited_for_seconds;
  if (seconds < kLeastSeconds || seconds < kWorthASentence * attempt.history->seconds || seconds < 2 * next) return "";
  return "<p>The others waited for " + rank_link(longest->rank) + " during " +
         share_text(seconds, attempt.history->seconds) +
         " of the time. See <a href=\"#waits\">who was waited "
         "for</a>.</p>\n";
}

}  // namespace

const char* class_of(ResultKind kind) {
  constexpr std::array kClasses = {"good", "bad", "warn", "soft"};
  return kClasses.at(static_cast<std::size_t>(kind));
}

ResultKind result_of(const AttemptRecord& attempt) {
  if (!attempt.end) return ResultKind::unknown;
  if (attempt.cause.empty() && attempt.exit_code == 0) return ResultKind::success;
  return attempt.cause == "signal" ? ResultKind::stopped : ResultKind::failure;
}

ResultKind result_of(const RunRecord& run) {
  if (!run.exit_code) return ResultKind::unknown;
  if (*run.exit_code == 0) return ResultKind::success;
  const AttemptRecord* last = last_attempt(run);
  return last != nullptr && last->cause == "signal" ? ResultKind::stopped : ResultKind::failure;
}

std::string result_text(const AttemptRecord& attempt) {
  if (!attempt.end) return "no end recorded";
  if (result_of(attempt) == ResultKind::success) return "succeeded";
  if (attempt.cause == "hang") return "hung";
  return attempt.cause == "signal" ? "stopped" : "failed";
}

std::string result_text(const RunRecord& run) {
  if (!run.exit_code) return "incomplete";
  if (*run.exit_code == 0) return "succeeded";
  const AttemptRecord* last = last_attempt(run);
  return last == nullptr || !last->end ? "failed" : result_text(*last);
}

std::string program_of(const RunRecord& run) {
  std::string program = run.arguments.empty() ? "unknown program" : run.arguments.front();
  for (const std::string& word : run.arguments) {
    if (!word.ends_with(".py")) continue;
    program = word;
    break;
  }
  return program.substr(program.rfind('/') + 1);
}

std::string verdict_section(const RunRecord& run) {
  std::string html =
      std::string("<section id=verdict class=\"card verdict ") + class_of(result_of(run)) + "\">\n<h2>Verdict</h2>\n";
  const AttemptRecord* last = last_attempt(run);
  std::vector<std::string> text = run.text;
  if (text.empty() && last != nullptr) text = last->text;
  const StallRecord* stall = last == nullptr ? nullptr : open_stall(*last);
  if (text.empty() && run.exit_code == 0) {
    html += "<p class=headline>The job succeeded.</p>\n<p>" +
            base::counted(static_cast<std::int64_t>(run.attempts.size()), "attempt") + ", " +
            seconds_text(run.seconds) + "</p>\n" + (last == nullptr ? "" : straggler_sentence(*last));
  } else if (text.empty() && stall != nullptr) {
    html += text_html({stall->text.empty() ? stall->state : stall->text.front()});
  } else if (text.empty()) {
    html += "<p class=headline>The end of the job is not known.</p>\n";
  } else {
    html += text_html(text);
  }
  if (stall != nullptr && stall->text.size() > 1 && stall->text != text) {
    html += "<details open><summary>What the ranks were doing " + seconds_text(stall->time) +
            " after the start</summary>\n<pre>" + html_lines(stall->text) + "</pre>\n</details>\n";
  }
  if (last != nullptr) {
    const bool is_open = !last->end && stall != nullptr;
    html +=
        culprit_lines(*last, is_open ? std::span<const int>(stall->culprits) : std::span<const int>(last->culprits));
    if (!last->core.empty()) html += "<p>Core dump: " + html_text(last->core) + "</p>\n";
    if (!last->log_file.empty()) html += "<p>Whole output: <code>" + html_text(last->log_file) + "</code></p>\n";
  }
  return html + "</section>\n";
}

std::string missing_section(const RunRecord& run) {
  if (run.missing.empty()) return "";
  std::string html = "<section id=missing class=\"card note\">\n<h2>What this report lacks</h2>\n<ul>\n";
  for (const std::string& each : run.missing) html += "<li>" + html_text(each) + "</li>\n";
  return html + "</ul>\n</section>\n";
}

}  // namespace ddp::launcher
