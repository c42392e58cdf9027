#include "runtime/init/init_method.h"

#include <ddp/error.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/host_name.h"
#include "base/random.h"
#include "base/text.h"
#include "net/address.h"
#include "runtime/backend/plugin.h"
#include "runtime/peers/wait_for_ranks.h"
#include "store/limits.h"
#include "store/server/store_thread.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kForms = "Write env://, tcp://HOST:PORT?rank=R&world_size=N or file:///PATH?rank=R&world_size=N.";

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::invalid_argument, "init_method '" + text + "': " + why + ". " + kForms);
}

std::string percent_decoded(const std::string& part, const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      result += part[i];
      continue;
    }
    const auto byte = i + 2 < part.size() ? base::parse_hex(part.substr(i + 1, 2)) : std::nullopt;
    if (byte.value_or(0) == 0) refuse(text, "'%' is not followed by two hexadecimal digits of a byte");
    result += static_cast<char>(*byte);
    i += 2;
  }
  return result;
}

void read_query(const std::string& query, const std::string& text, InitMethod& method) {
  for (const std::string& item : base::split(query, '&')) {
    if (item.empty()) continue;
    const auto equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (name != "rank" && name != "world_size") refuse(text, "'" + name + "' is not known");
    auto& member = name == "rank" ? method.rank : method.world_size;
    if (member) refuse(text, name + " is given twice");
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    const auto number = base::parse_integer(value, name == "rank" ? 0 : 1, INT_MAX);
    if (!number) refuse(text, name + "=" + value + " is not a number from " + (name == "rank" ? "0" : "1"));
    member = static_cast<int>(*number);
  }
}

void read_address(const std::string& address, const std::string& text, InitMethod& method) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || address.ends_with(']')) refuse(text, "there is no port");
  std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find_first_of(":[]/") != std::string::npos) {
    refuse(text, "'" + host + "' is not a host (an IPv6 address is written in brackets)");
  }
  if (host.empty()) refuse(text, "there is no host");
  const auto port = base::parse_integer(address.substr(colon + 1), 1, 65535);
  if (!port) refuse(text, "'" + address.substr(colon + 1) + "' is not a port from 1 to 65535");
  method.host = percent_decoded(host, text);
  method.port = static_cast<std::uint16_t>(*port);
}

std::optional<int> agreed(const char* name, std::optional<int> in_method, std::optional<int> in_options) {
  if (in_method && in_options && *in_method != *in_options) {
    throw Error(ErrorKind::invalid_argument, std::string(name) + " is " + std::to_string(*in_method) +
                                                 " in init_method but " + std::to_string(*in_options) +
                                                 " in InitOptions. Give it once.");
  }
  return in_method ? in_method : in_options;
}

// Runs on the server's thread.
void warn_of(const std::string& peer, const std::string& reason) {
  static std::atomic<int> warnings = 0;
  if (++warnings > limits::kStoreWarnings) return;
  std::fprintf(stderr, "ddp: store: %s: %s\n", peer.c_str(), reason.c_str());
}

// This means every interface of this node. A node with IPv4 alone may have no "::".
const std::string kEverywhere = "*";

// Returns the host's addresses. If there are none, `why` receives the reason.
std::vector<net::IpAddress> addresses_of(const std::string& host, std::string& why) {
  if (host == kEverywhere) return {net::IpAddress{.is_v6 = true}, net::IpAddress()};
  auto found = net::addresses_of(host);
  if (found) return std::move(found).value();
  why = found.error().message;
  return {};
}

// Serves the store at the first of the host's addresses that belongs to this node.
std::unique_ptr<store::StoreThread> serve(const std::string& host, std::uint16_t port) {
  std::string why;
  for (const net::IpAddress& address : addresses_of(host, why)) {
    store::StoreServerOptions options;
    // Ranks on other nodes have no token that proves their identity, as with PyTorch's own store.
    options.open = !address.is_loopback();
    options.on_rejection = warn_of;
    auto server = store::StoreServer::listen(address.text(), port, options);
    if (server) return std::make_unique<store::StoreThread>(std::move(server).value());
    why = server.error().message;
  }
  throw Error(ErrorKind::unavailable,
              "rank 0 cannot serve the store at " + net::host_and_port(host, port) + " (" + why +
                  "). Name an address of rank 0's node and a free port; if a store is served there already, set "
                  "TORCHELASTIC_USE_AGENT_STORE=True.");
}

