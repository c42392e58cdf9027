#include "launcher/start/doctor/between/node_worker.h"

#include <ddp/error.h>
#include <ddp/store.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/exit_code.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host_name.h"
#include "base/random.h"
#include "base/side_thread.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/start/doctor/between/probe_path.h"
#include "launcher/start/doctor/between/probe_server.h"
#include "launcher/start/doctor/between/speed_pairs.h"
#include "launcher/start/log/file_output.h"
#include "net/address.h"
#include "net/socket.h"
#include "wire/worker_env.h"

namespace ddp::launcher::doctor {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kProbing = 20s;       // the longest time that a node needs for the ways to others
constexpr auto kMeasuring = 10s;     // the same for its speed with one other node
constexpr auto kResolving = 3s;      // for the names of all other nodes
constexpr std::size_t kAtOnce = 16;  // ways that a node probes at once
constexpr int kDatagrams = 50;
constexpr auto kDatagramPause = 4ms;
constexpr int kMostNamedNodes = 64;  // of more nodes, no names are resolved: it would be a storm of questions

struct Identity {
  int node = 0;
  int nodes = 1;
  std::string host;
  std::uint16_t port = 0;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Identity identity_of_environment() {
  const auto number = [&](const char* name) {
    return static_cast<int>(base::parse_integer(variable(name), 0, INT32_MAX).value_or(0));
  };
  return {number(wire::env::kRank), std::max(1, number(wire::env::kWorldSize)), variable(wire::env::kMasterAddr),
          static_cast<std::uint16_t>(number(wire::env::kMasterPort))};
}

// Returns the MTU of an interface, or "". The tree of /sys may belong to another network than this process.
std::string mtu_of(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  const base::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? std::to_string(request.ifr_mtu) : "";
}

// Passes values to the other nodes through the store of the job.
class Exchange {
 public:
  Exchange(std::shared_ptr<Store> store, const Identity& identity) : store_(std::move(store)), identity_(identity) {}

  template <typename T>
  void tell(const std::string& what, const T& value) {
    store_->set(key(what, identity_.node),
                wire::json_of(value).dump(-1, ' ', false, wire::Json::error_handler_t::replace));
  }

  // Returns the values of all nodes that have told theirs by then, in the order of the nodes.
  template <typename T>
  std::vector<T> hear(const std::string& what, Clock::time_point until) {
    std::vector<T> values;
    for (int node = 0; node < identity_.nodes; ++node) {
      if (auto value = hear_one<T>(what, node, until)) values.push_back(std::move(*value));
    }
    return values;
  }

  template <typename T>
  std::optional<T> hear_one(const std::string& what, int node, Clock::time_point until) {
    const std::string name = key(what, node);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    try {
      store_->wait(std::span(&name, 1), std::max<std::chrono::milliseconds>(left, 1ms));
      T value;
      wire::read_json(wire::Json::parse(store_->get(name)), value);
      return value;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timeout) throw;
      return std::nullopt;
    }
  }

 private:
  static std::string key(const std::string& what, int node) { return "doctor/" + what + "/" + std::to_string(node); }

