#include "launcher/start/cli/completion.h"

#include <algorithm>

#include "base/text.h"
#include "bench/bench_options.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/subcommands.h"

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

std::string operations() {
  return base::join(bench::BenchOptions().operations, " ");
}

// Lists what follows a subcommand that has options of its own.
struct OptionScope {
  std::string command;
  OptionList options;
  std::string words;  // other words that may follow
  bool takes_files = false;
};

std::vector<OptionScope> option_scopes() {
  std::vector<OptionScope> scopes;
  for (const Subcommand& each : subcommands()) {
    if (each.description == nullptr) continue;
    OptionScope& scope = scopes.emplace_back(OptionScope{each.name, each.options(), "", false});
    scope.takes_files = scope.command == "report";
    const bool is_bench = scope.command == "bench";
    if (is_bench) scope.words = operations();
    if (is_bench || scope.command == "doctor") scope.options = with(scope.options, job_options());
  }
  return scopes;
}

// Returns what may follow `ddplaunch help`.
std::string help_topics() {
  std::vector<std::string> topics;
  for (const Subcommand& each : subcommands()) topics.emplace_back(each.name);
  for (const OptionInfo& option : job_options()) topics.push_back(option.name());
  return base::join(topics, " ");
}

std::string subcommand_names() {
  std::vector<std::string> names;
  for (const Subcommand& each : subcommands()) names.emplace_back(each.name);
  return base::join(names, " ");
}

std::string bash() {
  OptionList all = job_options();
  std::string names;
  std::string branches;
  for (const OptionScope& scope : option_scopes()) {
    all = with(std::move(all), scope.options);
    names += (names.empty() ? "" : "|") + scope.command;
    branches += "      " + scope.command + ") words='" + bash_words(scope.options, false) +
                (scope.words.empty() ? "" : " " + scope.words) + "' spelled='" + bash_words(scope.options, true) +
                "' ;;\n";
  }
  std::string cases;
  std::string with_value;
  // An option that several commands have takes the same values.
  for (const OptionInfo& option : all) {
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
    )" + names +
         R"(|help) ((i == 1)) || [[ $command ]] || return; command=${command:-$word} ;;
    )" + with_value +
         R"() option=$word ;;
    -*) ;;
    *) [[ $command ]] || return ;;  # the program: files
    esac
  done
  if [[ $cur == = ]]; then cur=; fi
  case $option in
)" + cases +
         R"(    '') case $command in
)" + branches +
         "      help) words='" + help_topics() + R"(' ;;
      *) words=')" +
         bash_words(job_options(), false) + R"(' spelled=')" + bash_words(job_options(), true) + R"(' ;;
      esac
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
  for (const Subcommand& each : subcommands()) {
    const std::string_view help(each.help);
    words += (words.empty() ? "'" : " '") + std::string(each.name) + ":" +
             std::string(help.substr(0, help.find_first_of(".,;"))) + "'";
  }
  return words;
}

std::string zsh() {
  std::string branches;
  for (const OptionScope& scope : option_scopes()) {
    const std::string rest = scope.takes_files     ? "'*:event log:_files'"
                             : scope.words.empty() ? ""
                                                   : "'*:operation:(" + scope.words + ")'";
    branches += "  " + scope.command + ")\n    shift words\n    ((--CURRENT))\n    _arguments -S \\\n" +
                zsh_lines(scope.options) + "  " + rest + " && return\n    return 1 ;;\n";
  }
  return "#compdef ddplaunch\n# zsh completion: put it as _ddplaunch into a folder of $fpath.\n"
         "if ((CURRENT > 2)); then\n  case $words[2] in\n" +
         branches + "  help) compadd " + help_topics() +
         " && return\n    return 1 ;;\n"
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
  const std::string seen = "__fish_seen_subcommand_from ";
  std::string script = "# fish completion: put it as ddplaunch.fish into ~/.config/fish/completions\n";
  for (const Subcommand& each : subcommands()) {
    script +=
        std::string("complete -c ddplaunch -n __fish_use_subcommand -a ") + each.name + " -d '" + each.help + "'\n";
  }
  script += "complete -c ddplaunch -n '" + seen + "help' -x -a '" + help_topics() + "'\n";
  std::string others;
  for (const OptionScope& scope : option_scopes()) {
    if (!scope.words.empty())
      script += "complete -c ddplaunch -n '" + seen + scope.command + "' -x -a '" + scope.words + "'\n";
    // The benchmark and the doctor have the options of a job, too.
    const bool has_job = scope.command == "bench" || scope.command == "doctor";
    script += fish_lines(has_job ? find_subcommand(scope.command)->options() : scope.options, seen + scope.command);
    if (!has_job) others += " " + scope.command;
  }
  return script + fish_lines(job_options(), "not " + seen + "help" + others);
}

}  // namespace

std::optional<std::string> completion_script(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return std::nullopt;
}

}  // namespace ddp::launcher
