#include "launcher/start/facts/stdin_program.h"

#include <algorithm>
#include <array>
#include <span>

#include "launcher/start/facts/wrapper_programs.h"

namespace ddp::launcher {
namespace {

// Describes how an interpreter is called. The names end with a version or with nothing, as in "python3.11".
struct Interpreter {
  std::string_view name;
  std::string_view code;    // one-letter options that are followed by a program
  std::string_view input;   // one-letter options that ask for a program on the standard input
  std::string_view values;  // one-letter options that are followed by a value
  bool plus_options;        // options may begin with "+"
};
constexpr Interpreter kShell{"", "c", "s", "oO", true};
constexpr std::array kInterpreters{
    Interpreter{"python", "cm", "", "WX", false}, Interpreter{"pypy", "cm", "", "WX", false},
    Interpreter{"perl", "eE", "", "", false},     Interpreter{"ruby", "e", "", "", false},
    Interpreter{"node", "epc", "", "r", false},   Interpreter{"Rscript", "e", "", "", false},
    Interpreter{"julia", "eE", "", "", false},    Interpreter{"lua", "e", "", "l", false},
};
constexpr std::array<std::string_view, 5> kShells{"sh", "bash", "dash", "zsh", "ksh"};
constexpr std::array<std::string_view, 6> kLongOptionsWithValue{"--rcfile",  "--init-file", "--check-hash-based-pycs",
                                                                "--require", "--project",   "--loader"};
// These long options print something, or are followed by a program.
constexpr std::array<std::string_view, 5> kLongOptionsWithoutInput{"--version", "--help", "--eval", "--print",
                                                                   "--check"};

template <typename Words>
bool contains(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != std::ranges::end(words);
}

const Interpreter* interpreter_of(std::string_view word) {
  std::string_view name = word.substr(word.rfind('/') + 1);
  name = name.substr(0, name.find_last_not_of("0123456789.") + 1);
  if (contains(kShells, name)) return &kShell;
  const auto* const found = std::ranges::find(kInterpreters, name, &Interpreter::name);
  return found == kInterpreters.end() ? nullptr : found;
}

bool reads_program(const Interpreter& interpreter, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool is_option = word.size() > 1 && (word[0] == '-' || (interpreter.plus_options && word[0] == '+'));
    const bool ends_options = word == "--" || (&interpreter == &kShell && word == "-");
    if (ends_options) return i + 1 == words.size() || names_stdin(words[i + 1]);
    if (!is_option) return names_stdin(word);
    if (word.starts_with("--")) {
      const std::string_view name = word.substr(0, word.find('='));
      if (contains(kLongOptionsWithoutInput, name)) return false;
      i += contains(kLongOptionsWithValue, word) ? 1 : 0;
      continue;
    }
    for (const char letter : word.substr(1)) {
      if (interpreter.input.find(letter) != std::string_view::npos) return true;
      const bool prints = &interpreter != &kShell && (letter == 'V' || letter == 'h');
      if (prints || interpreter.code.find(letter) != std::string_view::npos) return false;
      if (interpreter.values.find(letter) == std::string_view::npos) continue;
      i += word.back() == letter ? 1 : 0;  // otherwise, the value is the rest of the word
      break;
    }
  }
  return true;
}

}  // namespace

bool names_stdin(std::string_view word) {
  constexpr std::array<std::string_view, 4> kNames{"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"};
  return contains(kNames, word);
}

bool reads_program_from_stdin(const std::vector<std::string>& command) {
  const std::span words(command);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (const Interpreter* interpreter = interpreter_of(words[i]))
      return reads_program(*interpreter, words.subspan(i + 1));
    if (i == 0 && !is_wrapper(words[0].substr(words[0].rfind('/') + 1))) return false;
  }
  return false;
}

}  // namespace ddp::launcher
