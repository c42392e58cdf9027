#include "launcher/start/cli/store_options.h"

#include <algorithm>
#include <string_view>

#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/log_options.h"
#include "launcher/start/cli/values.h"

namespace ddp::launcher {

const char* const kStoreDescription =
    "Serves a rendezvous store in the foreground until SIGTERM or Ctrl-C, for programs that ddplaunch did not start. "
    "With --inspect, prints which clients of a store wait for which keys; the store of a running job works, too. With "
    "--join, proves to a store on another node that this node belongs to the job.";

const char* const kStoreExitCodes =
    "ddplaunch store exits with 0 after SIGTERM or Ctrl-C. Other codes: 2: wrong usage; 125: the store cannot listen, "
    "cannot be reached, refuses this node, or has exited.";

namespace {

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

}  // namespace

void declare_store_options(OptionSet& c, StoreOptions& o) {
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

OptionList store_options() {
  StoreOptions options;
  OptionSet command(false);
  declare_store_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
