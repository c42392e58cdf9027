#include "launcher/see/report/html/html_report.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"
#include "launcher/see/report/report_file.h"
#include "launcher/see/view/strip_text.h"

namespace ddp::launcher {
namespace {

std::string fact(const char* name, const std::string& value) {
  return value.empty() ? "" : "<tr><th scope=row>" + std::string(name) + "</th>" + text_cell(value) + "</tr>\n";
}

// Returns the stall whose stacks are shown: the latest one that has stacks.
const StallRecord* stall_with_stacks(const RunRecord& run) {
  for (auto attempt = run.attempts.rbegin(); attempt != run.attempts.rend(); ++attempt) {
    for (auto stall = attempt->stalls.rbegin(); stall != attempt->stalls.rend(); ++stall) {
      if (!stall->stacks.empty()) return &*stall;
    }
  }
  return nullptr;
}

std::string quoted_words(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + base::shell_quoted(word);
  return text;
}

// Returns NAME='value' for those variables that change what the launcher and the libraries do.
std::string quoted_variables(std::span<const std::string> variables) {
  std::string text;
  for (const std::string& line : variables) {
    // A scheduler sets its own variables again. A secret cannot be repeated.
    if (line.starts_with("SLURM_") || line.ends_with("=***")) continue;
    const std::size_t equals = std::min(line.find('='), line.size());
    text += line.substr(0, equals) + "=" + base::shell_quoted(line.substr(std::min(equals + 1, line.size()))) + " ";
  }
  return text;
}

std::string commands_text(const RunRecord& run) {
  const std::vector<std::string>& words = run.command_line.empty() ? run.arguments : run.command_line;
  return quoted_words(words);
}

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

std::string environment_section(const RunRecord& run) {
  std::string html =
      "<section id=environment class=card>\n<h2>Environment</h2>\n<div class=scroll><table class=facts>\n<tbody>\n";
  html += fact("ddplaunch", run.version) + fact("first node", run.node) + fact("system", run.system) +
          fact("nodes", run.nodes) + fact("workers per node", run.workers > 0 ? std::to_string(run.workers) : "") +
          fact("restarts allowed", std::to_string(run.max_restarts)) + fact("log directory", run.log_directory);
  html += "</tbody></table></div>\n<h3>Differences and remarks</h3>\n";
  std::string items;
  for (const MessageRecord& message : run.messages) {
    if (message.level == "error") continue;
    items += "<li><span class=\"pill " + std::string(message.level == "warning" ? "warn" : "soft") + "\">" +
             html_text(message.level) + "</span> " + html_text(message.text) + "</li>\n";
  }
  html += items.empty() ? "<p>The launcher reported none.</p>\n" : "<ul class=plain>\n" + items + "</ul>\n";
  if (run.variables.empty()) return html + "</section>\n";
  html += "<details><summary>" + base::counted(static_cast<std::int64_t>(run.variables.size()), "variable") +
          " of CUDA, NCCL, PyTorch, OpenMP, Slurm and ddplaunch</summary>\n<pre>" + html_lines(run.variables) +
          "</pre>\n</details>\n";
  return html + "</section>\n";
}

std::string stacks_section(const RunRecord& run) {
  const StallRecord* stall = stall_with_stacks(run);
  if (stall == nullptr) return "";
  std::string html = "<section id=stacks class=card>\n<h2>Stacks</h2>\n<p>What the first threads of the ranks did " +
                     seconds_text(stall->time) +
                     " after the start. Ranks at the same place share a stack, and the rarest stack "
                     "comes first.</p>\n";
  for (const MergedStack& stack : stall->stacks) {
    const bool is_first = &stack == &stall->stacks.front();
    const std::string innermost = stack.frames.empty() ? "" : stack.frames.front();
    html += std::string("<details") + (is_first || stall->stacks.size() <= 4 ? " open" : "") + "><summary>" +
            rank_links(stack.ranks) + ": <code>" + html_text(innermost) + "</code></summary>\n<pre>" +
            html_lines(stack.frames) + "</pre>\n</details>\n";
  }
  return html + "</section>\n";
}

std::string last_lines_section(const RunRecord& run) {
  std::string html;
  for (auto attempt = run.attempts.rbegin(); attempt != run.attempts.rend(); ++attempt) {
    if (attempt->last_lines.empty()) continue;
    const std::string of = attempt->culprits.size() == 1 ? " of " + rank_link(attempt->culprits.front()) : "";
    const bool is_first = html.empty();
    html += std::string("<details") + (is_first ? " open" : "") + "><summary>Attempt " +
            std::to_string(attempt->number) + of + "</summary>\n<pre>" + html_lines(attempt->last_lines) +
            "</pre>\n</details>\n";
  }
  return html.empty() ? "" : "<section id=output class=card>\n<h2>Last lines of output</h2>\n" + html + "</section>\n";
}

std::string start_section(const RunRecord& run) {
  const std::string command = commands_text(run);
  if (command.empty()) return "";
  const std::string directory = run.directory.empty() ? "" : "cd " + base::shell_quoted(run.directory) + " && ";
  std::string html =
      "<section id=start class=card>\n<h2>How it was started</h2>\n<pre>" + html_text(command) + "</pre>\n";
  if (!run.directory.empty()) html += "<p>In the directory <code>" + html_text(run.directory) + "</code></p>\n";
  html += "<h3>To start it again</h3>\n<pre id=again>" +
          html_text(directory + quoted_variables(run.variables) + command) + "</pre>\n";
  const bool has_secret = command.find("***") != std::string::npos;
  if (has_secret) html += "<p class=soft>Secrets are shown as ***. Replace them before you run the line.</p>\n";
  return html + "</section>\n";
}

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

}  // namespace ddp::launcher
