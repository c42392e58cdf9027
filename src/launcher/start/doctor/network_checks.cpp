#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::string_view kInternal[] = {"docker", "veth", "virbr", "cni", "flannel"};
constexpr std::size_t kDockerBridge = std::string_view("br-0123456789ab").size();

bool is_internal(const std::string& interface) {
  if (interface == "lo" || (interface.starts_with("br-") && interface.size() == kDockerBridge)) return true;
  return std::ranges::any_of(kInternal, [&](std::string_view prefix) { return interface.starts_with(prefix); });
}

bool is_up(const Node& node, const std::string& interface) {
  const std::string state = node.line("/sys/class/net/" + interface + "/operstate");
  return state == "up" || state == "unknown";  // of loopback and tunnels, nothing more is known
}

// NCCL's list of names: a prefix each, "=" before an exact name, and "^" before a list of what is left out.
bool nccl_takes(std::string list, const std::string& interface) {
  const bool excludes = list.starts_with('^');
  if (excludes) list.erase(0, 1);
  const bool is_exact = list.starts_with('=');
  if (is_exact) list.erase(0, 1);
  const bool is_named = std::ranges::any_of(base::split(list, ','), [&](const std::string& each) {
    const std::string name = each.substr(0, each.find(':'));
    return !name.empty() && (is_exact ? interface == name : interface.starts_with(name));
  });
  return is_named != excludes;
}

struct InterfaceVariable {
  const char* name;
  bool (*takes)(std::string list, const std::string& interface);
};

bool gloo_takes(std::string list, const std::string& interface) {
  const std::vector<std::string> names = base::split(list, ',');
  return std::ranges::find(names, interface) != names.end();
}

constexpr InterfaceVariable kInterfaceVariables[] = {{"NCCL_SOCKET_IFNAME", nccl_takes},
                                                     {"NCCL_OOB_NET_IFNAME", nccl_takes},
                                                     {"GLOO_SOCKET_IFNAME", gloo_takes},
                                                     {"TP_SOCKET_IFNAME", gloo_takes}};

Findings check_interface_variable(const Node& node, const InterfaceVariable& variable,
                                  const std::vector<std::string>& interfaces, const std::vector<std::string>& usable) {
  const std::string list = node.setting(variable.name);
  if (list.empty()) return {};
  const std::string setting = std::string(variable.name) + "=" + list;
  const std::string remedy = usable.empty() ? "unset " + std::string(variable.name)
                                            : "set it to one of " + base::join(usable, ", ") + ", or unset it";
  std::vector<std::string> taken;
  std::ranges::copy_if(interfaces, std::back_inserter(taken),
                       [&](const std::string& interface) { return variable.takes(list, interface); });
  // Gloo makes a device for each name.
  const auto wanted = variable.takes == gloo_takes ? std::ssize(base::split(list, ',')) : 1;
  if (std::ssize(taken) < wanted) {
    return {fail(
        setting + (taken.empty() ? " names no interface of this node" : " names an interface that this node lacks"),
        remedy)};
  }
  if (std::ranges::none_of(taken, [&](const std::string& each) { return is_up(node, each); }))
    return {fail(setting + " names only interfaces that are down: " + base::join(taken, ", "), remedy)};
  if (node.nodes > 1 && std::ranges::all_of(taken, is_internal)) {
    return {fail(setting + " names only interfaces that other nodes cannot reach: " + base::join(taken, ", "), remedy)};
  }
  return {};
}

// A network that the routing table sends through one interface.
struct Network {
  std::string interface;
  std::string destination;
};

// Returns two interfaces of one network, if there are such. Of two, the kernel answers on the first one.
std::optional<std::pair<Network, Network>> same_network(const Node& node) {
  std::vector<Network> seen;
  for (const std::string& line : base::split(node.text("/proc/net/route"), '\n')) {
    const std::vector<std::string> fields = base::words(line, " \t");
    if (fields.size() < 3 || fields[0] == "Iface" || fields[1] == "00000000" || fields[2] != "00000000") continue;
    if (is_internal(fields[0]) || !is_up(node, fields[0])) continue;
    const Network network = {fields[0], fields[1]};
    for (const Network& other : seen) {
      if (other.interface != network.interface && other.destination == network.destination)
        return std::pair(other, network);
    }
    seen.push_back(network);
  }
  return std::nullopt;
}

struct Port {
  std::string name;   // "mlx5_0:1"
  std::string board;  // ports of one board and link layer are alike
  std::string state;  // "ACTIVE"
  std::string rate;
  std::int64_t lost = 0;  // how often the link went down
};

// Returns the ports that NCCL uses.
std::vector<Port> rdma_ports(const Node& node) {
  const std::string wanted = node.setting("NCCL_IB_HCA");
  std::vector<Port> ports;
  for (const std::string& device : node.names("/sys/class/infiniband")) {
    if (!wanted.empty() && !nccl_takes(wanted, device)) continue;
    const std::string folder = "/sys/class/infiniband/" + device;
    for (const std::string& number : node.names(folder + "/ports")) {
      const std::string port = folder + "/ports/" + number;
      const auto lost = base::parse_integer(node.line(port + "/counters/link_downed"), 0, std::int64_t{1} << 62);
      const std::string state = node.line(port + "/state");
      ports.push_back({device + ":" + number, node.line(folder + "/board_id") + node.line(port + "/link_layer"),
                       base::trimmed(state.substr(state.find(':') + 1)), node.line(port + "/rate"), lost.value_or(0)});
    }
  }
  return ports;
}

