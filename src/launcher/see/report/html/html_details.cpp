#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/see/report/html/html_sections.h"
#include "launcher/see/report/html/html_text.h"

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

}  // namespace ddp::launcher
