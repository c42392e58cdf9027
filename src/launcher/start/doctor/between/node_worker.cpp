#include "launcher/start/doctor/between/node_worker.h"

#include <ddp/error.h>
#include <ddp/store.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
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
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string_view>
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
#include "launcher/start/doctor/between/between_findings.h"
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

constexpr auto kArriving = 20s;      // between the first and the last node that begins
constexpr auto kProbing = 20s;       // the longest time that a node takes for the ways to others
constexpr auto kMeasuring = 10s;     // the same for its speed with one other node
constexpr auto kResolving = 3s;      // for the names of all other nodes
constexpr std::size_t kAtOnce = 64;  // ways that a node probes at once
constexpr int kDatagrams = 50;
constexpr int kJudgedNodes = 16;
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
    store_->set(key(what, identity_.node), json_text(value));
  }

  // Returns the values of these nodes, or of all, that have told theirs by then, in the order of the nodes.
  template <typename T>
  std::vector<T> hear(const std::string& what, Clock::time_point until) {
    std::vector<int> all(static_cast<std::size_t>(identity_.nodes));
    std::iota(all.begin(), all.end(), 0);
    return hear<T>(what, until, all);
  }
  template <typename T>
  std::vector<T> hear(const std::string& what, Clock::time_point until, const std::vector<int>& nodes) {
    std::vector<T> values;
    for (const int node : nodes) {
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

// Returns the other nodes, the nearest number above its own first, so that not all send to the same node at once.
std::vector<NodeAddress> others_of(std::vector<NodeAddress> nodes, int own) {
  std::erase_if(nodes, [&](const NodeAddress& node) { return node.node == own; });
  std::ranges::rotate(nodes, std::ranges::find_if(nodes, [&](const NodeAddress& node) { return node.node > own; }));
  return nodes;
}

// Probes the ways to these nodes, many at once. What is not finished in time is left out.
std::vector<Path> probe_paths(const std::vector<NodeAddress>& others, int own, std::uint64_t key) {
  const auto until = Clock::now() + kProbing;
  std::vector<Path> paths;
  for (std::size_t first = 0; first < others.size() && Clock::now() < until; first += kAtOnce) {
    std::vector<std::future<Path>> probes;
    for (std::size_t i = first; i < std::min(first + kAtOnce, others.size()); ++i) {
      probes.push_back(base::on_side_thread([to = others[i], own, key] { return probe_path(to, own, key); }));
    }
    for (auto& probe : probes) {
      if (probe.wait_until(until) == std::future_status::ready) paths.push_back(probe.get());
    }
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

// Returns the address of the first interface of such a list that this node has, or "". NCCL takes prefixes of names,
// and "=" before a name; what a list leaves out ("^") says nothing here.
std::string address_of_interface(const std::string& list) {
  ifaddrs* found = nullptr;
  if (list.empty() || list.starts_with('^') || ::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, &::freeifaddrs);
  for (const std::string& each : base::split(list.starts_with('=') ? list.substr(1) : list, ',')) {
    const std::string name = each.substr(0, each.find(':'));
    for (const ifaddrs* one = found; one != nullptr && !name.empty(); one = one->ifa_next) {
      const std::string_view own = one->ifa_name;
      const bool is_taken = list.starts_with('=') ? own == name : own.starts_with(name);
      if (!is_taken || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
      sockaddr_storage address{};
      std::memcpy(&address, one->ifa_addr, sizeof(sockaddr_in));
      if (const auto endpoint = net::to_endpoint(address)) return endpoint->address.text();
    }
  }
  return "";
}

// What the first node says to all when it knows where they are.
struct Beginning {
  std::vector<NodeAddress> addresses;
  bool is_kept = false;
};
BOOST_DESCRIBE_STRUCT(Beginning, (), (addresses, is_kept))

// The first node leads: it says when all begin, which pairs measure, and what came out. So all have the same result,
// whatever each of them has heard in time.
class NodeWorker {
 public:
  NodeWorker(NodeFindings findings, const Identity& identity)
      : findings_(std::move(findings)),
        identity_(identity),
        exchange_(connect_tcp_store({.host = identity_.host,
                                     .port = identity_.port,
                                     .timeout = kProbing,
                                     .rank = identity_.node,
                                     .world_size = identity_.nodes}),
                  identity_) {
    findings_.node = identity_.node;
  }

  // The other nodes have looked for the file, or will not.
  ~NodeWorker() {
    try {
      if (has_marker_) on_file_system([marker = marker()] { return ::unlink(marker.c_str()) == 0; });
    } catch (const std::exception&) {
      // There is no room for a thread, and the file stays.
    }
  }
  NodeWorker(const NodeWorker&) = delete;
  NodeWorker& operator=(const NodeWorker&) = delete;

  NodeResult run() {
    if (leads()) exchange_.tell("key", base::random64());
    key_ = of_first<std::uint64_t>("key", kArriving);
    const auto server = open_server();
    exchange_.tell("address", server->address());
    exchange_.tell("findings", findings_);
    NodeResult result{identity_.node, identity_.nodes, {}, base::hex64(key_)};
    JobRecord& job = result.job;
    if (leads()) {
      const auto until = Clock::now() + kArriving;
      job.addresses = exchange_.hear<NodeAddress>("address", until);
      job.findings = exchange_.hear<NodeFindings>("findings", until);
      job.datagrams_sent = datagrams();
      exchange_.tell("beginning", Beginning{job.addresses, are_kept(job.findings)});
    }
    const auto beginning = of_first<Beginning>("beginning", 2 * kArriving);
    result.is_kept = beginning.is_kept;
    if (result.is_kept) return result;

    NodePaths own{identity_.node, probe(beginning.addresses, *server), true};
    own.shares_folder = shares_folder();
    exchange_.tell("sent", true);
    if (leads()) {
      exchange_.hear<bool>("sent", Clock::now() + kProbing, arrived(beginning.addresses));
      std::this_thread::sleep_for(100ms);  // for the last datagrams
      exchange_.tell("all-sent", true);
    }
    of_first<bool>("all-sent", 3 * kProbing);
    for (const auto& [node, count] : server->datagrams()) {
      const auto path = std::ranges::find(own.paths, node, &Path::to);
      if (path != own.paths.end()) path->datagrams = count;
    }
    exchange_.tell("paths", own);
    if (leads())
      job.paths = exchange_.hear<NodePaths>("paths", Clock::now() + kMeasuring, arrived(beginning.addresses));
    measure(beginning.addresses, job);
    if (leads()) {
      exchange_.tell("record", troubles_only(job));
      exchange_.tell("end", true);
      exchange_.hear<bool>("end", Clock::now() + kMeasuring, arrived(beginning.addresses));
    } else {
      job = of_first<JobRecord>("record", kProbing);
      exchange_.tell("end", true);
      const auto own_findings = std::ranges::find(job.findings, identity_.node, &NodeFindings::node);
      if (own_findings != job.findings.end()) *own_findings = findings_;
    }
    return result;
  }

 private:
  bool leads() const { return identity_.node == 0; }
  static std::vector<int> arrived(const std::vector<NodeAddress>& addresses) {
    std::vector<int> nodes;
    for (const NodeAddress& each : addresses) nodes.push_back(each.node);
    return nodes;
  }
  // Few nodes can judge the loss of packets. Many would lose them because all send to one at once.
  int datagrams() const { return identity_.nodes <= kJudgedNodes ? kDatagrams : kDatagrams / 5; }

  // Returns what the first node tells. All nodes fail without it, so that none goes on alone.
  template <typename T>
  T of_first(const std::string& what, std::chrono::seconds limit) {
    if (auto value = exchange_.hear_one<T>(what, 0, Clock::now() + limit)) return std::move(*value);
    throw std::runtime_error("the first node has not answered within " + base::human_duration(limit) + " (" + what +
                             ")");
  }

  bool are_kept(const std::vector<NodeFindings>& findings) const {
    const auto has_same = [&](const NodeFindings& each) { return !each.kept.empty() && each.kept == findings_.kept; };
    return std::ssize(findings) == identity_.nodes && std::ranges::all_of(findings, has_same);
  }

  std::unique_ptr<ProbeServer> open_server() {
    const auto own = net::own_address_towards(identity_.host);
    const std::string of_interface = address_of_interface(findings_.interfaces);
    const std::string address = !of_interface.empty() ? of_interface : own ? own->text() : identity_.host;
    auto server = ProbeServer::open({.node = identity_.node,
                                     .host = base::host_name(),
                                     .address = address,
                                     .ports = {},
                                     .endpoint_port = identity_.port,
                                     .datagram_port = 0},
                                    key_);
    if (!server) throw std::runtime_error(server.error().message);
    const auto used = net::own_address_towards(address);
    findings_.facts.push_back({"MTU", used ? mtu_of(net::interface_of(*used)) : "", true});
    return std::move(server).value();
  }

  std::vector<Path> probe(const std::vector<NodeAddress>& nodes, const ProbeServer& server) const {
    const std::vector<NodeAddress> others = others_of(nodes, identity_.node);
    auto probes =
        base::on_side_thread([others, own = identity_.node, key = key_] { return probe_paths(others, own, key); });
    server.send_datagrams(others, datagrams(), kDatagramPause);
    std::vector<Path> paths = probes.get();
    resolve_names(nodes, paths);
    return paths;
  }

  // Its name does not tell the key.
  std::string marker() const {
    return findings_.folder + "/.ddplaunch-doctor-" + base::hex64(key_ * 0x9e3779b97f4a7c15ULL);
  }

  // The first node makes a file in the folder of the checkpoints, and the others look for it. Returns false if this
  // node does not see it. If it could not be made, nothing is wrong here.
  bool shares_folder() {
    if (findings_.folder.empty()) return true;
    if (leads()) {
      has_marker_ = on_file_system([marker = marker()] { return write_file(marker, ""); }).value_or(false);
      exchange_.tell("marker", has_marker_);
      return true;
    }
    if (!exchange_.hear_one<bool>("marker", 0, Clock::now() + kMeasuring).value_or(false)) return true;
    return on_file_system([marker = marker()] { return appears(marker); }).value_or(true);
  }

  // The first node chooses pairs in two rounds, from the nodes whose ways are sound. The first of a pair measures.
  void measure(const std::vector<NodeAddress>& addresses, JobRecord& job) {
    for (const bool is_first : {true, false}) {
      const std::string round = is_first ? "1" : "2";
      std::vector<NodePair> pairs;
      if (leads()) {
        std::vector<int> nodes;
        for (const NodePaths& each : job.paths) nodes.push_back(each.node);
        if (is_first || nodes.size() > 2) pairs = is_first ? first_pairs(nodes) : second_pairs(nodes, job.speeds);
        std::erase_if(pairs, [&](const NodePair& pair) { return !is_sound(job, pair); });
        exchange_.tell("pairs-" + round, pairs);
      } else {
        pairs = of_first<std::vector<NodePair>>("pairs-" + round, kProbing);
      }
      if (const auto own = std::ranges::find(pairs, identity_.node, &NodePair::first); own != pairs.end()) {
        const auto to = std::ranges::find(addresses, own->second, &NodeAddress::node);
        std::vector<Speed> measured;
        if (to != addresses.end()) {
          if (const auto speed = measure_speed(*to, identity_.node, key_)) measured.push_back(*speed);
        }
        exchange_.tell("speed-" + round, measured);
      }
      if (!leads()) continue;
      const auto until = Clock::now() + kMeasuring;
      for (const NodePair& pair : pairs) {
        const auto of_pair = exchange_.hear_one<std::vector<Speed>>("speed-" + round, pair.first, until);
        if (of_pair) job.speeds.insert(job.speeds.end(), of_pair->begin(), of_pair->end());
      }
    }
  }

  static bool is_sound(const JobRecord& job, const NodePair& pair) {
    const Path* path = path_between(job, pair.first, pair.second);
    return path != nullptr && path->large == Flow::arrives && !path->ports.empty() &&
           path->ports.front() == Reach::open;
  }

  NodeFindings findings_;
  const Identity identity_;
  Exchange exchange_;
  std::uint64_t key_ = 0;
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
    if (write_file(directory + kResultFile, json_text(result))) return 0;
    std::fprintf(stderr, "ddplaunch: error: the doctor cannot write its result: %s\n", std::strerror(errno));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddplaunch: error: the doctor cannot check this node: %s\n", error.what());
  }
  return base::kExitOwnFault;
}

}  // namespace ddp::launcher::doctor