bool is_active(const Port& port) {
  return port.state.find("ACTIVE") != std::string::npos;
}

double rate_of(const Port& port) {
  return base::parse_number(port.rate.substr(0, port.rate.find(' '))).value_or(0);
}

}  // namespace

Findings check_host_name(const Node& node) {
  for (const std::string& line : base::split(node.text("/etc/hosts"), '\n')) {
    const std::vector<std::string> fields = base::words(line.substr(0, line.find('#')), " \t");
    if (fields.empty() || !(fields[0].starts_with("127.") || fields[0] == "::1")) continue;
    if (std::ranges::find(fields, node.host_name) == fields.end() || node.host_name == "localhost") continue;
    const std::string text = node.host_name + " is " + fields[0] + " in /etc/hosts";
    if (node.nodes <= 1) return {ok(text + ", which matters only between nodes")};
    return {warn(text + ", so a rank may give the others an address at which they reach only themselves",
                 "give the host its own address in /etc/hosts, or name one with --local-addr and --rdzv-endpoint")};
  }
  return {ok("this node is " + node.host_name)};
}

Findings check_interfaces(const Node& node) {
  std::vector<std::string> interfaces = node.names("/sys/class/net");
  std::erase_if(interfaces, [&](const auto& each) { return !node.exists("/sys/class/net/" + each + "/operstate"); });
  if (interfaces.empty()) return {unknown("/sys/class/net cannot be read, so NCCL may not see the network either")};
  std::vector<std::string> usable;
  std::ranges::copy_if(interfaces, std::back_inserter(usable),
                       [&](const std::string& each) { return !is_internal(each) && is_up(node, each); });
  Findings findings;
  for (const InterfaceVariable& variable : kInterfaceVariables) {
    for (Finding& finding : check_interface_variable(node, variable, interfaces, usable)) findings.push_back(finding);
  }
  if (usable.empty() && node.nodes > 1) {
    findings.push_back(fail("no interface that other nodes can reach is up", "ip link, then ip link set NAME up"));
  }
  const bool is_chosen = !node.setting("NCCL_SOCKET_IFNAME").empty() && !node.setting("GLOO_SOCKET_IFNAME").empty();
  if (const auto same = same_network(node); same && node.nodes > 1 && !is_chosen) {
    findings.push_back(warn(same->first.interface + " and " + same->second.interface +
                                " are in one network, so answers may come from the other one and be lost",
                            "choose one with NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, or give them networks that do "
                            "not overlap"));
  }
  if (!findings.empty()) return findings;
  std::vector<std::string> shown;
  for (const std::string& each : usable)
    shown.push_back(each + " (MTU " + node.line("/sys/class/net/" + each + "/mtu") + ")");
  return {ok(shown.empty() ? "only the loopback interface is up" : base::join(shown, ", "))};
}

Findings check_rdma(const Node& node) {
  if (node.names("/sys/class/infiniband").empty()) return {ok("there is no RDMA device")};
  if (node.nodes <= 1) return {ok("RDMA matters only between nodes")};
  const std::vector<Port> ports = rdma_ports(node);
  const std::string wanted = node.setting("NCCL_IB_HCA");
  const auto active = std::ranges::count_if(ports, is_active);
  if (active == 0 && !wanted.empty())
    return {
        fail("NCCL_IB_HCA=" + wanted + " names no RDMA port that is active", "ibstat, then the cables, or unset it")};
  if (active == 0)
    return {warn("no RDMA port is active, so NCCL uses TCP", "ibstat, then the cables and the subnet manager")};
  Findings findings;
  for (const Port& port : ports) {
    const std::string show =
        "ibstat " + port.name.substr(0, port.name.find(':')) + ", then the cable and the switch's port";
    // A port without a cable has never been up.
    if (!is_active(port) && (port.lost > 0 || !wanted.empty()))
      findings.push_back(warn(port.name + " is " + port.state + (port.lost > 0 ? ", and was up before" : ""), show));
    const bool is_slow = std::ranges::any_of(ports, [&](const Port& other) {
      return is_active(port) && is_active(other) && other.board == port.board && rate_of(other) > rate_of(port);
    });
    if (is_slow) findings.push_back(warn(port.name + " has only " + port.rate + ", unlike others of its board", show));
  }
  if (node.names("/dev/infiniband").empty()) {
    findings.push_back(warn("RDMA ports are active, but there is no /dev/infiniband, so NCCL uses TCP",
                            "docker run --device=/dev/infiniband, or the RDMA device plug-in of Kubernetes"));
  }
  const bool has_peer_memory =
      node.text("/proc/driver/nvidia/version").find("Open Kernel") != std::string::npos ||
      std::ranges::any_of(std::initializer_list<const char*>{"nvidia_peermem", "nv_peer_mem", "efa", "efa_nv_peermem"},
                          [&](const char* module) { return node.exists(std::string("/sys/module/") + module); });
  if (!node.gpus.empty() && !has_peer_memory) {
    findings.push_back(warn("RDMA cannot reach the memory of the GPUs, so each byte goes through host memory",
                            "modprobe nvidia-peermem, or the open kernel modules of the driver"));
  }
  if (findings.empty()) findings.push_back(ok(base::counted(active, "RDMA port", "is", "are") + " active"));
  return findings;
}

}  // namespace ddp::launcher::doctor
