#include "launcher/cli/command_words.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace ddp::launcher {
namespace {

// What the user typed, in the spelling of dashes that the user prefers.
std::string spelt_like(const std::string& word, std::string name) {
  const std::size_t letters = word.find_first_not_of('-');
  if (letters != std::string::npos && word.find('_', letters) != std::string::npos) {
    std::replace(name.begin(), name.end(), '-', '_');
  }
  return name;
}

// The options with a name that begins with `part`; those of torchrun alone, if there are any.
std::vector<const OptionSpec*> completed(const std::string& part, const OptionTable& table) {
  std::vector<const OptionSpec*> found;
  for (const OptionSpec& option : table) {
    if (option.in_full) continue;
    const auto names = names_of(option);
    const auto begins = [&](const std::string& name) { return name.starts_with(part); };
    if (std::any_of(names.begin(), names.end(), begins)) found.push_back(&option);
  }
  std::vector<const OptionSpec*> of_torchrun;
  std::copy_if(found.begin(), found.end(), std::back_inserter(of_torchrun),
               [](const OptionSpec* option) { return option->of_torchrun; });
  return of_torchrun.empty() ? found : of_torchrun;
}

std::string unknown_option(const std::string& word, const OptionTable& table) {
  const auto nearest = nearest_option(word, table);
  return "unknown option " + word + "." + (nearest ? " Did you mean " + *nearest + "?" : "");
}

class Reader {
 public:
  Reader(std::span<const std::string> words, Manner manner, const OptionTable& table)
      : words_(words), manner_(manner), table_(table) {}

  base::Result<CommandWords> read() {
    while (at_ < words_.size() && !result_.help) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        break;
      }
      if (word.size() < 2 || word[0] != '-') break;
      ++at_;
      const auto mistake = word[1] == '-' ? read_long(word) : read_short(word);
      if (mistake) return base::Failure{*mistake};
    }
    if (!result_.help) result_.program.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    return result_;
  }

 private:
  using Mistake = std::optional<std::string>;

  Mistake read_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string typed = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);

    std::string name = with_dashes(typed.substr(2));
    const OptionSpec* option = find_option(name, table_);
    if (option == nullptr && manner_ != Manner::native) {
      const auto candidates = completed(name, table_);
      if (candidates.size() > 1) return ambiguous(typed, candidates);
      if (candidates.size() == 1) {
        option = candidates.front();
        const auto names = names_of(*option);
        name = *std::find_if(names.begin(), names.end(), [&](const auto& full) { return full.starts_with(name); });
      }
    }
    if (option == nullptr) return unknown_option(typed, table_);
    return is_negation(*option, name) ? add_negation(*option, typed, value) : add(*option, typed, value);
  }

  // -m, -r3, -r=3, -r 3, -qm.
  Mistake read_short(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const OptionSpec* option = find_option(word[i], table_);
      if (option == nullptr) return unknown_option(i == 1 ? word : "-" + word.substr(i, 1) + " in " + word, table_);
      const std::string typed = std::string("-") + word[i];
      const std::string rest = word.substr(i + 1);
      if (rest.starts_with("=")) return add(*option, typed, rest.substr(1));
      if (option->kind == OptionKind::value && !rest.empty()) return add(*option, typed, rest);
      if (Mistake mistake = add(*option, typed, std::nullopt)) return mistake;
    }
    return std::nullopt;
  }

  using Value = std::optional<std::string>;

  Mistake add(const OptionSpec& option, const std::string& typed, Value value) {
    if (option.kind == OptionKind::flag) {
      if (value) return typed + " takes no value. Write " + typed + " alone.";
      result_.help = option.name == "help";
      result_.settings.push_back({&option, "1", typed});
      return std::nullopt;
    }
    if (!value) {
      const std::string example = typed + (typed[1] == '-' ? "=" : " ");
      if (at_ == words_.size()) return typed + " needs a value: " + example + std::string(option.value_name) + ".";
      if (is_option(words_[at_])) {
        return typed + " needs a value, but the option " + words_[at_] + " comes next. If that is the value, write " +
               typed + "=" + words_[at_] + ".";
      }
      value = words_[at_++];
    }
    result_.settings.push_back({&option, *value, typed + "=" + *value});
    return std::nullopt;
  }

  Mistake add_negation(const OptionSpec& option, const std::string& typed, const Value& value) {
    if (value) return typed + " takes no value. Write " + typed + " alone.";
    result_.settings.push_back({&option, option.kind == OptionKind::flag ? "0" : "", typed});
    return std::nullopt;
  }

  bool is_option(const std::string& word) const {
    if (word.size() == 2 && word[0] == '-') return find_option(word[1], table_) != nullptr;
    return word.starts_with("--") && find_option(word.substr(2, word.find('=') - 2), table_) != nullptr;
  }

  static std::string ambiguous(const std::string& typed, const std::vector<const OptionSpec*>& candidates) {
    std::vector<std::string> names;
    for (const OptionSpec* option : candidates) names.push_back("--" + std::string(option->name));
    return typed + " may mean " + base::join(names, " or ") + ". Write it out.";
  }

  std::span<const std::string> words_;
  Manner manner_;
  const OptionTable& table_;
  std::size_t at_ = 0;
  CommandWords result_;
};

}  // namespace

std::optional<std::string> nearest_option(const std::string& word, const OptionTable& table) {
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  std::vector<std::string> names;
  for (const OptionSpec& option : table) {
    for (const std::string& name : names_of(option)) {
      names.push_back(word.substr(0, dashes) + spelt_like(word, name));
    }
  }
  // A word that was cut short comes before a mistyped one.
  for (const std::string& name : names) {
    if (word.size() > dashes && name.starts_with(word)) return name;
  }
  return base::nearest_match(word, names);
}

base::Result<CommandWords> read_words(std::span<const std::string> words, Manner manner, const OptionTable& table) {
  return Reader(words, manner, table).read();
}

}  // namespace ddp::launcher