  std::shared_ptr<Store> store_;
  const Identity identity_;
};

// Probes the ways to all other nodes. The next node comes first, so that not all probe the same one at once.
std::vector<Path> probe_paths(const std::vector<NodeAddress>& nodes, int own, std::uint64_t key) {
  std::vector<NodeAddress> others;
  for (const NodeAddress& node : nodes) {
    if (node.node != own) others.push_back(node);
  }
  std::ranges::rotate(others, std::ranges::find_if(others, [&](const NodeAddress& node) { return node.node > own; }));
  std::vector<Path> paths;
  for (std::size_t first = 0; first < others.size(); first += kAtOnce) {
    std::vector<std::future<Path>> probes;
    for (std::size_t i = first; i < std::min(first + kAtOnce, others.size()); ++i) {
      probes.push_back(base::on_side_thread([to = others[i], own, key] { return probe_path(to, own, key); }));
    }
    for (auto& probe : probes) paths.push_back(probe.get());
  }
  std::ranges::sort(paths, {}, &Path::to);
  return paths;
}

// Resolves the names of other nodes. What takes too long stays unknown.
void resolve_names(const std::vector<NodeAddress>& nodes, std::vector<Path>& paths) {
  if (nodes.size() > kMostNamedNodes) return;
  const auto until = Clock::now() + kResolving;
  std::vector<std::pair<Path*, std::future<std::vector<std::string>>>> questions;
  for (Path& path : paths) {
    const auto node = std::ranges::find(nodes, path.to, &NodeAddress::node);
    questions.emplace_back(&path, base::on_side_thread([host = node->host] { return addresses_of_name(host); }));
  }
  for (auto& [path, answer] : questions) {
    if (answer.wait_until(until) == std::future_status::ready) path->name_means = answer.get();
  }
}

// Runs work on a file system that may hang. Returns std::nullopt if it takes too long.
template <typename Work>
std::optional<bool> on_file_system(Work work) {
  constexpr auto kLimit = 5s;
  auto result = base::on_side_thread(std::move(work));
  return result.wait_for(kLimit) == std::future_status::ready ? std::optional(result.get()) : std::nullopt;
}

// A file server may show a new file only after some seconds.
bool appears(const std::string& file) {
  constexpr int kTries = 40;
  for (int i = 0; i < kTries; ++i) {
    if (::access(file.c_str(), F_OK) == 0) return true;
    std::this_thread::sleep_for(100ms);
  }
  return false;
}

class NodeWorker {
 public:
  NodeWorker(NodeFindings findings, const Identity& identity) : findings_(std::move(findings)), identity_(identity) {}

  NodeResult run() {
    const auto all_are_here = Clock::now() + kProbing;
    const auto store = connect_tcp_store({.host = identity_.host,
                                          .port = identity_.port,
                                          .timeout = kProbing,
                                          .rank = identity_.node,
                                          .world_size = identity_.nodes});
    Exchange exchange(store, identity_);
    if (identity_.node == 0) exchange.tell("key", base::random64());
    const std::uint64_t key = exchange.hear_one<std::uint64_t>("key", 0, all_are_here).value_or(0);

    const auto own = net::own_address_towards(identity_.host);
    NodeAddress address{.node = identity_.node,
                        .host = base::host_name(),
                        .address = own ? own->text() : identity_.host,
                        .ports = {},
                        .endpoint_port = identity_.port,
                        .datagram_port = 0};
    auto server = ProbeServer::open(address, key);
    if (!server) throw std::runtime_error(server.error().message);
    address = server.value()->address();
    exchange.tell("address", address);
    findings_.node = identity_.node;
    findings_.facts.push_back({"MTU", own ? mtu_of(net::interface_of(*own)) : "", true});
    exchange.tell("findings", findings_);
    NodeResult result{identity_.node, identity_.nodes, {}, base::hex64(key)};
    JobRecord& job = result.job;
    job.addresses = exchange.hear<NodeAddress>("address", all_are_here);
    job.findings = exchange.hear<NodeFindings>("findings", all_are_here);
    job.datagrams_sent = kDatagrams;
    const auto has_same = [&](const NodeFindings& each) { return !each.kept.empty() && each.kept == findings_.kept; };
    result.is_kept = std::ssize(job.findings) == identity_.nodes && std::ranges::all_of(job.findings, has_same);
    if (result.is_kept) return result;

    NodePaths own_paths{identity_.node, probe(job.addresses, key, *server.value()), true};
    const std::string marker = findings_.folder + "/.ddplaunch-doctor-" + base::hex64(key);
    own_paths.shares_folder = shares_folder(exchange, marker, all_are_here);
    exchange.tell("sent", true);
    const auto all_have_probed = Clock::now() + kProbing;
    exchange.hear<bool>("sent", all_have_probed);
    std::this_thread::sleep_for(100ms);  // for the last datagrams
    for (auto& [node, count] : server.value()->datagrams()) {
      const auto path = std::ranges::find(own_paths.paths, node, &Path::to);
      if (path != own_paths.paths.end()) path->datagrams = count;
    }
    exchange.tell("paths", own_paths);
    job.paths = exchange.hear<NodePaths>("paths", all_have_probed + 1s);
    measure(exchange, job, key);
    // The server must answer, and the file must stay, until all have asked.
    exchange.tell("end", true);
    exchange.hear<bool>("end", Clock::now() + kMeasuring);
    if (has_marker_) on_file_system([marker] { return ::unlink(marker.c_str()) == 0; });
    return result;
  }

