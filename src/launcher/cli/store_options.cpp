#include "launcher/cli/store_options.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "launcher/cli/settings.h"
#include "launcher/cli/values.h"

namespace ddp::launcher {

using base::Failure;
using base::Result;

const char* const kStoreDescription =
    "Serves a rendezvous store in the foreground, for programs that are started by something else than ddplaunch, "
    "until it gets SIGTERM or Ctrl-C. With --inspect: tells who waits for what in a store, also in that of a running "
    "job. With --join: proves this machine to a store elsewhere.";

const char* const kStoreExitCodes =
    "The exit code is 0 when asked to end; 2: usage, 125: the store cannot listen, cannot be reached, does not let us "
    "in, or has gone.";

namespace {

using enum OptionKind;
using Action = StoreOptions::Action;

// The options that a job has as well.
constexpr std::array<std::string_view, 3> kShared = {"auth-token-file", "store-open", "store-limit"};

OptionTable make_table() {
  // clang-format off
  OptionTable table = {
      {.name = "host", .value_name = "ADDR",
       .help = "Listen on this address of this machine. Default: 127.0.0.1, or everywhere with --store-open."},
      {.name = "port", .value_name = "N",
       .help = "Listen on this port; 0: a free one. Default: 29500, as torchrun."},
      {.name = "port-file", .value_name = "FILE",
       .help = "Write the port into this file, at once and whole, when the store listens."},
      {.name = "inspect", .value_name = "HOST[:PORT]",
       .help = "Print who waits for which key, the clients and the keys of the store there, and exit; [ADDRESS]:PORT "
               "for IPv6."},
      {.name = "json", .kind = flag,
       .help = "With --inspect: print it as JSON, and all of it."},
      {.name = "join", .value_name = "HOST[:PORT]",
       .help = "Prove to the store there that this machine knows the token: as long as this runs, programs of this "
               "machine may use the store."},
  };
  for (const std::string_view name : kShared) table.push_back(*find_option(name));
  table.push_back(*find_option("help"));
  // clang-format on
  return table;
}

bool is_shared(const Setting& setting) {
  return std::ranges::find(kShared, setting.option->name) != kShared.end();
}

Result<StoreOptions> with_shared(const std::vector<Setting>& settings) {
  std::vector<Setting> shared;
  std::ranges::copy_if(settings, std::back_inserter(shared), is_shared);
  auto options = make_options(shared, Manner::native);
  if (!options) return options.error();
  StoreOptions result;
  result.auth_token_file = options.value().auth_token_file;
  result.open = options.value().store_open;
  result.limits = options.value().store_limits;
  if (result.open) result.host = "::";
  return result;
}

// What is wrong with the value, if anything: what comes after "--name=value".
std::string apply(const Setting& setting, StoreOptions& options) {
  const std::string_view name = setting.option->name;
  const std::string& value = setting.value;
  if (name == "json") options.json = true;
  if (name == "host" || name == "port-file") {
    if (value.empty())
      return name == "host" ? " is empty. Name an address of this machine." : " is empty. Name a file.";
    (name == "host" ? options.host : options.port_file) = value;
  }
  if (name == "port") {
    const auto port = base::parse_integer(value, 0, 65'535);
    if (!port) return " is not a number from 0 to 65535.";
    options.port = static_cast<std::uint16_t>(*port);
  }
  if (name == "inspect" || name == "join") {
    const auto place = parse_host_and_port(value);
    if (!place) return place.error().message;
    if (place.value().port == 0) return " has no port. Use that of the store, 29500 by default.";
    options.action = name == "join" ? Action::join : Action::inspect;
    options.host = place.value().host;
    options.port = place.value().port.value_or(StoreOptions().port);
  }
  return "";
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
std::string misused(const std::vector<Setting>& settings, Action action) {
  for (const Setting& setting : settings) {
    const auto* use = std::ranges::find_if(kUses, [&](const Use& each) { return each.option == setting.option->name; });
    if (use == std::end(kUses) || use->action == action) continue;
    if (action == Action::serve) return setting.subject + " is for --inspect. Add that, or leave it out.";
    return setting.subject + " does not go with " + (action == Action::join ? "--join" : "--inspect") +
           ". Leave one out.";
  }
  return "";
}

}  // namespace

const OptionTable& store_option_table() {
  static const OptionTable kTable = make_table();
  return kTable;
}

Result<StoreOptions> make_store_options(const CommandWords& words) {
  if (!words.program.empty()) {
    return Failure{"ddplaunch store starts no program: '" + words.program.front() +
                   "' is too much. To start a program named store, write ./store or its path."};
  }
  auto options = with_shared(words.settings);
  if (!options) return options;
  for (const Setting& setting : words.settings) {
    if (is_shared(setting)) continue;
    if (const std::string mistake = apply(setting, options.value()); !mistake.empty()) {
      return Failure{setting.subject + mistake};
    }
  }
  const std::string mistake = misused(words.settings, options.value().action);
  if (!mistake.empty()) return Failure{mistake};
  return options;
}

}  // namespace ddp::launcher