// Returns the port, which the kernel chooses if `port` is 0. The server runs until the process ends. A program may call
// init() again, and other ranks may still be in init() when rank 0 is done. At the end, the process waits until the
// ranks have left, or for a few seconds.
std::uint16_t serve_here(const std::string& host, std::uint16_t port) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::uint16_t>, std::unique_ptr<store::StoreThread>> servers;
  const std::lock_guard lock(mutex);
  auto& server = servers[{host, port}];
  if (!server) server = serve(host, port);
  return server->port();
}

std::shared_ptr<Store> reach_server(const std::string& host, std::uint16_t port, const StartEnvironment& environment,
                                    milliseconds timeout) {
  if (environment.world_size == 1) return make_memory_store(timeout);
  if (environment.rank == 0 && !environment.launcher_serves) serve_here(host, port);
  return connect_tcp_store(TcpStoreOptions{host, port, timeout, environment.rank, environment.world_size});
}

// Rank 0 serves a store, and MPI sends its address to the other ranks.
std::shared_ptr<Store> meet_by_mpi(const StartEnvironment& environment, milliseconds timeout) {
  const LoadedPlugin mpi = load_backend_plugin("mpi");
  if (mpi.plugin == nullptr) {
    throw Error(
        ErrorKind::unavailable,
        "mpirun started this program, no store is configured (MASTER_ADDR), and MPI cannot provide its address: " +
            mpi.obstacle +
            ". Name an address of rank 0's node and a free port (mpirun -x MASTER_ADDR=... -x "
            "MASTER_PORT=...), or start the program with ddplaunch.");
  }
  const bool one_node = environment.local_world_size == environment.world_size;
  BackendOptions options;
  options.rank = environment.rank;
  options.size = environment.world_size;
  options.timeout = timeout;
  std::string place;
  if (environment.rank == 0) {
    const std::uint16_t port = serve_here(one_node ? "localhost" : kEverywhere, 0);
    place = (one_node ? "localhost" : base::host_name()) + " " + std::to_string(port);
  }
  place = mpi.plugin->broadcast(options, place);
  const std::vector<std::string> words = base::split(place, ' ');
  const auto port = base::parse_integer(words.back(), 1, 65535);
  if (words.size() != 2 || !port)
    throw Error(ErrorKind::mismatch, "rank 0 reports no address of a store: '" + place + "'");
  return connect_tcp_store(
      TcpStoreOptions{words[0], static_cast<std::uint16_t>(*port), timeout, environment.rank, environment.world_size});
}

std::string this_process() {
  static const std::string name = base::hex64(base::random64());
  return name;
}

}  // namespace

InitMethod parse_init_method(const std::string& text) {
  const auto question = text.find('?');
  const std::string place = text.substr(0, question);
  InitMethod method;
  if (question != std::string::npos) read_query(text.substr(question + 1), text, method);
  if (place == "env://") return method;
  if (place.starts_with("tcp://")) {
    method.kind = InitMethod::Kind::tcp;
    read_address(place.substr(6), text, method);
    return method;
  }
  if (place.starts_with("file://")) {
    method.kind = InitMethod::Kind::file;
    method.path = percent_decoded(place.substr(7), text);
    if (!method.path.starts_with('/')) refuse(text, "the path does not begin with a slash (file:// and /PATH)");
    if (method.path.ends_with('/')) refuse(text, "the path names a directory");
    return method;
  }
  refuse(text, "has an unknown scheme");
}