 private:
  std::vector<Path> probe(const std::vector<NodeAddress>& nodes, std::uint64_t key, const ProbeServer& server) const {
    auto probes = base::on_side_thread([nodes, own = identity_.node, key] { return probe_paths(nodes, own, key); });
    std::vector<NodeAddress> others = nodes;
    std::erase_if(others, [&](const NodeAddress& each) { return each.node == identity_.node; });
    for (int i = 0; i < kDatagrams; ++i) {
      server.send_datagrams(others);
      std::this_thread::sleep_for(kDatagramPause);
    }
    std::vector<Path> paths = probes.get();
    resolve_names(nodes, paths);
    return paths;
  }

  // The first node makes a file in the folder of the checkpoints, and the others look for it. Returns false if this node
  // does not see it. If it could not be made, or nothing is known in time, nothing is wrong here.
  bool shares_folder(Exchange& exchange, const std::string& marker, Clock::time_point until) {
    if (findings_.folder.empty()) return true;
    if (identity_.node == 0) {
      has_marker_ = on_file_system([marker] { return write_file(marker, ""); }).value_or(false);
      exchange.tell("marker", has_marker_);
      return true;
    }
    if (!exchange.hear_one<bool>("marker", 0, until).value_or(false)) return true;
    return on_file_system([marker] { return appears(marker); }).value_or(true);
  }

  // Measures the speed of this node with a partner, in two rounds. The first of a pair does it.
  void measure(Exchange& exchange, JobRecord& job, std::uint64_t key) const {
    std::vector<int> nodes;
    for (const NodePaths& each : job.paths) nodes.push_back(each.node);
    for (const bool is_first : {true, false}) {
      const std::string round = is_first ? "speed-1" : "speed-2";
      if (!is_first && nodes.size() < 3) return;
      const std::vector<NodePair> pairs = is_first ? first_pairs(nodes) : second_pairs(nodes, job.speeds);
      std::vector<Speed> measured;
      const auto own = std::ranges::find(pairs, identity_.node, &NodePair::first);
      if (own != pairs.end()) {
        const auto to = std::ranges::find(job.addresses, own->second, &NodeAddress::node);
        const std::vector<Path>& paths = std::ranges::find(job.paths, identity_.node, &NodePaths::node)->paths;
        const bool is_sound = std::ranges::find(paths, own->second, &Path::to)->large == Flow::arrives;
        const auto speed = is_sound ? measure_speed(*to, identity_.node, key) : std::nullopt;
        if (speed) measured.push_back(*speed);
      }
      exchange.tell(round, measured);
      for (const std::vector<Speed>& of_node : exchange.hear<std::vector<Speed>>(round, Clock::now() + kMeasuring)) {
        job.speeds.insert(job.speeds.end(), of_node.begin(), of_node.end());
      }
    }
  }

  NodeFindings findings_;
  const Identity identity_;
  bool has_marker_ = false;  // this node has made a file in the folder of the checkpoints
};

}  // namespace

int run_node_worker() {
  constexpr unsigned kLongest = 180;  // seconds; a store that hangs must not keep the nodes
  ::alarm(kLongest);
  // The nodes must be able to say that large packets are lost.
  net::limit_segments(kSmallSegment);
  const std::string directory = variable(wire::env::kDoctorDirectory);
  try {
    NodeFindings findings;
    wire::read_json(wire::Json::parse(base::read_file(directory + kFindingsFile)), findings);
    const NodeResult result = NodeWorker(std::move(findings), identity_of_environment()).run();
    const std::string text = wire::json_of(result).dump(-1, ' ', false, wire::Json::error_handler_t::replace);
    if (write_file(directory + kResultFile, text)) return 0;
    std::fprintf(stderr, "ddplaunch: error: the doctor cannot write its result: %s\n", std::strerror(errno));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddplaunch: error: the doctor cannot check this node: %s\n", error.what());
  }
  return base::kExitOwnFault;
}

}  // namespace ddp::launcher::doctor
