#include "launcher/cli/completion.h"

#include <algorithm>

#include "base/text.h"
#include "bench/bench_options.h"
#include "launcher/cli/help_text.h"
#include "launcher/cli/job_options.h"
#include "launcher/cli/report_options.h"
#include "launcher/cli/store_options.h"
#include "launcher/cli/top_options.h"

namespace ddp::launcher {
namespace {

bool is_path(const OptionInfo& option) {
  return option.value_name == "FILE" || option.value_name == "DIR";
}

struct OptionWord {
  std::string text;
  bool takes_value;
};

// Returns the words for an option in both spellings: "-c", "--a-b", "--a_b".
std::vector<OptionWord> words_of(const OptionInfo& option) {
  std::vector<OptionWord> words;
  if (!option.short_name.empty()) words.push_back({"-" + option.short_name, !option.is_flag()});
  for (const std::string& name : option.names) {
    const bool takes_value = !option.is_flag() && !option.is_negation(name);
    words.push_back({"--" + name, takes_value});
    if (with_underscores(name) != name) words.push_back({"--" + with_underscores(name), takes_value});
  }
  return words;
}

std::string bash_words(const OptionList& options, bool underscores) {
  std::vector<std::string> words;
  for (const OptionInfo& option : options) {
    for (const auto& [text, takes_value] : words_of(option)) {
      if ((text.find('_') != std::string::npos) == underscores) words.push_back(text);
    }
  }
  return base::join(words, " ");
}

// Returns `options`, and those of `others` that are not among them.
OptionList with(OptionList options, const OptionList& others) {
  for (const OptionInfo& option : others) {
    if (find_option(option.name(), options) == nullptr) options.push_back(option);
  }
  return options;
}

OptionList bench_and_job_options() {
  return with(bench_command_options(), job_options());
}

std::string subcommand_names() {
  std::string names;
  for (const Subcommand& each : kSubcommands) names += (names.empty() ? "" : " ") + std::string(each.name);
  return names;
}

std::string operations() {
  return base::join(bench::BenchOptions().operations, " ");
}

std::string bash() {
  const OptionList job = job_options();
  const OptionList store = store_options();
  const OptionList report = report_options();
  const OptionList top = top_options();
  const OptionList bench = bench_and_job_options();
  std::string cases;
  std::string with_value;
  // An option that several commands have takes the same values.
  for (const OptionInfo& option : with(with(with(bench, store), report), top)) {
    if (option.is_flag()) continue;
    std::string pattern;
    for (const auto& [text, takes_value] : words_of(option)) {
      if (takes_value) pattern += (pattern.empty() ? "" : "|") + text;
    }
    with_value += (with_value.empty() ? "" : "|") + pattern;
    if (!option.choices.empty()) {
      cases +=
          "    " + pattern + ") COMPREPLY=($(compgen -W '" + base::join(option.choices, " ") + "' -- \"$cur\")) ;;\n";
    } else if (is_path(option)) {
      cases += "    " + pattern + ") COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n";
    }
  }
  return R"(# bash completion for ddplaunch. Put it into bash-completion's folder, or: source <(ddplaunch --completion bash)
_ddplaunch() {
  local cur=${COMP_WORDS[COMP_CWORD]} option= command= words= spelled= i word
  COMPREPLY=()
  # bash takes --name=value for three words.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then continue; fi
    if [[ -n $option ]]; then option=; continue; fi
    case $word in
    run|launch) ((i == 1)) || return ;;
    top) ((i == 1)) || return; command=top ;;
    store|report|bench) ((i == 1)) || [[ $command == bench ]] || return; command=${command:-$word} ;;
    )" + with_value +
         R"() option=$word ;;
    -*) ;;
    *) [[ $command == bench || $command == report || $command == top ]] || return ;;  # the program: files
    esac
  done
  if [[ $cur == = ]]; then cur=; fi
  case $option in
)" + cases +
         R"(    '') if [[ $command == store ]]; then
        words=')" +
         bash_words(store, false) + R"(' spelled=')" + bash_words(store, true) + R"('
      elif [[ $command == report ]]; then
        words=')" +
         bash_words(report, false) + R"(' spelled=')" + bash_words(report, true) + R"('
      elif [[ $command == top ]]; then
        words=')" +
         bash_words(top, false) + R"(' spelled=')" + bash_words(top, true) + R"('
      elif [[ $command == bench ]]; then
        words=')" +
         bash_words(bench, false) + " " + operations() + R"(' spelled=')" + bash_words(bench, true) + R"('
      else
        words=')" +
         bash_words(job, false) + R"(' spelled=')" + bash_words(job, true) + R"('
      fi
      if [[ $cur == --*_* ]]; then
        COMPREPLY=($(compgen -W "$spelled" -- "$cur"))
      elif [[ $command == report && $cur != -* ]]; then
        COMPREPLY=($(compgen -f -- "$cur"))
      elif [[ $command || $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
      elif ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -f -c -W ')" +
         subcommand_names() + R"(' -- "$cur"))
      else
        COMPREPLY=($(compgen -f -c -- "$cur"))
      fi ;;
  esac
}
complete -o filenames -o bashdefault -F _ddplaunch ddplaunch
)";
}