StartEnvironment with_ranks(const InitMethod& method, std::optional<int> rank, std::optional<int> world_size,
                            StartEnvironment environment) {
  rank = agreed("rank", method.rank, rank);
  world_size = agreed("world_size", method.world_size, world_size);
  const bool explicit_world = method.kind != InitMethod::Kind::environment || rank || world_size;
  if (explicit_world && !environment.has_ranks && !(rank && world_size)) {
    throw Error(ErrorKind::invalid_argument,
                std::string(rank ? "world_size" : "rank") +
                    " is not given: neither in init_method (?rank=R&world_size=N) nor in InitOptions, and the "
                    "environment has no RANK and WORLD_SIZE.");
  }
  if (!explicit_world && !environment.has_ranks && environment.lacks_rank) {
    throw Error(ErrorKind::invalid_argument,
                "WORLD_SIZE is set but RANK is not. Start the program with ddplaunch, or set both; to run it alone, "
                "unset WORLD_SIZE.");
  }
  environment.rank = rank.value_or(environment.rank);
  environment.world_size = world_size.value_or(environment.world_size);
  if (environment.rank < 0 || environment.rank >= environment.world_size) {
    throw Error(ErrorKind::invalid_argument, "rank " + std::to_string(environment.rank) + " does not fit a world of " +
                                                 base::counted(environment.world_size, "rank") +
                                                 ": ranks count from 0.");
  }
  return environment;
}

// An old file may hold keys of ranks of an earlier run. A rank that finds its own key in the file reports that to the
// others. Any other rank continues only when all ranks have seen all keys. Ranks of an earlier run have not seen its
// key.
void meet_in_file(Store& store, const std::string& path, const StartEnvironment& environment,
                  const std::string& process) {
  const std::string attempt = "ddp/" + std::to_string(environment.restart_count);
  const std::string rank = std::to_string(environment.rank);
  const std::string left_over = attempt + "/left over";
  const auto refuse = [&] {
    throw Error(ErrorKind::mismatch, "the store file '" + path +
                                         "' is left from an earlier run, or two processes are the "
                                         "same rank: " +
                                         store.get(left_over) + ". Remove the file or name another one.");
  };
  if (store.compare_set(attempt + "/came/" + rank, "", process) != process) {
    store.set(left_over, "rank " + rank + " has already used it");
  }
  const auto until = steady_clock::now() + store.timeout();
  for (const char* step : {"/came", "/met"}) {
    if (step == std::string_view("/met")) store.set(attempt + "/met/" + rank, "");
    const auto keys = keys_of_ranks(attempt + step, environment.world_size);
    milliseconds pause(1);
    while (true) {
      if (store.check(std::span(&left_over, 1))) refuse();
      if (store.check(keys)) break;
      if (steady_clock::now() >= until) store.wait(keys, milliseconds(0));  // throws, and names the missing ranks
      std::this_thread::sleep_for(pause);
      pause = std::min<milliseconds>(pause * 2, limits::kFileWaitPause);
    }
  }
}

std::shared_ptr<Store> reach_store(const InitMethod& method, const StartEnvironment& environment,
                                   milliseconds timeout) {
  if (method.kind == InitMethod::Kind::tcp) return reach_server(method.host, method.port, environment, timeout);
  if (method.kind == InitMethod::Kind::file) {
    auto store = make_file_store(method.path, timeout, environment.world_size);
    meet_in_file(*store, method.path, environment, this_process());
    return store;
  }
  if (environment.world_size == 1) return make_memory_store(timeout);
  if (environment.master_addr.empty() && environment.under_mpirun) return meet_by_mpi(environment, timeout);
  if (environment.master_addr.empty()) {
    throw Error(ErrorKind::invalid_argument,
                "the world has more than one rank but MASTER_ADDR is not set. Start the program with ddplaunch, set "
                "MASTER_ADDR and MASTER_PORT to where rank 0 can serve a store, or give an init_method.");
  }
  return reach_server(environment.master_addr, environment.master_port, environment, timeout);
}

}  // namespace ddp::internal
