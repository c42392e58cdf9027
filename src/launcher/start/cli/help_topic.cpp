#include "launcher/start/cli/help_topic.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "launcher/start/causes/cause_table.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/known_errors_page.h"

namespace ddp::launcher {
namespace {

constexpr int kDiagnoses = 10;  // DDP-H01 to DDP-H10: see launcher/run/ranks/verdict.h

// What `ddplaunch help` says of an option that needs more than one sentence.
struct OptionTopic {
  std::string_view option;  // without dashes
  std::string_view text;
};
constexpr OptionTopic kOptionTopics[] = {
    {"preload",
     "One process per node, the preloader, is started with the command of a worker. It\n"
     "imports the modules and forks the workers within milliseconds, also after a\n"
     "restart. They share the memory of the import; nothing else is shared. A worker\n"
     "is like a started one: sys.argv, __main__, -m, environment, limits and CPUs.\n"
     "\n"
     "Workers are started as without the option, and a note says why, if a module uses\n"
     "a GPU, keeps a file open, starts threads, or asks for RANK or LOCAL_RANK when it is\n"
     "imported, if the program sets variables before an import that reads them, and if a\n"
     "wrapper other than uv run starts Python.\n"
     "\n"
     "It cannot speed up C++ programs, and the time after the import. The page \"Start\n"
     "faster\" of the manual (docs/how-to/start-faster.md) has more.\n"}};

std::string in_lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Holds the options of a job or of a subcommand.
struct OptionGroup {
  std::string heading;
  OptionList options;
};

std::vector<OptionGroup> all_options() {
  std::vector<OptionGroup> groups = {{"Options of ddplaunch:", job_options()}};
  for (const Subcommand& each : subcommands()) {
    if (each.description == nullptr) continue;
    groups.push_back({std::string("Options of ddplaunch ") + each.name + ":", each.options()});
  }
  return groups;
}

// Returns the entries of the options for which `matches` returns true. Returns an empty text if there are none.
template <typename Matches>
std::string entries(Matches matches) {
  std::string text;
  for (const OptionGroup& group : all_options()) {
    std::string lines;
    for (const OptionInfo& option : group.options) {
      if (matches(option)) lines += option_lines(option);
    }
    if (!lines.empty()) text += (text.empty() ? "" : "\n") + group.heading + "\n" + lines;
  }
  return text;
}

std::string option_entries(const std::string& word) {
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const std::string name = with_dashes(word.substr(dashes, word.find('=') - dashes));
  std::string text = entries([&](const OptionInfo& option) {
    return std::ranges::find(option.names, name) != option.names.end() ||
           (dashes < 2 && !name.empty() && option.short_name == name);
  });
  const auto* topic = std::ranges::find(kOptionTopics, name, &OptionTopic::option);
  return topic == std::end(kOptionTopics) ? text : text + "\n" + std::string(topic->text);
}

std::optional<std::string> diagnosis(const std::string& word) {
  std::string code = in_lower_case(word);
  if (code.starts_with("ddp-")) code = code.substr(4);
  if (code.size() != 3 || code[0] != 'h') return std::nullopt;
  const auto number = base::parse_integer(code.substr(1), 1, kDiagnoses);
  if (!number) return std::nullopt;
  return "DDP-H" + code.substr(1) +
         " is a diagnosis of a job that hangs. The page \"Diagnoses\" of the manual\n"
         "(docs/reference/diagnoses.md) explains what has happened and what to do.\n";
}

std::string found_entries(std::span<const std::string> words) {
  return entries([&](const OptionInfo& option) {
    const std::string text = in_lower_case(option_synopsis(option) + " " + option.help);
    return std::ranges::all_of(words, [&](const std::string& word) {
      return !word.empty() && text.find(in_lower_case(word)) != std::string::npos;
    });
  });
}

std::optional<std::string> nearest_topic(const std::string& word) {
  std::vector<std::string> known;
  for (const Subcommand& each : subcommands()) known.emplace_back(each.name);
  for (const OptionGroup& group : all_options()) {
    for (const OptionInfo& option : group.options) base::append(known, option.names);
  }
  return base::nearest_match(with_dashes(word.substr(std::min(word.find_first_not_of('-'), word.size()))), known);
}

}  // namespace

base::Result<std::string> help_on(std::span<const std::string> words) {
  if (words.empty()) return help_text("ddplaunch");
  const std::string& first = words.front();
  if (words.size() == 1) {
    const Subcommand* command = find_subcommand(first);
    std::string options = option_entries(first);
    if (command != nullptr) {
      const std::string hint =
          options.empty() ? "" : "There is an option of this name, too: ddplaunch help --" + first + "\n";
      return subcommand_help(*command) + hint;
    }
    if (!options.empty()) return options;
    if (auto text = diagnosis(first)) return *text;
    if (const Cause* cause = find_cause_by_id(first)) return cause_help(*cause);
  }
  std::string found = found_entries(words);
  if (const Cause* cause = find_cause(base::join(words, " ")))
    found += (found.empty() ? "" : "\n") + cause_help(*cause);
  if (!found.empty()) return found;
  const auto nearest = words.size() == 1 ? nearest_topic(first) : std::nullopt;
  return base::Failure{"no subcommand, option, diagnosis or known error is named '" + base::join(words, " ") +
                       "', and no help has these words." + (nearest ? " Did you mean " + *nearest + "?" : "")};
}

}  // namespace ddp::launcher
