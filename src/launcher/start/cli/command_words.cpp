#include "launcher/start/cli/command_words.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace ddp::launcher {
namespace {

// torchrun has options of these names.
constexpr const char* kOfTorchrun =
    " nproc-per-node nnodes node-rank role module no-python run-path use-env start-method standalone rdzv-backend "
    "rdzv-endpoint rdzv-id rdzv-conf master-addr master-port local-addr virtual-local-rank numa-binding max-restarts "
    "grace signals-to-handle monitor-interval log-dir redirects tee local-ranks-filter duplicate-stdout-filters "
    "duplicate-stderr-filters logs-specs event-log-handler help ";
// An abbreviation (--auth-token) would take a token itself for the name of a file.
constexpr const char* kNeverCutShort = "auth-token-file";

bool is_of_torchrun(const OptionInfo* option) {
  return std::string_view(kOfTorchrun).find(" " + option->name() + " ") != std::string_view::npos;
}

struct Reader {
  const std::span<const std::string> words;
  const OptionList& options;
  const CompatibilityMode mode;
  const bool options_follow;
  std::size_t at = 0;
  CommandWords result = {};

  base::Result<CommandWords> read() {
    bool options_end = false;
    while (at < words.size() && !result.help) {
      const std::string& word = words[at++];
      if (options_end || word.size() < 2 || word[0] != '-') {
        result.program.push_back(word);
        options_end = options_end || !options_follow;
      } else if (word == "--") {
        options_end = !options_follow;
      } else if (const Mistake mistake = word[1] == '-' ? read_long(word) : read_short(word)) {
        return base::Failure{*mistake};
      }
    }
    return std::move(result);
  }

  using Value = std::optional<std::string>;

  Mistake read_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string typed = word.substr(0, equals);
    const Value value = equals == std::string::npos ? Value() : word.substr(equals + 1);
    std::string name = with_dashes(typed.substr(2));
    const OptionInfo* option = find_option(name, options);
    if (option == nullptr && mode != CompatibilityMode::native) {
      const auto begins = [part = name](const std::string& full) { return full.starts_with(part); };
      std::vector<const OptionInfo*> found;
      for (const OptionInfo& each : options) {
        if (each.name() != kNeverCutShort && std::ranges::any_of(each.names, begins)) found.push_back(&each);
      }
      if (std::ranges::any_of(found, is_of_torchrun)) std::erase_if(found, std::not_fn(is_of_torchrun));
      if (found.size() > 1) {
        std::string names = "--" + found.front()->name();
        for (const OptionInfo* each : std::span(found).subspan(1)) names += " or --" + each->name();
        return typed + " is ambiguous: it may mean " + names + ". Write the full name.";
      }
      if (found.size() == 1) name = *std::ranges::find_if((option = found.front())->names, begins);
    }
    if (option == nullptr) return unknown_option(typed, options);
    return add(*option, typed, value, option->is_negation(name));
  }

  // Reads words such as -m, -r3, -r=3, -r 3 and -qm.
  Mistake read_short(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const OptionInfo* option = find_short_option(word[i], options);
      const std::string typed = std::string("-") + word[i];
      if (option == nullptr) return unknown_option(i == 1 ? word : typed + " in " + word, options);
      const std::string rest = word.substr(i + 1);
      if (rest.starts_with("=")) return add(*option, typed, rest.substr(1));
      if (!option->is_flag() && !rest.empty()) return add(*option, typed, rest);
      if (Mistake mistake = add(*option, typed, std::nullopt)) return mistake;
    }
    return std::nullopt;
  }

  Mistake add(const OptionInfo& option, const std::string& typed, Value value, bool negated = false) {
    if (option.is_flag() || negated) {
      if (value) return typed + " takes no value. Write " + typed + " alone.";
      result.help = result.help || option.name() == "help";
      result.settings.push_back({&option, !option.is_flag() ? "" : negated ? "0" : "1", typed});
      return std::nullopt;
    }
    if (!value && !option.implied.empty()) {
      const bool follows = at < words.size() && std::ranges::find(option.choices, words[at]) != option.choices.end();
      value = follows ? words[at++] : option.implied;
    }
    if (!value) {
      const std::string example = typed + (typed[1] == '-' ? "=" : " ");
      if (at == words.size()) return typed + " needs a value: " + example + option.value_name + ".";
      if (is_option(words[at])) {
        return typed + " needs a value, but the option " + words[at] + " comes next. If that is the value, write " +
               typed + "=" + words[at] + ".";
      }
      value = words[at++];
    }
    result.settings.push_back({&option, *value, typed + "=" + *value});
    return std::nullopt;
  }

  bool is_option(const std::string& word) const {
    if (word.size() == 2 && word[0] == '-') return find_short_option(word[1], options) != nullptr;
    return word.starts_with("--") && find_option(word.substr(2, word.find('=') - 2), options) != nullptr;
  }
};

}  // namespace

base::Result<CommandWords> read_words(std::span<const std::string> words, const OptionList& options,
                                      CompatibilityMode mode, bool options_follow) {
  return Reader{words, options, mode, options_follow}.read();
}

}  // namespace ddp::launcher
