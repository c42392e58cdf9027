#include "launcher/start/cli/top_options.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/values.h"

namespace ddp::launcher {

const char* const kTopDescription =
    "Shows a running job of this user on this node: its progress, and for each rank its state, its step, where its "
    "time "
    "goes and which ranks the others wait for. PID is the process id of its ddplaunch, and RUN_ID is the name of the "
    "run. Neither is needed if only one job is running. The key h lists the keys.";

const char* const kTopExitCodes =
    "ddplaunch top exits with 0 when the user quits or the job has ended. Other codes: 2: wrong usage; 125: there is "
    "no "
    "such job, several jobs are running, or the job cannot be shown.";

namespace {

constexpr auto kShortestInterval = std::chrono::milliseconds(100);

Take interval(TopOptions& options) {
  return [&options](const std::string& value) {
    const auto seconds = parse_seconds(value);
    if (!seconds) return Mistake(seconds.error().message);
    if (seconds.value() < kShortestInterval) return Mistake(" is too short. Use 0.1 or more.");
    options.interval = seconds.value();
    return Mistake();
  };
}

}  // namespace

void declare_top_options(OptionSet& c, TopOptions& o) {
  c.flag("--once", o.once, "Print the job once as plain lines, and exit.");
  c.flag("--json", o.json, "Print one line of JSON per interval, or a single one with --once.");
  c.value("--interval", "SECONDS", interval(o), "Take a new snapshot after this time. [default: 0.5]");
  c.choice(
      "--sort", "ORDER", kNamesOf<RankOrder>,
      [&o](const std::string& value) {
        const auto names = base::split(kNamesOf<RankOrder>, ' ');
        o.order = static_cast<RankOrder>(std::ranges::find(names, value) - names.begin());
        return Mistake();
      },
      "Show the ranks in this order. In the order auto, ranks that the others wait for come first during a stall. "
      "[default: auto]");
  c.value("--filter", "TEXT", some_text(o.filter, "a text or a list of ranks"),
          "Show only ranks with this text in their node, state, phase, GPU or collective, or these ranks, such as "
          "0,8-15.");
  c.flag("--no-color", o.no_color, "Use marks and letters instead of colours. [env: NO_COLOR]");
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, TopOptions& options) {
  if (words.program.size() > 1) return "ddplaunch top shows one job. Remove '" + words.program[1] + "'.";
  if (!words.program.empty()) options.job = words.program.front();
  return std::nullopt;
}

OptionList top_options() {
  TopOptions options;
  OptionSet command(false);
  declare_top_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
