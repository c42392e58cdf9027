#include "launcher/start/cli/option_set.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace ddp::launcher {

std::string with_dashes(std::string_view name) {
  std::string dashes(name);
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  return dashes;
}

std::string with_underscores(std::string_view name) {
  std::string underscores(name);
  std::replace(underscores.begin(), underscores.end(), '-', '_');
  return underscores;
}

const OptionInfo* find_option(std::string_view name, const OptionList& options) {
  const auto found = std::ranges::find_if(options, [wanted = with_dashes(name)](const OptionInfo& option) {
    return std::ranges::find(option.names, wanted) != option.names.end();
  });
  return found == options.end() ? nullptr : &*found;
}

const OptionInfo* find_short_option(char name, const OptionList& options) {
  const auto found = std::ranges::find(options, std::string(1, name), &OptionInfo::short_name);
  return found == options.end() ? nullptr : &*found;
}

std::string unknown_option(const std::string& word, const OptionList& options) {
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const bool underscores = word.find('_', dashes) != std::string::npos;
  const std::string prefix = dashes == 0 ? "" : "--";  // the keys of a configuration file have no dashes
  std::vector<std::string> names;
  for (const OptionInfo& option : options) {
    for (const std::string& name : option.names) {
      names.push_back(prefix + (underscores ? with_underscores(name) : name));
    }
  }
  // A name that begins with the word is preferred to a similar name.
  const std::string wanted = prefix + word.substr(dashes);
  const auto begins = [&](const std::string& name) { return word.size() > dashes && name.starts_with(wanted); };
  const auto longer = std::ranges::find_if(names, begins);
  const auto nearest = longer != names.end() ? std::optional(*longer) : base::nearest_match(wanted, names);
  return "unknown option " + word + "." + (nearest ? " Did you mean " + *nearest + "?" : "");
}

std::string variable_of(std::string_view option_name) {
  std::string name = "PET_" + with_underscores(option_name);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  return name;
}

const Setting* last_of(std::span<const Setting> settings, std::string_view option_name) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const Setting& each) { return each.option->name() == option_name; });
  return found == settings.rend() ? nullptr : &*found;
}

OptionSet::OptionSet(bool has_variables) : app_(std::make_unique<CLI::App>()), has_variables_(has_variables) {
  app_->set_help_flag();
}

OptionSet::~OptionSet() = default;

CLI::Option* OptionSet::value(const std::string& names, const std::string& value_name, Take take, const char* help) {
  const std::size_t begin = names.find("--");
  const std::string name = names.substr(begin, names.find(',', begin) - begin);
  const auto callback = [this, name, take = std::move(take)](const CLI::results_t&) {
    take_values(name, take);
    return true;
  };
  CLI::Option* option = app_->add_option(names, CLI::callback_t(callback), help);
  option->group(group_)->take_last()->type_name(value_name);
  if (value_name.empty()) option->expected(0);
  if (has_variables_) option->envname(variable_of(name.substr(2)));
  return option;
}

CLI::Option* OptionSet::flag(const std::string& names, bool& target, const char* help) {
  const auto take = [&target](const std::string& value) {
    target = value == "1";
    return Mistake();
  };
  return flag(names, take, help);
}

CLI::Option* OptionSet::choice(const std::string& names, const std::string& value_name, std::string_view choices,
                               Take take, const char* help, bool several) {
  const std::vector<std::string> known = base::split(choices, ' ');
  const auto take_known = [known, take = std::move(take), several](const std::string& value) {
    const std::vector<std::string> chosen = several ? base::split(value, ',') : std::vector{value};
    const auto is_known = [&](const std::string& each) { return std::ranges::find(known, each) != known.end(); };
    if (std::ranges::all_of(chosen, is_known)) return take(value);
    return Mistake(" is not known. Use " + base::join(std::span(known).first(known.size() - 1), ", ") + " or " +
                   known.back() + (several ? ", or several, joined by commas." : "."));
  };
  return value(names, value_name + ":{" + base::join(known, ",") + "}", take_known, help);
}

void OptionSet::implies(CLI::Option* option, const char* value) {
  option->default_str(value);
}

void OptionSet::program(std::size_t count, std::vector<std::string>& target) {
  if (count == 0) return;
  // The number of words is fixed: with any number, CLI11 splits a word such as "[a,b]". For the same reason, the words
  // are taken before CLI11 reduces them.
  const auto take = [this, &target](const CLI::results_t&) {
    target = app_->get_option("program")->results();
    return true;
  };
  app_->positionals_at_end()->add_option("program", CLI::callback_t(take))->expected(static_cast<int>(count));
}

const OptionList& OptionSet::options() {
  if (!options_.empty()) return options_;
  for (const CLI::Option* option : app_->get_options()) {
    if (!option->nonpositional()) continue;
    OptionInfo& info = options_.emplace_back();
    info.names = option->get_lnames();
    if (!option->get_snames().empty()) info.short_name = option->get_snames().front();
    info.value_name = option->get_type_name();
    if (const std::size_t brace = info.value_name.find(":{"); brace != std::string::npos) {
      info.choices = base::split(std::string_view(info.value_name).substr(brace + 2), ',');
      info.choices.back().pop_back();
      info.choices_are_examples = info.choices.back() == "...";
      if (info.choices_are_examples) info.choices.pop_back();
      info.value_name.resize(brace);
    }
    info.implied = option->get_default_str();
    info.repeatable = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    info.variable = option->get_envname();
    info.in_files = option->get_configurable();
    info.group = option->get_group();
    info.help = option->get_description();
  }
  return options_;
}

std::optional<std::string> OptionSet::parse(std::span<const Setting> settings, std::span<const std::string> words) {
  settings_ = settings;
  std::vector<std::string> backwards(words.rbegin(), words.rend());
  if (!words.empty()) backwards.emplace_back("--");
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) {
    const std::string name = "--" + setting->option->name();
    if (setting->option->is_flag()) {
      backwards.push_back(name + "=" + setting->value);
    } else {
      // The value is a separate word, because CLI11 does not take "--name=" for an empty value.
      backwards.insert(backwards.end(), {setting->value, name});
    }
  }
  try {
    app_->parse(std::move(backwards));
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return std::nullopt;
}

// Uses the results themselves, because versions of CLI11 reduce a callback's argument in different ways.
void OptionSet::take_values(const std::string& name, const Take& take) const {
  const CLI::Option* option = app_->get_option(name);
  const CLI::results_t& values = option->results();
  const bool all = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  for (std::size_t i = all ? 0 : values.size() - 1; i < values.size(); ++i) {
    const auto mistake = take(values[i]);
    if (!mistake) continue;
    std::size_t others = i;
    const auto wrong = std::ranges::find_if(
        settings_, [&](const Setting& setting) { return "--" + setting.option->name() == name && others-- == 0; });
    throw CLI::ConversionError((wrong == settings_.end() ? name : wrong->subject) + *mistake);
  }
}

}  // namespace ddp::launcher
