#include "launcher/cli/help_text.h"

#include <ddp/version.h>

#include <array>
#include <span>

#include "base/text.h"
#include "bench/bench_options.h"
#include "launcher/cli/job_options.h"
#include "launcher/cli/report_options.h"
#include "launcher/cli/store_options.h"
#include "launcher/cli/top_options.h"

namespace ddp::launcher {
namespace {

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

std::string option_lines(const OptionInfo& option) {
  const std::string synopsis = "  " + option_synopsis(option);
  std::string lines = paragraph(help_of(option), kHelpColumn);
  if (synopsis.size() + 2 > kHelpColumn) return synopsis + "\n" + lines;
  return synopsis + lines.substr(synopsis.size());
}

// Escapes text for troff: dashes can be copied, and no line begins with an accidental request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return text.starts_with('.') ? "\\&" + result : result;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + escaped(text) + "\\fR";
}

struct ManEntry {
  const char* name;
  const char* text;
};

constexpr std::array kVariables = {
    ManEntry{"PET_NAME",
             "The value of the option --name (PET_NPROC_PER_NODE for --nproc-per-node), unless the command "
             "line has it."},
    ManEntry{"DDP_LOG", "The level of the lines of ddplaunch itself, unless --log-level, -q or -v is given."},
    ManEntry{"DDP_AUTH_TOKEN", "The job's token, unless --auth-token-file is given."},
    ManEntry{"DDP_TORCH", "0 stops ddplaunch from observing PyTorch's process groups."},
    ManEntry{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "The value of --grace when ddplaunch is invoked as torchrun."},
    ManEntry{"OMP_NUM_THREADS",
             "Is passed to the workers. If it is not set, ddplaunch sets it to the worker's share of "
             "the CPUs."},
    ManEntry{"NO_COLOR", "If it is set, no colours are printed."},
};

constexpr std::array kSignals = {
    ManEntry{"SIGINT",
             "Is passed to the process groups of all workers, so that they can save; --grace later they get "
             "SIGTERM, and --grace after that SIGKILL. A second SIGINT kills them at once, on all nodes."},
    ManEntry{"SIGTERM, SIGHUP",
             "Terminate the workers by SIGTERM, and --grace later by SIGKILL. With --save-grace, "
             "SIGTERM and SIGUSR1 ask the program to save and to leave first."},
    ManEntry{"SIGQUIT", "Prints what all ranks do, with their stacks. The job continues."},
    ManEntry{"SIGTSTP, SIGCONT", "Stop and continue the whole job. No time limit runs while it is stopped."},
};

constexpr std::array kFiles = {
    ManEntry{"LOG_DIR/RUN/attempt_N/LOCAL_RANK/",
             "Output (stdout.log, stderr.log) and error file (error.json) of a "
             "worker. RUN is the name of the run."},
    ManEntry{"LOG_DIR/RUN/attempt_N/dump_N.json", "The stacks of all threads of a job that hangs."},
    ManEntry{"/tmp/ddp-run-*", "Sockets and error files of a run without --log-dir. ddplaunch removes them."},
};

std::string section(const char* title, std::span<const ManEntry> entries) {
  std::string text = std::string(".SH ") + title + "\n";
  for (const ManEntry& entry : entries) {
    text += ".IP \"" + bold(entry.name) + "\" 8\n" + escaped(entry.text) + "\n";
  }
  return text;
}

std::string option_entry(const OptionInfo& option) {
  std::string heading = option.short_name.empty() ? "" : bold("-" + option.short_name) + ", ";
  for (const std::string& name : option.names) {
    if (name != option.name()) heading += ", ";
    heading += bold("--" + name);
    if (!option.is_flag() && !option.is_negation(name)) heading += " " + italic(option.value_name);
  }
  std::string text = ".TP\n" + heading + "\n" + escaped(option.help) + "\n";
  if (!option.choices.empty()) {
    text += option.choices_are_examples ? ".br\nKnown words: " : ".br\nChoices: ";
    for (const std::string& choice : option.choices) text += (&choice == &option.choices[0] ? "" : ", ") + bold(choice);
    text += ".\n";
  }
  return text;
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
    names.push_back("`--" + name + (is_bare ? "" : " " + option.value_name) + "`");
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
    names.push_back("--" + name + (option.is_flag() || option.is_negation(name) ? "" : " " + option.value_name));
  }
  return (option.short_name.empty() ? "    " : "-" + option.short_name + ", ") + base::join(names, ", ");
}

