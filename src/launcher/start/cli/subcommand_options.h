// Defines the options of the commands that start no job, as plain values. The functions are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/start/cli/choices.h"
#include "launcher/start/cli/command_words.h"
#include "launcher/start/cli/options.h"
#include "launcher/start/log/log_line.h"
#include "store/server/store_limits.h"

namespace ddp::launcher {

struct TopOptions {
  std::string job;  // a pid, a run id or the path of a socket; empty for the only job of this user
  bool once = false;
  bool json = false;
  std::chrono::milliseconds interval{500};
  RankOrder order = RankOrder::automatic;
  std::string filter;
  bool no_color = false;

  friend bool operator==(const TopOptions&, const TopOptions&) = default;
};

struct LsOptions {
  bool json = false;

  friend bool operator==(const LsOptions&, const LsOptions&) = default;
};

struct StoreOptions {
  enum class Action { serve, inspect, join };

  Action action = Action::serve;
  std::string host = "127.0.0.1";  // name or address without brackets, to listen on or to connect to
  std::uint16_t port = 29'500;     // torchrun's port; 0 if the kernel chooses one
  std::string port_file;           // empty if there is none
  bool open = false;
  store::StoreLimits limits;
  bool json = false;
  std::string auth_token_file;  // empty if there is none
  LogSettings log;

  friend bool operator==(const StoreOptions&, const StoreOptions&) = default;
};

struct ReportOptions {
  std::vector<std::string> event_logs;  // one, or two to compare
  std::string output;                   // "-" for the standard output
  std::string run_id;                   // empty for the last run
  LogSettings log;

  friend bool operator==(const ReportOptions&, const ReportOptions&) = default;
};

struct ExplainOptions {
  std::vector<std::string> inputs;  // files and directories; "-" for the standard input
  bool json = false;

  friend bool operator==(const ExplainOptions&, const ExplainOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_options(OptionSet& command, TopOptions& options);
void declare_options(OptionSet& command, LsOptions& options);
void declare_options(OptionSet& command, StoreOptions& options);
void declare_options(OptionSet& command, ReportOptions& options);
void declare_options(OptionSet& command, ExplainOptions& options);
void declare_options(OptionSet& command, DoctorOptions& options);

// Takes the words that are no options, and what follows from several options. Returns a sentence for the user if the
// words are not right.
std::optional<std::string> check_together(const CommandWords& words, TopOptions& options);
std::optional<std::string> check_together(const CommandWords& words, LsOptions& options);
std::optional<std::string> check_together(const CommandWords& words, StoreOptions& options);
std::optional<std::string> check_together(const CommandWords& words, ReportOptions& options);
std::optional<std::string> check_together(const CommandWords& words, ExplainOptions& options);

// Returns the declared options, for code that does not parse.
template <typename CommandOptions>
OptionList options_of() {
  CommandOptions options;
  OptionSet command(false);
  declare_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
