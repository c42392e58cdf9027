// Values of options that have a form of their own. Pure. A failure is what comes after "--name=value": " is not …".
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "launcher/cli/options.h"

namespace ddp::launcher {

// "2", "auto", "gpu" or "cpu".
base::Result<WorkerCount> parse_workers(const std::string& text);

// "a,b:4": one host or more.
base::Result<std::vector<HostEntry>> parse_host_words(const std::string& text);

// A program and its words, separated by spaces.
base::Result<std::string> parse_program(const std::string& text);

// "NAME", "NAME*" or "NAME=value", separated by commas.
base::Result<std::vector<std::string>> parse_forwarded(const std::string& text);

// A name that can be part of a folder's.
base::Result<std::string> parse_run_id(const std::string& text);

base::Result<RdzvBackend> parse_rendezvous_backend(const std::string& text);

// "2" or "1:4", with 0 < MIN <= MAX.
base::Result<std::pair<int, int>> parse_nodes(const std::string& text);

// "3", or "0:1,12:3" by local rank.
base::Result<StreamSelection> parse_streams(const std::string& text);

// "0,1,12": ascending, each once. Empty: none.
base::Result<std::vector<int>> parse_local_ranks(const std::string& text);

// "a,b,,c" is "a" and "b,c". Empty: none.
base::Result<std::vector<std::string>> parse_filters(const std::string& text);

// "SIGTERM,INT": those that can be caught and do not mean that ddplaunch itself is broken.
base::Result<std::vector<int>> parse_signals(const std::string& text);

// "k=v,k=v" with torchrun's keys; each value is checked. Empty: none.
// Quotes around it, a key or a value are taken away.
enum class UnknownKeys { refused, kept };
base::Result<std::map<std::string, std::string>> parse_rendezvous_settings(const std::string& text,
                                                                           UnknownKeys unknown = UnknownKeys::refused);
bool is_known_rendezvous_key(const std::string& name);

// Whether a key of parse_rendezvous_settings is about waiting for other nodes.
bool is_for_several_nodes(const std::string& rendezvous_key);

// "host", "host:port", "address", "[address]:port". Empty: none.
base::Result<std::string> parse_endpoint(const std::string& text);

// Of such a text that is not empty: the host without brackets, and the port.
struct HostAndPort {
  std::string host;
  std::optional<std::uint16_t> port;
};
base::Result<HostAndPort> parse_host_and_port(const std::string& text);

// Any text whose ${…} are known fields.
base::Result<std::string> parse_tag(const std::string& text);

// A number of seconds, fractions included.
base::Result<std::chrono::milliseconds> parse_seconds(const std::string& text);

// The same, but long enough for a node to be heard.
base::Result<std::chrono::milliseconds> parse_node_timeout(const std::string& text);

}  // namespace ddp::launcher
