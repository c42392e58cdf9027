#include "launcher/start/cli/help_text.h"

#include "base/text.h"
#include "launcher/start/cli/job_options.h"

namespace ddp::launcher {
namespace {

// Returns what follows the name: " HOW", or "[=HOW]" if it may be left out.
std::string value_of(const OptionInfo& option) {
  return option.implied.empty() ? " " + option.value_name : "[=" + option.value_name + "]";
}

constexpr std::size_t kWidth = 80;
constexpr std::size_t kHelpColumn = 32;

std::string paragraph(std::string_view text, std::size_t indent) {
  std::string lines;
  for (const std::string& line : wrapped(text, kWidth - indent)) lines += std::string(indent, ' ') + line + "\n";
  return lines;
}

// Returns the help with the values that the option takes.
std::string help_of(const OptionInfo& option) {
  if (option.choices.empty()) return option.help;
  const std::string known = option.choices_are_examples ? " [known values: " : " [possible values: ";
  return option.help + known + base::join(option.choices, ", ") + "]";
}

constexpr std::size_t kPageWidth = 100;

std::string page_paragraph(std::string_view text) {
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
    names.push_back("`--" + name + (is_bare ? "" : value_of(option)) + "`");
  }
  if (!option.short_name.empty()) names.insert(names.begin(), "`-" + option.short_name + "`");
  std::string help = option.help;
  const std::string standard = take_note(help, "default");
  std::string variables = take_note(help, "env");
  if (!option.variable.empty()) variables = option.variable + (variables.empty() ? "" : ", " + variables);
  std::string text = "### " + base::join(names, ", ") + " {#" + prefix + option.name() + "}\n\n";
  text += page_paragraph(plain(help));
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

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& word : base::split(text, ' ')) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

std::string option_synopsis(const OptionInfo& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back("--" + name + (option.is_flag() || option.is_negation(name) ? "" : value_of(option)));
  }
  return (option.short_name.empty() ? "    " : "-" + option.short_name + ", ") + base::join(names, ", ");
}

std::string option_lines(const OptionInfo& option) {
  const std::string synopsis = "  " + option_synopsis(option);
  std::string lines = paragraph(help_of(option), kHelpColumn);
  if (synopsis.size() + 2 > kHelpColumn) return synopsis + "\n" + lines;
  return synopsis + lines.substr(synopsis.size());
}

std::string help_text(const std::string& name) {
  std::string text = "Usage: " + name + " [options] program [arguments ...]\n";
  if (name == "ddplaunch") {
    for (const Subcommand& each : subcommands()) {
      const std::string_view usage(each.usage);
      text += "       " + std::string(usage.substr(0, usage.find('\n'))) + "\n";
    }
  }
  text += "\n" + paragraph(kDescription, 0);
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) text += "\n" + (group = option.group) + "\n";
    text += option_lines(option);
  }
  text += "\n" + paragraph(kProgramRule, 0);
  text += "\n" + paragraph(kExitCodes, 0);
  text += "\nExample: " + name + " --nproc-per-node=2 ./train --epochs 3\n";
  return text;
}

std::string short_help_text() {
  return R"(Usage: ddplaunch [options] program [arguments ...]
       ddplaunch top|ls|store|report|explain|doctor|bench|launch|help ...

Examples:
  ddplaunch train.py --epochs 3                 one worker per visible GPU
  ddplaunch --nproc-per-node=4 ./train          four workers of a C++ program
  ddplaunch --hosts=a,b train.py                on two nodes, started over ssh
  ddplaunch --nnodes=2 --rdzv-endpoint=a:29400 train.py
                                                the same command on each node
  srun --ntasks-per-node=1 ddplaunch train.py   under Slurm

Common options:
      --nproc-per-node N        workers per node: a number, gpu, cpu or auto
      --nnodes N|MIN:MAX        nodes of the job
      --gpus LIST               use only these GPUs
  -m, --module                  run a Python module
      --max-restarts N          restart all workers after a failure
      --hang-timeout SECONDS    terminate a job that hangs for this long
      --save-grace SECONDS      ask the program to save before it is terminated
      --log-dir DIR             write the workers' output to files, too
      --live                    show the ranks on the terminal, below the output
      --report FILE             write a report of the run as HTML
      --trace FILE              write a timeline of all ranks for Perfetto
      --summary FILE            write a summary of the run as JSON
      --dry-run                 print the launch plan and exit
  -q, --quiet                   print only what goes wrong
  -V, --version                 print the version and exit

To see what all ranks are doing: ddplaunch top, or Ctrl-\ (SIGQUIT).
About one option or word: ddplaunch help grace. All options: ddplaunch --help
Manual page: ddplaunch --man | man -l -
)";
}

std::string subcommand_help(const Subcommand& command) {
  const std::string name = std::string("ddplaunch ") + command.name;
  if (command.description == nullptr) return help_text(std::string_view(command.name) == "launch" ? name : "ddplaunch");
  std::string text;
  for (const std::string& line : base::split(command.usage, '\n'))
    text += (text.empty() ? "Usage: " : "       ") + line + "\n";
  text += "\n" + paragraph(command.description, 0) + "\n";
  for (const OptionInfo& option : command.options()) text += option_lines(option);
  if (command.exit_codes != nullptr) text += "\n" + paragraph(command.exit_codes, 0);
  return text + "\nExample: " + command.example + "\n";
}

std::string command_page() {
  std::string page = "# Command line\n\n<!-- `scripts/docs` writes this page from the options of the program. -->\n\n";
  page += page_paragraph(kDescription) + "\n";
  page += "```text\nddplaunch [options] program [arguments ...]\nddplaunch SUBCOMMAND [options] ...\n```\n\n";
  page += page_paragraph(kProgramRule) + "\n";
  page +=
      "[Rules and behaviour](command-line.md) says where values come from and how the launcher behaves.\n"
      "[Exit codes](exit-codes.md) lists what `ddplaunch` returns.\n\n";
  page += "## Subcommands\n\n| word | meaning |\n|---|---|\n";
  for (const Subcommand& each : subcommands()) {
    page += std::string("| `") + each.name + "` | " + each.help + " |\n";
  }
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) page += "\n## " + (group = option.group) + "\n\n";
    page += option_section(option, "");
  }
  for (const Subcommand& each : subcommands()) {
    if (each.description == nullptr) continue;
    const std::string name(each.name);
    page += "## ddplaunch " + name + " {#ddplaunch-" + name + "}\n\n" + page_paragraph(each.description);
    page += std::string("\n```text\n") + each.usage + "\n```\n\n";
    if (name == "top") page += "[ddplaunch top](top.md) describes the screen, the keys and the JSON document.\n\n";
    for (const OptionInfo& option : each.options()) page += option_section(option, name + "-");
    if (each.exit_codes != nullptr) page += page_paragraph(each.exit_codes) + "\n";
  }
  page.erase(page.find_last_not_of('\n') + 2);
  return page;
}

}  // namespace ddp::launcher
