#include "launcher/start/cli/subcommand_options.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/log_options.h"
#include "launcher/start/cli/values.h"

namespace ddp::launcher {
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

using Action = StoreOptions::Action;

// Takes the address of the store that is inspected or joined.
Take place(StoreOptions& options) {
  return [&options](const std::string& value) {
    const auto place = parse_host_and_port(value);
    if (!place) return Mistake(place.error().message);
    if (place.value().port == 0) return Mistake(" has no port. Add the port of the store, 29500 by default.");
    options.host = place.value().host;
    options.port = place.value().port.value_or(StoreOptions().port);
    return Mistake();
  };
}

// Describes an option that has a meaning for one action only.
struct Use {
  std::string_view option;
  Action action;
};
constexpr Use kUses[] = {
    {"host", Action::serve},        {"port", Action::serve},       {"port-file", Action::serve},
    {"store-limit", Action::serve}, {"store-open", Action::serve}, {"json", Action::inspect},
    {"inspect", Action::inspect},   {"join", Action::join},
};

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string without_ending(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && dot > path.rfind('/') + 1;
  return has_ending ? path.substr(0, dot) : path;
}

}  // namespace

void declare_options(OptionSet& c, TopOptions& o) {
  c.flag("--once", o.once, "Print the job once as plain lines, and exit.");
  c.flag("--json", o.json, "Print one line of JSON per interval, or a single one with --once.");
  c.value("--interval", "SECONDS", interval(o), "Take a new snapshot after this time. [default: 0.5]");
  c.choice_of<RankOrder>(
      "--sort", "ORDER", o.order,
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

void declare_options(OptionSet& c, LsOptions& o) {
  c.flag("--json", o.json, "Print the jobs as one JSON document on one line.");
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, LsOptions& /*options*/) {
  if (words.program.empty()) return std::nullopt;
  return "ddplaunch ls lists all jobs. Remove '" + words.program.front() +
         "'. To start a program named ls, write ./ls or its path.";
}

void declare_options(OptionSet& c, StoreOptions& o) {
  c.value("--host", "ADDR", some_text(o.host, "an address of this node"),
          "Listen on this address of this node. [default: 127.0.0.1; all addresses with --store-open]");
  c.value("--port", "N", integer<std::uint16_t>(o.port, 0, 65'535),
          "Listen on this port; 0 takes a free port. [default: 29500]");
  c.value("--port-file", "FILE", some_text(o.port_file, "a file"),
          "Write the port to this file, atomically, when the store listens.");
  c.value("--inspect", "HOST[:PORT]", place(o),
          "Print which clients wait for which keys of this store, its clients and its keys, and exit; write "
          "[ADDRESS]:PORT for IPv6.");
  c.flag("--json", o.json, "Print everything that --inspect knows as JSON.");
  c.value("--join", "HOST[:PORT]", place(o),
          "Prove to this store that this node knows the token. While this command runs, programs of this node may use "
          "the store.");
  declare_store_access(c, o.auth_token_file, o.open, o.limits);
  declare_log_options(c, o.log);
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, StoreOptions& options) {
  if (!words.program.empty()) {
    return "ddplaunch store starts no program. Remove '" + words.program.front() +
           "'. To start a program named store, write ./store or its path.";
  }
  if (options.open && last_of(words.settings, "host") == nullptr) options.host = "::";
  for (const Setting& setting : words.settings) {
    if (setting.option->name() == "inspect") options.action = Action::inspect;
    if (setting.option->name() == "join") options.action = Action::join;
  }
  for (const Setting& setting : words.settings) {
    const auto* use =
        std::ranges::find_if(kUses, [&](const Use& each) { return each.option == setting.option->name(); });
    if (use == std::end(kUses) || use->action == options.action) continue;
    if (options.action == Action::serve)
      return setting.subject + " requires --inspect. Add --inspect, or leave this option out.";
    return setting.subject + " cannot be combined with " + (options.action == Action::join ? "--join" : "--inspect") +
           ". Leave one out.";
  }
  return std::nullopt;
}

void declare_options(OptionSet& c, ReportOptions& o) {
  c.value("-o,--output", "FILE", some_text(o.output, "a file"),
          "Write the report to this file; - writes it to the standard output. [default: the name of the event log with "
          ".html]");
  c.value("--run-id", "ID", some_text(o.run_id, "a run"),
          "Report on this run if the event log contains several. [default: the last one]");
  declare_log_options(c, o.log);
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, ReportOptions& options) {
  if (words.program.empty()) {
    return "no event log given. Usage: ddplaunch report EVENT_LOG [EVENT_LOG]. Run a job with --event-log FILE to get "
           "one";
  }
  if (words.program.size() > 2) {
    return "ddplaunch report compares at most two event logs, and '" + words.program[2] + "' is the third. Remove it";
  }
  options.event_logs = words.program;
  if (std::ranges::find(options.event_logs, "") != options.event_logs.end()) {
    return "the name of the event log is empty. Name a file";
  }
  const bool compares = options.event_logs.size() == 2;
  if (compares && !options.run_id.empty()) {
    return "--run-id selects a run of one event log, and two are given. Make an event log per run, with --event-log";
  }
  if (!options.output.empty()) return std::nullopt;
  const std::string& first = options.event_logs.front();
  options.output = without_ending(first);
  if (compares) options.output += "-" + file_name(without_ending(options.event_logs.back()));
  options.output += ".html";
  if (options.output == first) {
    return "the report would overwrite the event log '" + first + "'. Choose another file with -o";
  }
  return std::nullopt;
}

void declare_options(OptionSet& c, ExplainOptions& o) {
  c.flag("--json", o.json, "Print the explanation as one JSON document.");
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, ExplainOptions& options) {
  if (words.program.empty()) {
    return "no log given. Usage: ddplaunch explain FILE|DIR|-. For the logs of a running command: COMMAND 2>&1 | "
           "ddplaunch explain -";
  }
  if (std::ranges::find(words.program, "") != words.program.end()) {
    return "the name of a log is empty. Name a file, a directory or -";
  }
  options.inputs = words.program;
  return std::nullopt;
}

}  // namespace ddp::launcher
