#include "launcher/cli/host_words.h"

#include <algorithm>
#include <string_view>

namespace ddp::launcher {
namespace {

constexpr std::string_view kNotForHosts[] = {"hosts",       "hostfile",        "ssh",     "remote-launcher",
                                             "forward-env", "auth-token-file", "dry-run", "json"};

bool is_for_hosts(const OptionSpec& option) {
  return option.sources != OptionSources::command_line &&
         std::find(std::begin(kNotForHosts), std::end(kNotForHosts), option.name) == std::end(kNotForHosts);
}

}  // namespace

std::vector<std::string> words_for_hosts(std::span<const Setting> settings) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const OptionSpec& option = *settings[i].option;
    const auto later = settings.subspan(i + 1);
    const bool again =
        std::any_of(later.begin(), later.end(), [&](const Setting& other) { return other.option == &option; });
    if (!is_for_hosts(option) || (again && !option.repeatable)) continue;
    const std::string name(option.name);
    if (option.kind == OptionKind::value) {
      words.push_back("--" + name + "=" + settings[i].value);
    } else if (settings[i].value == "1") {
      words.push_back("--" + name);
    } else if (option.negatable) {
      words.push_back("--no-" + name);
    }
  }
  return words;
}

}  // namespace ddp::launcher