std::string help_text(const std::string& name) {
  std::string text = "Usage: " + name + " [options] program [arguments ...]\n";
  if (name == "ddplaunch") {
    text += "       ddplaunch launch [options] script [arguments ...]\n";
    text += "       ddplaunch top [--help] [options] [PID|RUN_ID]\n";
    text += "       ddplaunch store [--help] [options]\n";
    text += "       ddplaunch report [--help] EVENT_LOG [EVENT_LOG] [options]\n";
    text += "       ddplaunch bench [--help] [options]\n";
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
       ddplaunch top|store|report|bench|launch [options] ...

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
      --summary FILE            write a summary of the run as JSON
      --dry-run                 print the launch plan and exit
  -q, --quiet                   print only what goes wrong
  -V, --version                 print the version and exit

To see what all ranks are doing: ddplaunch top, or Ctrl-\ (SIGQUIT).
All options: ddplaunch --help. Manual page: ddplaunch --man | man -l -
)";
}

std::string store_help_text() {
  std::string text =
      "Usage: ddplaunch store [--host ADDR] [--port N] [options]\n"
      "       ddplaunch store --inspect HOST[:PORT] [--json] [--auth-token-file FILE]\n"
      "       ddplaunch store --join HOST[:PORT] --auth-token-file FILE\n";
  text += "\n" + paragraph(kStoreDescription, 0) + "\n";
  for (const OptionInfo& option : store_options()) text += option_lines(option);
  text += "\n" + paragraph(kStoreExitCodes, 0);
  text += "\nExample: ddplaunch store --inspect 127.0.0.1:29500\n";
  return text;
}

std::string report_help_text() {
  std::string text = "Usage: ddplaunch report EVENT_LOG [EVENT_LOG] [-o FILE] [--run-id ID]\n";
  text += "\n" + paragraph(kReportDescription, 0) + "\n";
  for (const OptionInfo& option : report_options()) text += option_lines(option);
  text += "\n" + paragraph(kReportExitCodes, 0);
  text += "\nExample: ddplaunch report run.jsonl -o run.html\n";
  return text;
}

std::string top_help_text() {
  std::string text = "Usage: ddplaunch top [options] [PID|RUN_ID]\n";
  text += "\n" + paragraph(kTopDescription, 0) + "\n";
  for (const OptionInfo& option : top_options()) text += option_lines(option);
  text += "\n" + paragraph(kTopExitCodes, 0);
  text += "\nExample: ddplaunch top --once --json | jq .steps_per_second\n";
  return text;
}

const char* const kBenchDescription =
    "Measures collectives between the workers that the options start, and prints the columns of nccl-tests: the time "
    "in microseconds (median and minimum over the iterations of the slowest rank), algbw and busbw in GB/s. "
    "Operations: all_reduce broadcast all_gather reduce_scatter all_to_all. [default: all of them]";

OptionList bench_command_options() {
  bench::BenchOptions options;
  OptionSet command(false);
  bench::declare_bench_options(command.app(), options);
  return command.options();
}

std::string bench_help_text() {
  std::string text = "Usage: ddplaunch bench [options of ddplaunch] [OPERATION ...] [options]\n\n";
  text += paragraph(kBenchDescription, 0) + "\n";
  for (const OptionInfo& option : bench_command_options()) text += option_lines(option);
  text += "\nExample: ddplaunch bench --nproc-per-node=4 all_reduce --sizes=4K,1M,25M\n";
  return text;
}

