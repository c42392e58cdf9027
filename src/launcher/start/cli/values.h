// Parses the values of options that have a special form. The functions are pure. A failure is the text after
// "--name=value": " is not …".
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "launcher/start/cli/options.h"

namespace ddp::launcher {

// Parses "2", "auto", "gpu" or "cpu".
base::Result<WorkerCount> parse_workers(const std::string& text);

// Parses "a,b:4", which has one or more hosts.
base::Result<std::vector<HostEntry>> parse_host_words(const std::string& text);

// Parses a program and its arguments, separated by spaces.
base::Result<std::string> parse_program(const std::string& text);

// Parses "NAME", "NAME*" or "NAME=value", separated by commas.
base::Result<std::vector<std::string>> parse_forwarded(const std::string& text);

// Parses a name that can be part of a folder's name.
base::Result<std::string> parse_run_id(const std::string& text);
// Returns the names of Python modules, separated by commas, or an empty text for "off".
base::Result<std::string> parse_preload(const std::string& text);

base::Result<RdzvBackend> parse_rendezvous_backend(const std::string& text);

// Parses "2" or "1:4", with 0 < MIN <= MAX.
base::Result<std::pair<int, int>> parse_nodes(const std::string& text);

// Parses "3", or "0:1,12:3" by local rank.
base::Result<StreamSelection> parse_streams(const std::string& text);

// Parses "0,1,12". The result is ascending and has each rank once. Empty text has no ranks.
base::Result<std::vector<int>> parse_local_ranks(const std::string& text);

// Parses texts that are separated by commas: "a,b,,c" is "a" and "b,c". Empty text has none.
base::Result<std::vector<std::string>> parse_filters(const std::string& text);

// Parses "SIGTERM,INT". Signals that cannot be caught, SIGCHLD, and signals that mean that ddplaunch itself is broken
// are failures.
base::Result<std::vector<int>> parse_signals(const std::string& text);

// Parses "k=v,k=v" with torchrun's keys, and checks each value. Quotes around the text, a key or a value are removed.
// Empty text has no settings.
enum class UnknownKeys { refused, kept };
base::Result<std::map<std::string, std::string>> parse_rendezvous_settings(const std::string& text,
                                                                           UnknownKeys unknown = UnknownKeys::refused);
bool is_known_rendezvous_key(const std::string& name);

// Returns whether a key of parse_rendezvous_settings() concerns the wait for other nodes.
bool is_for_several_nodes(const std::string& rendezvous_key);

// Parses "host", "host:port", "address" or "[address]:port". Empty text means that there is none.
base::Result<std::string> parse_endpoint(const std::string& text);

// Parses such a text that is not empty into the host, without brackets, and the port.
struct HostAndPort {
  std::string host;
  std::optional<std::uint16_t> port;
};
base::Result<HostAndPort> parse_host_and_port(const std::string& text);

// Parses any text whose ${…} are known fields.
base::Result<std::string> parse_tag(const std::string& text);

// Parses a number of seconds, including fractions, or a time with units such as "10m" or "1h30m".
base::Result<std::chrono::milliseconds> parse_seconds(const std::string& text);

// Does the same for a time that must be long enough for node heartbeats.
base::Result<std::chrono::milliseconds> parse_node_timeout(const std::string& text);

// Parses a percentage such as "1%", "0.5%" or "1" into a share such as 0.01.
base::Result<double> parse_percent(const std::string& text);

}  // namespace ddp::launcher