// Returns the help as a word of a shell in single quotes. Characters that have a meaning for zsh's _arguments are
// escaped.
std::string brief(const OptionInfo& option) {
  std::string result;
  for (const char c : option.help.substr(0, option.help.find(". "))) {
    if (c == '\'') {
      result += "’";
    } else if (c == '[' || c == ']' || c == ':') {
      result += std::string("\\") + c;
    } else {
      result += c;
    }
  }
  if (result.ends_with('.')) result.pop_back();
  return result;
}

// Returns one or more lines of _arguments for each option.
std::string zsh_lines(const OptionList& options) {
  std::string script;
  for (const OptionInfo& option : options) {
    for (const auto& [text, takes_value] : words_of(option)) {
      script += "  '*" + text + (takes_value && text.size() > 2 ? "=" : "") + "[" + brief(option) + "]";
      if (takes_value) {
        // The label of the value must not contain brackets and colons, because they have a meaning there.
        const std::string& label = option.value_name;
        script += ":" + label.substr(0, label.find_first_of("[:|,=")) + ":";
        if (!option.choices.empty()) {
          script += "(" + base::join(option.choices, " ") + ")";
        } else if (is_path(option)) {
          script += "_files";
        }
      }
      script += "' \\\n";
    }
  }
  return script;
}

// Returns the words of an array: 'store:Serve a rendezvous store'.
std::string zsh_commands() {
  std::string words;
  for (const Subcommand& each : kSubcommands) {
    const std::string_view help(each.help);
    words += (words.empty() ? "'" : " '") + std::string(each.name) + ":" +
             std::string(help.substr(0, help.find_first_of(".,;"))) + "'";
  }
  return words;
}

std::string zsh() {
  const auto branch = [](const char* word, const OptionList& options, const std::string& rest) {
    return std::string("  ") + word + ")\n    shift words\n    ((--CURRENT))\n    _arguments -S \\\n" +
           zsh_lines(options) + "  " + rest + " && return\n    return 1 ;;\n";
  };
  return "#compdef ddplaunch\n# zsh completion: put it as _ddplaunch into a folder of $fpath.\n"
         "if ((CURRENT > 2)); then\n  case $words[2] in\n" +
         branch("store", store_options(), "") + branch("report", report_options(), "'*:event log:_files'") +
         branch("top", top_options(), "") +
         branch("bench", bench_and_job_options(), std::string("'*:operation:(") + operations() + ")'") +
         "  run|launch)\n    shift words\n    ((--CURRENT)) ;;\n  esac\nfi\n"
         "_ddplaunch_first() {\n  local -a commands=(" +
         zsh_commands() +
         ")\n"
         "  _describe -t commands subcommand commands\n  _command_names -e\n  _files\n}\n"
         "_arguments -S -A '-*' \\\n" +
         zsh_lines(job_options()) + "  '1:program:_ddplaunch_first' \\\n  '*::arguments:_files'\n";
}

// `condition` says when the options are offered.
std::string fish_lines(const OptionList& options, const std::string& condition) {
  std::string script;
  for (const OptionInfo& option : options) {
    std::string help = brief(option);
    std::erase(help, '\\');
    for (const auto& [text, takes_value] : words_of(option)) {
      if (text.size() == 2) continue;
      script += "complete -c ddplaunch -n '" + condition + "' -l " + text.substr(2);
      if (text.substr(2) == option.name() && !option.short_name.empty()) script += " -s " + option.short_name;
      if (takes_value) script += is_path(option) ? " -r -F" : " -x";
      if (takes_value && !option.choices.empty()) script += " -a '" + base::join(option.choices, " ") + "'";
      script += " -d '" + help + "'\n";
    }
  }
  return script;
}

std::string fish() {
  const std::string in_store = "__fish_seen_subcommand_from store";
  const std::string in_report = "__fish_seen_subcommand_from report";
  const std::string in_top = "__fish_seen_subcommand_from top";
  const std::string in_bench = "__fish_seen_subcommand_from bench";
  std::string script = "# fish completion: put it as ddplaunch.fish into ~/.config/fish/completions\n";
  for (const Subcommand& each : kSubcommands) {
    script +=
        std::string("complete -c ddplaunch -n __fish_use_subcommand -a ") + each.name + " -d '" + each.help + "'\n";
  }
  script += "complete -c ddplaunch -n '" + in_bench + "' -x -a '" + operations() + "'\n";
  return script + fish_lines(store_options(), in_store) + fish_lines(report_options(), in_report) +
         fish_lines(top_options(), in_top) + fish_lines(bench_command_options(), in_bench) +
         fish_lines(job_options(), "not " + in_store + " report top");
}

}  // namespace

std::optional<std::string> completion_script(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return std::nullopt;
}

}  // namespace ddp::launcher