std::string man_page() {
  std::string page = ".TH DDPLAUNCH 1 \"\" \"ddplaunch " DDP_VERSION_STRING "\" \"User Commands\"\n";
  page += ".SH NAME\nddplaunch \\- start the workers of a distributed program and watch over them\n";
  page += ".SH SYNOPSIS\n" + bold("ddplaunch") + " [options] " + italic("program") + " [arguments ...]\n.br\n";
  page += bold("ddplaunch launch") + " [options] " + italic("script") + " [arguments ...]\n.br\n";
  page += bold("ddplaunch top") + " [options] [" + italic("pid") + "|" + italic("run_id") + "]\n.br\n";
  page += bold("ddplaunch bench") + " [options] [operation ...]\n.br\n";
  page += bold("ddplaunch report") + " " + italic("event_log") + " [options]\n.br\n";
  page += bold("ddplaunch store") + " [options]\n";
  page += ".SH DESCRIPTION\n" + escaped(kDescription) + "\n.PP\n" + escaped(kProgramRule) + "\n";
  page += ".SH OPTIONS\n";
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) page += ".SS \"" + escaped(group = option.group) + "\"\n";
    page += option_entry(option);
  }
  page += ".SH \"DDPLAUNCH TOP\"\n" + escaped(kTopDescription) + "\n";
  for (const OptionInfo& option : top_options()) page += option_entry(option);
  page += ".PP\n" + escaped(kTopExitCodes) + "\n";
  page += ".SH \"DDPLAUNCH STORE\"\n" + escaped(kStoreDescription) + "\n";
  for (const OptionInfo& option : store_options()) page += option_entry(option);
  page += ".PP\n" + escaped(kStoreExitCodes) + "\n";
  page += ".SH \"DDPLAUNCH REPORT\"\n" + escaped(kReportDescription) + "\n";
  for (const OptionInfo& option : report_options()) page += option_entry(option);
  page += ".PP\n" + escaped(kReportExitCodes) + "\n";
  page += ".SH \"EXIT STATUS\"\n" + escaped(kExitCodes) + "\n";
  page += section("ENVIRONMENT", kVariables) + section("FILES", kFiles) + section("SIGNALS", kSignals);
  page += ".SH EXAMPLE\n.EX\n" + escaped("ddplaunch --nproc-per-node=2 ./train --epochs 3") + "\n.EE\n";
  return page;
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
  for (const Subcommand& each : kSubcommands) {
    page += std::string("| `") + each.name + "` | " + each.help + " |\n";
  }
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) page += "\n## " + (group = option.group) + "\n\n";
    page += option_section(option, "");
  }
  page += "## ddplaunch top {#ddplaunch-top}\n\n" + page_paragraph(kTopDescription) + "\n";
  page += "[ddplaunch top](top.md) describes the screen, the keys and the JSON document.\n\n";
  for (const OptionInfo& option : top_options()) page += option_section(option, "top-");
  page += page_paragraph(kTopExitCodes) + "\n";
  page += "## ddplaunch store {#ddplaunch-store}\n\n" + page_paragraph(kStoreDescription) + "\n";
  for (const OptionInfo& option : store_options()) page += option_section(option, "store-");
  page += page_paragraph(kStoreExitCodes) + "\n## ddplaunch report {#ddplaunch-report}\n\n";
  page += page_paragraph(kReportDescription) + "\n```text\nddplaunch report EVENT_LOG [EVENT_LOG] [options]\n```\n\n";
  for (const OptionInfo& option : report_options()) page += option_section(option, "report-");
  page += page_paragraph(kReportExitCodes) + "\n## ddplaunch bench {#ddplaunch-bench}\n\n";
  page += page_paragraph(kBenchDescription) + "\n";
  for (const OptionInfo& option : bench_command_options()) page += option_section(option, "bench-");
  page.erase(page.find_last_not_of('\n') + 2);
  return page;
}

}  // namespace ddp::launcher
