#include "launcher/store_command/store_texts.h"

#include <cerrno>
#include <cstring>

#include "launcher/job/store_listener.h"
#include "net/address.h"

namespace ddp::launcher {
namespace {

bool is_everywhere(const std::string& host) {
  return host == "::" || host == "0.0.0.0";
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

std::string serving_line(const StoreOptions& options, std::uint16_t port, const std::string& host_name) {
  const std::string reached = is_everywhere(options.host) ? host_name : options.host;
  // Without the last two rank 0 of a PyTorch program starts a store of its own there (1.13 insists on both).
  return "the store listens on " + net::host_and_port(options.host, port) +
         "; programs find it with MASTER_ADDR=" + reached + " MASTER_PORT=" + std::to_string(port) +
         " TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0, and ddplaunch store --inspect " +
         net::host_and_port(reached, port) + " tells who waits for what";
}

std::string listen_failure(const StoreOptions& options, const std::string& why) {
  if (!why.ends_with(std::strerror(EADDRINUSE))) return why + "." + listen_remedy(why, "--host", "--port=");
  const std::string where = net::host_and_port(is_everywhere(options.host) ? "127.0.0.1" : options.host, options.port);
  return why + ". If that is a store, ddplaunch store --inspect " + where +
         " tells who uses it; ss -ltnp tells the process. --port 0 takes a free port.";
}

std::vector<std::string> store_warnings(const StoreOptions& options, const std::string& token_source) {
  std::vector<std::string> warnings;
  if (options.open && !token_source.empty()) {
    warnings.push_back(token_source + " has no effect beside --store-open");
  } else if (!options.auth_token_file.empty() && is_loopback(options.host)) {
    warnings.push_back(token_source + " has no effect: the store listens on " + options.host +
                       ", which no other machine reaches (--host)");
  }
  return warnings;
}

}  // namespace ddp::launcher
