#include "launcher/start/cli/log_options.h"

#include <algorithm>

#include "base/text.h"

namespace ddp::launcher {

void declare_log_options(OptionSet& c, LogSettings& log) {
  c.flag("-q,--quiet", accept,
         "Print no lines of ddplaunch itself unless something goes wrong; the same as --log-level=warning.");
  c.flag("-v,--verbose", accept,
         "Also print what workers, nodes, signals and the store do; the same as --log-level=debug.");
  c.choice("--log-level", "LEVEL", kLogLevelNames, accept,
           "Print lines of ddplaunch itself from this level on. If -q, -v and this option are combined, the last one "
           "counts. [default: info] [env: DDP_LOG]");
  c.value("--launcher-log", "FILE", some_text(log.file, "a file"),
          "Append the lines of ddplaunch itself, from level debug on, to this file, with time, node and component.");
}

std::vector<Setting> log_level_of_variable(std::span<const std::string> environment, const OptionList& options) {
  for (const std::string& line : environment) {
    if (!line.starts_with("DDP_LOG=") || line == "DDP_LOG=") continue;
    return {{find_option("log-level", options), line.substr(line.find('=') + 1), line}};
  }
  return {};
}

void choose_log_level(std::span<const Setting> settings, LogSettings& log) {
  const std::vector<std::string> levels = base::split(kLogLevelNames, ' ');
  for (const Setting& setting : settings) {
    const std::string& name = setting.option->name();
    const bool is_on = setting.value == "1";
    if (name == "quiet") log.level = is_on ? LogLevel::warning : LogLevel::info;
    if (name == "verbose") log.level = is_on ? LogLevel::debug : LogLevel::info;
    if (name != "log-level") continue;
    log.level = static_cast<LogLevel>(std::ranges::find(levels, setting.value) - levels.begin());
  }
}

}  // namespace ddp::launcher
