#include "launcher/cli/completion.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/cli/job_options.h"
#include "launcher/cli/store_options.h"

namespace ddp::launcher {
namespace {

bool is_path(const OptionInfo& option) {
  return option.value_name == "FILE" || option.value_name == "DIR";
}

struct OptionWord {
  std::string text;
  bool takes_value;
};

// "-c", "--a-b", "--a_b": the words for an option, in both spellings.
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

// Those of both commands; an option that both have takes the same values.
OptionList all_options() {
  OptionList options = job_options();
  for (OptionInfo& option : store_options()) {
    if (find_option(option.name(), options) == nullptr) options.push_back(std::move(option));
  }
  return options;
}

std::string bash() {
  const OptionList job = job_options();
  const OptionList store = store_options();
  std::string cases;
  std::string with_value;
  for (const OptionInfo& option : all_options()) {
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
  local cur=${COMP_WORDS[COMP_CWORD]} option= store= i word
  COMPREPLY=()
  # bash takes --name=value for three words.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then continue; fi
    if [[ -n $option ]]; then option=; continue; fi
    case $word in
    run|launch) ((i == 1)) || return ;;
    store) ((i == 1)) || return; store=1 ;;
    )" + with_value +
         R"() option=$word ;;
    -*) ;;
    *) return ;;  # the program: files
    esac
  done
  if [[ $cur == = ]]; then cur=; fi
  case $option in
)" + cases +
         R"(    '') if [[ $store && $cur == --*_* ]]; then
        COMPREPLY=($(compgen -W ')" +
         bash_words(store, true) + R"(' -- "$cur"))
      elif [[ $store ]]; then
        COMPREPLY=($(compgen -W ')" +
         bash_words(store, false) + R"(' -- "$cur"))
      elif [[ $cur == --*_* ]]; then
        COMPREPLY=($(compgen -W ')" +
         bash_words(job, true) + R"(' -- "$cur"))
      elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W ')" +
         bash_words(job, false) + R"(' -- "$cur"))
      elif ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -f -c -W 'run launch store bench help' -- "$cur"))
      else
        COMPREPLY=($(compgen -f -c -- "$cur"))
      fi ;;
  esac
}
complete -o filenames -o bashdefault -F _ddplaunch ddplaunch
)";
}

// Help as one word of a shell: in single quotes, with what zsh's _arguments gives a meaning taken away.
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

// An option is one line or more of _arguments.
std::string zsh_lines(const OptionList& options) {
  std::string script;
  for (const OptionInfo& option : options) {
    for (const auto& [text, takes_value] : words_of(option)) {
      script += "  '*" + text + (takes_value && text.size() > 2 ? "=" : "") + "[" + brief(option) + "]";
      if (takes_value) {
        script += ":" + with_dashes(base::split(option.value_name, ':').front()) + ":";
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

std::string zsh() {
  return "#compdef ddplaunch\n# zsh completion: put it as _ddplaunch into a folder of $fpath.\n"
         "if [[ $words[2] == store ]] && ((CURRENT > 2)); then\n  shift words\n  ((--CURRENT))\n  _arguments -S \\\n" +
         zsh_lines(store_options()) + "  && return\n  return 1\nfi\n_arguments -S -A '-*' \\\n" +
         zsh_lines(job_options()) + "  '1:program:_command_names -e' \\\n  '*::arguments:_files'\n";
}

// `condition`: when they are offered.
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
  const std::string store = "__fish_seen_subcommand_from store";
  return "# fish completion: put it as ddplaunch.fish into ~/.config/fish/completions\n"
         "complete -c ddplaunch -n __fish_use_subcommand -a store -d 'a rendezvous store without a job'\n"
         "complete -c ddplaunch -n __fish_use_subcommand -a bench -d 'what collectives cost here'\n" +
         fish_lines(store_options(), store) + fish_lines(job_options(), "not " + store);
}

}  // namespace

std::optional<std::string> completion_script(const std::string& shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  return std::nullopt;
}

}  // namespace ddp::launcher
