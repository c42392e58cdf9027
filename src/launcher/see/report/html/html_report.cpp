#include "launcher/see/report/html/html_report.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"
#include "launcher/see/report/own_document.h"
#include "launcher/see/view/strip_text.h"

namespace ddp::launcher {
namespace {

// Returns the number of ranks in the last attempt that began.
int ranks_in(const RunRecord& run) {
  return run.attempts.empty() ? run.workers : std::max(run.attempts.back().world_size, run.workers);
}

std::string count_fact(const char* name, const std::string& value) {
  return "<div><dt>" + std::string(name) + "</dt><dd>" + html_text(value) + "</dd></div>\n";
}

std::string header(const RunRecord& run) {
  std::set<std::string> nodes;
  if (!run.attempts.empty()) {
    for (const NodeRecord& node : run.attempts.back().nodes) nodes.insert(node.name);
  }
  std::string html = "<header>\n<p class=kicker>ddplaunch report</p>\n<h1>" + html_text(program_of(run)) +
                     " <span class=\"pill " + class_of(result_of(run)) + "\">" + html_text(result_text(run)) +
                     "</span></h1>\n<dl class=facts>\n";
  html += count_fact("run", run.run_id) +
          count_fact("started", run.started.substr(0, 19) + (run.started.size() > 19 ? " UTC" : "")) +
          count_fact("duration", seconds_text(run.seconds)) + count_fact("ranks", std::to_string(ranks_in(run))) +
          count_fact("nodes", std::to_string(std::max<std::size_t>(nodes.size(), 1))) +
          count_fact("attempts", std::to_string(run.attempts.size())) +
          count_fact("exit code", run.exit_code ? std::to_string(*run.exit_code) : "unknown");
  return html + "</dl>\n</header>\n";
}

// Lists the sections that exist.
std::string navigation(const std::string& body) {
  constexpr std::array<std::pair<const char*, const char*>, 12> kSections = {{{"verdict", "Verdict"},
                                                                              {"missing", "What is missing"},
                                                                              {"course", "Attempts and nodes"},
                                                                              {"training", "Training"},
                                                                              {"ranks", "What each rank did"},
                                                                              {"waits", "Who was waited for"},
                                                                              {"numbers", "Ranks in numbers"},
                                                                              {"collectives", "Collectives"},
                                                                              {"environment", "Environment"},
                                                                              {"stacks", "Stacks"},
                                                                              {"output", "Last lines"},
                                                                              {"start", "How it was started"}}};
  std::string html = "<nav aria-label=Sections>\n";
  for (const auto& [id, title] : kSections) {
    if (body.find("<section id=" + std::string(id) + " ") == std::string::npos) continue;
    html += "<a href=\"#" + std::string(id) + "\">" + title + "</a>\n";
  }
  return html + "</nav>\n";
}

// Returns what the script needs to know in addition to the page itself.
std::string script_data(const RunRecord& run) {
  std::string json = "{\"run_id\":" + json_text(run.run_id) + ",\"states\":{";
  bool is_first = true;
  for (const RankState state : {RankState::unknown, RankState::computing, RankState::collective, RankState::waiting,
                                RankState::phase, RankState::stopped}) {
    json += std::string(is_first ? "" : ",") + "\"" + letter_of(state) + "\":" + json_text(name_of(state));
    is_first = false;
  }
  return json + "}}";
}

std::string page(const std::string& title, const std::string& body, const std::string& data) {
  return "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n" + std::string(kReportMark) +
         "\n"
         "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
         "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n<meta name=color-scheme "
         "content=\"light dark\">\n"
         "<meta name=referrer content=no-referrer>\n<title>" +
         html_text(title) + "</title>\n<style>\n" + kReportStyle + "</style>\n</head>\n<body>\n" + body +
         "<script type=\"application/json\" id=data>" + data + "</script>\n<script>\n" + kReportScript +
         "</script>\n</body>\n</html>\n";
}

}  // namespace

std::string html_report(const RunRecord& run) {
  std::string main;
  for (const auto& section :
       {verdict_section, missing_section, course_section, training_section, strips_section, waits_section,
        ranks_section, collectives_section, environment_section, stacks_section, last_lines_section, start_section}) {
    main += section(run);
  }
  const std::string body = header(run) + navigation(main) + "<main>\n" + main + "</main>\n<footer>Made by ddplaunch " +
                           html_text(run.version) + " from the event log of run " + html_text(run.run_id) +
                           ".</footer>\n";
  return page(program_of(run) + " " + result_text(run) + " – ddplaunch report", body, script_data(run));
}

std::string html_comparison(const RunRecord& a, const RunRecord& b) {
  const std::string body =
      "<header>\n<p class=kicker>ddplaunch report</p>\n<h1>Two runs side by side</h1>\n</header>\n"
      "<main>\n" +
      comparison_sections(a, b) + "</main>\n<footer>Made by ddplaunch " + html_text(a.version) +
      " from the event logs of the runs " + html_text(a.run_id) + " and " + html_text(b.run_id) + ".</footer>\n";
  return page(program_of(a) + " and " + program_of(b) + " – ddplaunch report", body, "{}");
}

std::string html_report(std::span<const std::string> event_lines) {
  const auto run = read_run(event_lines);
  if (run) return html_report(*run);
  return page(
      "ddplaunch report",
      "<header><h1>ddplaunch report</h1></header>\n<main><section id=missing class=\"card note\"><h2>What this report "
      "lacks</h2><p>The event log contains no event, so nothing is known about the run.</p></section></main>\n",
      "{}");
}

}  // namespace ddp::launcher
