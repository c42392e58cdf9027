#include "launcher/cli/command_page.h"

#include "base/text.h"
#include "launcher/cli/help_text.h"
#include "launcher/cli/job_options.h"
#include "launcher/cli/report_options.h"
#include "launcher/cli/store_options.h"
#include "launcher/cli/subcommands.h"
#include "launcher/cli/top_options.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kPageWidth = 100;

std::string paragraph(std::string_view text) {
  return base::join(wrapped(text, kPageWidth), "\n") + "\n";
}

// Removes "[NAME: …]" from a help text. Returns the text after the colon, or an empty string if there is none.
std::string take_note(std::string& help, const std::string& name) {
  const std::size_t begin = help.find(" [" + name + ": ");
  if (begin == std::string::npos) return "";
  std::size_t end = begin + 2;
  for (int depth = 1; end < help.size(); ++end) {
    depth += help[end] == '[' ? 1 : help[end] == ']' ? -1 : 0;
    if (depth == 0) break;
  }
  const std::size_t first = begin + name.size() + 4;
  const std::string note = help.substr(first, end - first);
  help.erase(begin, end + 1 - begin);
  return note;
}

// Returns text in which Markdown finds neither links nor emphasis.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == '*' || c == '<') result += '\\';
    result += c;
  }
  return result;
}

std::string option_section(const OptionInfo& option, const std::string& prefix) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    const bool is_bare = option.is_flag() || option.is_negation(name);
    names.push_back("`--" + name + (is_bare ? "" : " " + option.value_name) + "`");
  }
  if (!option.short_name.empty()) names.insert(names.begin(), "`-" + option.short_name + "`");
  std::string help = option.help;
  const std::string standard = take_note(help, "default");
  std::string variables = take_note(help, "env");
  if (!option.variable.empty()) variables = option.variable + (variables.empty() ? "" : ", " + variables);
  std::string text = "### " + base::join(names, ", ") + " {#" + prefix + option.name() + "}\n\n";
  text += paragraph(plain(help));
  std::string facts;
  const auto add = [&facts](const std::string& fact) {
    facts += "- " + base::join(wrapped(fact, kPageWidth - 2), "\n  ") + "\n";
  };
  if (!standard.empty()) add("Default: " + plain(standard));
  if (!option.choices.empty()) {
    const std::string kind = option.choices_are_examples ? "Known values: `" : "Possible values: `";
    add(kind + base::join(option.choices, "`, `") + "`");
  }
  if (!variables.empty()) add("Environment: `" + variables + "`");
  return text + (facts.empty() ? "" : "\n" + facts) + "\n";
}

}  // namespace

std::string command_page() {
  std::string page = "# Command line\n\n<!-- `scripts/docs` writes this page from the options of the program. -->\n\n";
  page += paragraph(kDescription) + "\n";
  page += "```text\nddplaunch [options] program [arguments ...]\nddplaunch SUBCOMMAND [options] ...\n```\n\n";
  page += paragraph(kProgramRule) + "\n";
  page +=
      "[Rules and behaviour](command-line.md) says where values come from and how the launcher behaves.\n"
      "[Exit codes](exit-codes.md) lists what `ddplaunch` returns.\n\n";
  page += "## Subcommands\n\n| word | meaning |\n|---|---|\n";
  for (const Subcommand& each : kSubcommands) {
    page += std::string("| `") + each.name + "` | " + each.help + " |\n";
  }
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) page += "\n## " + (group = option.group) + "\n\n";
    page += option_section(option, "");
  }
  page += "## ddplaunch top {#ddplaunch-top}\n\n" + paragraph(kTopDescription) + "\n";
  page += "[ddplaunch top](top.md) describes the screen, the keys and the JSON document.\n\n";
  for (const OptionInfo& option : top_options()) page += option_section(option, "top-");
  page += paragraph(kTopExitCodes) + "\n";
  page += "## ddplaunch store {#ddplaunch-store}\n\n" + paragraph(kStoreDescription) + "\n";
  for (const OptionInfo& option : store_options()) page += option_section(option, "store-");
  page += paragraph(kStoreExitCodes) + "\n## ddplaunch report {#ddplaunch-report}\n\n";
  page += paragraph(kReportDescription) + "\n```text\nddplaunch report EVENT_LOG [options]\n```\n\n";
  for (const OptionInfo& option : report_options()) page += option_section(option, "report-");
  page += paragraph(kReportExitCodes) + "\n## ddplaunch bench {#ddplaunch-bench}\n\n";
  page += paragraph(kBenchDescription) + "\n";
  for (const OptionInfo& option : bench_command_options()) page += option_section(option, "bench-");
  page.erase(page.find_last_not_of('\n') + 2);
  return page;
}

}  // namespace ddp::launcher
