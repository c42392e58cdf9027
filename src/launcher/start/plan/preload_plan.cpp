#include "launcher/start/plan/preload_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "launcher/start/facts/stdin_program.h"
#include "launcher/start/plan/worker_command.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

// Describes the command line "python -u -X dev train.py …".
struct PythonOptions {
  std::string without_site;  // the option with which Python does not run ddplaunch's code; empty if there is none
  std::size_t program = 0;   // where the script is, or the word after -m or -c
};

PythonOptions read_options(const std::vector<std::string>& arguments, std::size_t python) {
  PythonOptions options;
  std::size_t i = python + 1;
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with('-') || word == "-") break;
    if (word.starts_with("--")) {
      if (word == "--check-hash-based-pycs") ++i;
      continue;
    }
    bool is_last = false;
    for (std::size_t letter = 1; letter < word.size() && !is_last; ++letter) {
      switch (word[letter]) {
        case 'I':
        case 'E':
        case 'S':
          options.without_site = std::string("-") + word[letter];
          break;
        case 'm':
        case 'c':
          options.program = letter + 1 < word.size() ? i : i + 1;
          return options;
        case 'W':
        case 'X':
          if (letter + 1 == word.size()) ++i;
          is_last = true;
          break;
        default:
          break;
      }
    }
  }
  options.program = i;
  return options;
}

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Says where Python is in the command line of a worker.
struct PythonPlace {
  std::string unknown;     // why the place is not known
  std::size_t at = 0;      // the word that Python's own command line begins with
  bool is_script = false;  // that word is the script, because a wrapper adds Python
};

PythonPlace place_in_uv(const std::vector<std::string>& words, std::size_t at) {
  const std::string first = at < words.size() ? words[at] : "nothing";
  if (first.ends_with(".py")) return {.at = at, .is_script = true};
  if (file_name(first).starts_with("python")) return {.at = at};
  return {"uv run starts " + first};
}

// Finds the program in "uv run --extra=cpu -- python train.py". A word behind another option might be its value.
PythonPlace find_python_of_uv(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 7> kFlags = {"--active",  "--frozen",     "--isolated", "--locked",
                                                      "--no-sync", "--no-project", "--offline"};
  std::size_t at = 2;
  for (; at < words.size() && words[at].starts_with('-'); ++at) {
    const std::string& word = words[at];
    if (word == "--") return place_in_uv(words, at + 1);
    if (word.find('=') == std::string::npos && std::ranges::find(kFlags, word) == kFlags.end()) {
      return {"it is not known whether " + word + " of uv run has a value (write --option=value)"};
    }
  }
  return place_in_uv(words, at);
}

PythonPlace find_python(const LaunchPlan& plan) {
  const std::string name = file_name(plan.program);
  if (name == "uv" && plan.arguments.size() > 2 && plan.arguments[1] == "run") return find_python_of_uv(plan.arguments);
  if (!name.starts_with("python")) return {plan.what + " is not started by Python itself"};
  return {};
}

}  // namespace

std::string no_preload_reason(const LaunchPlan& plan) {
  const PythonPlace place = find_python(plan);
  if (!place.unknown.empty()) return place.unknown;
  const PythonOptions options =
      place.is_script ? PythonOptions{.program = place.at} : read_options(plan.arguments, place.at);
  if (!options.without_site.empty()) return "with " + options.without_site + ", Python does not run ddplaunch's code";
  if (options.program >= plan.arguments.size() || names_stdin(plan.arguments[options.program])) {
    return "Python reads the program from its standard input";
  }
  if (plan.python_hook.empty()) {
    return std::string("ddplaunch's code does not run in Python (") + wire::env::kTorch +
           "=0, --hang-timeout=0 or --log-dir=/dev/null)";
  }
  if (!plan.bindings.empty() && !plan.omp_threads &&
      !find_variable(plan.inherited_environment, wire::env::kOmpNumThreads)) {
    return "OMP_NUM_THREADS is not set, and each worker is bound to other CPUs";
  }
  const auto depends_on_rank = [](const std::string& word) {
    return substitute_local_rank(word, 0) != substitute_local_rank(word, 1);
  };
  if (plan.local_rank_argument || (plan.local_rank_macro && std::ranges::any_of(plan.arguments, depends_on_rank))) {
    return "the arguments depend on the local rank";
  }
  return "";
}

std::vector<std::string> python_probe(const LaunchPlan& plan) {
  const PythonPlace place = find_python(plan);
  const auto end = plan.arguments.begin() + static_cast<std::ptrdiff_t>(place.at + (place.is_script ? 0 : 1));
  std::vector<std::string> words(plan.arguments.begin(), end);
  words.front() = plan.program;
  if (place.is_script) words.emplace_back("python");
  words.insert(words.end(), {"-c", ""});
  return words;
}

}  // namespace ddp::launcher
