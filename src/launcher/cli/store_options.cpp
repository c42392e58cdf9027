#include "launcher/cli/store_options.h"

#include <algorithm>
#include <string_view>

#include "launcher/cli/job_options.h"
#include "launcher/cli/log_options.h"
#include "launcher/cli/values.h"

namespace ddp::launcher {

const char* const kStoreDescription =
    "Serves a rendezvous store in the foreground, for programs that are started by something else than ddplaunch, "
    "until it gets SIGTERM or Ctrl-C. With --inspect: tells who waits for what in a store, also in that of a running "
    "job. With --join: proves this machine to a store elsewhere.";

const char* const kStoreExitCodes =
    "The exit code is 0 when asked to end; 2: usage, 125: the store cannot listen, cannot be reached, does not let us "
    "in, or has gone.";

namespace {

using Action = StoreOptions::Action;

// The store there.
Take place(StoreOptions& options) {
  return [&options](const std::string& value) {
    const auto place = parse_host_and_port(value);
    if (!place) return Mistake(place.error().message);
    if (place.value().port == 0) return Mistake(" has no port. Use that of the store, 29500 by default.");
    options.host = place.value().host;
    options.port = place.value().port.value_or(StoreOptions().port);
    return Mistake();
  };
}

// Options that mean something for one action only.
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
  c.value("--host", "ADDR", some_text(o.host, "an address of this machine"),
          "Listen on this address of this machine. Default: 127.0.0.1, or everywhere with --store-open.");
  c.value("--port", "N", integer<std::uint16_t>(o.port, 0, 65'535),
          "Listen on this port; 0: a free one. Default: 29500, as torchrun.");
  c.value("--port-file", "FILE", some_text(o.port_file, "a file"),
          "Write the port into this file, at once and whole, when the store listens.");
  c.value(
      "--inspect", "HOST[:PORT]", place(o),
      "Print who waits for which key, the clients and the keys of the store there, and exit; [ADDRESS]:PORT for IPv6.");
  c.flag("--json", o.json, "With --inspect: print it as JSON, and all of it.");
  c.value("--join", "HOST[:PORT]", place(o),
          "Prove to the store there that this machine knows the token: as long as this runs, programs of this machine "
          "may use the store.");
  declare_store_access(c, o.auth_token_file, o.open, o.limits);
  declare_log_options(c, o.log);
  declare_help(c);
}

std::optional<std::string> check_together(const CommandWords& words, StoreOptions& options) {
  if (!words.program.empty()) {
    return "ddplaunch store starts no program: '" + words.program.front() +
           "' is too much. To start a program named store, write ./store or its path.";
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
    if (options.action == Action::serve) return setting.subject + " is for --inspect. Add that, or leave it out.";
    return setting.subject + " does not go with " + (options.action == Action::join ? "--join" : "--inspect") +
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
