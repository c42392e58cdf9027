#include "launcher/start/doctor/between/between_findings.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/start/doctor/between/speed_pairs.h"

namespace ddp::launcher::doctor {
namespace {

constexpr double kMostClockOffset = 2;  // seconds
constexpr double kLostDatagrams = 0.1;  // a share that healthy networks do not lose
constexpr std::size_t kMostShown = 8;   // ways of one kind that are shown one by one
constexpr int kJudgedDatagrams = 20;    // of fewer ones, the loss of some says nothing

std::string decimal(double number, int digits) {
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.*f", digits, number)));
  return text;
}

// Returns "0.05 ms", or "7 s".
std::string time_text(double seconds) {
  if (seconds >= 1) return base::human_duration(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
  return decimal(seconds * 1e3, seconds < 0.01 ? 2 : 0) + " ms";
}

// Returns "9.4 Gb/s".
std::string rate_text(double bytes_per_second) {
  const double gigabits = bytes_per_second * 8 / 1e9;
  return decimal(gigabits, gigabits < 10 ? 1 : 0) + " Gb/s";
}

// What is wrong with the way from one node to another.
enum class Trouble : std::uint8_t {
  none,
  refused,
  dropped,
  lost_one_way,  // packets arrive in the other direction only
  cut,           // nothing arrives in either direction
  unreachable,
  foreign,
  silent,
  endpoint_only,  // only the port of the endpoint is open
  large_lost,     // large packets are lost, and small ones arrive
  many_lost,      // many bytes are lost in packets of any size
};

const NodeAddress* address_of(const JobRecord& job, int node) {
  const auto found = std::ranges::find(job.addresses, node, &NodeAddress::node);
  return found == job.addresses.end() ? nullptr : &*found;
}

Reach worst_of(const Path& path) {
  // Only the first node needs the endpoint's port.
  const auto closed = std::ranges::find_if(path.ports, [](Reach reach) { return reach != Reach::open; });
  return closed == path.ports.end() ? Reach::open : *closed;
}

// Returns how many datagrams of `from` have arrived at `to`, or std::nullopt if that is unknown.
std::optional<int> arrived(const JobRecord& job, int from, int to) {
  const Path* back = path_between(job, to, from);
  const NodeAddress* address = address_of(job, to);
  if (back == nullptr || address == nullptr || address->datagram_port == 0) return std::nullopt;
  return back->datagrams;
}

// Nothing has answered on a port of this way. A connection needs both directions, and datagrams show which one is
// broken.
Trouble trouble_of_silence(const JobRecord& job, int from, const Path& path) {
  const NodeAddress* to = address_of(job, path.to);
  const bool no_port_is_open = std::ranges::find(path.ports, Reach::open) == path.ports.end();
  const bool is_endpoint_open = to != nullptr && to->endpoint_port != 0 && path.endpoint_port == Reach::open;
  const Trouble of_firewall = no_port_is_open && is_endpoint_open ? Trouble::endpoint_only : Trouble::dropped;
  const Path* back = path_between(job, path.to, from);
  if (back == nullptr || worst_of(*back) != Reach::dropped || !no_port_is_open) return of_firewall;
  const auto there = arrived(job, from, path.to);
  const auto here = arrived(job, path.to, from);
  if (!there || !here || (*there > 0 && *here > 0)) return of_firewall;
  const bool is_cut = *there == 0 && *here == 0;
  if (is_cut && is_endpoint_open) return of_firewall;
  // The trouble belongs to one of the two ways.
  if (is_cut) return from < path.to ? Trouble::cut : Trouble::none;
  return *there == 0 ? Trouble::lost_one_way : Trouble::none;
}

Trouble trouble_of_ports(const JobRecord& job, int from, const Path& path) {
  // By Reach.
  constexpr Trouble kTroubleOf[] = {Trouble::none,        Trouble::refused, Trouble::dropped,
                                    Trouble::unreachable, Trouble::foreign, Trouble::silent};
  const Trouble trouble = kTroubleOf[static_cast<std::size_t>(worst_of(path))];
  return trouble == Trouble::dropped ? trouble_of_silence(job, from, path) : trouble;
}

Trouble trouble_of(const JobRecord& job, int from, const Path& path) {
  const Trouble of_ports = trouble_of_ports(job, from, path);
  const bool is_lost = path.large == Flow::lost_there || path.large == Flow::lost_back;
  if (of_ports != Trouble::none || !is_lost) return of_ports;
  return path.small == Flow::arrives ? Trouble::large_lost : Trouble::many_lost;
}

// Of the port checks, these say that a firewall or a route is wrong.
std::string firewall_remedy(const JobRecord& job) {
  constexpr std::size_t kMostAddresses = 8;
  std::vector<std::string> addresses;
  for (const NodeAddress& each : job.addresses) addresses.push_back(each.address);
  const bool is_v6 = !addresses.empty() && addresses.front().find(':') != std::string::npos;
  const std::string list = addresses.size() <= kMostAddresses ? base::join(addresses, ",") : "ADDRESSES_OF_THE_NODES";
  return "let the nodes reach each other on all ports, since NCCL and Gloo choose any. On each node: sudo " +
         std::string(is_v6 ? "ip6tables" : "iptables") + " -I INPUT -s " + list +
         " -j ACCEPT. In a cloud: a rule of the security group that allows all traffic within the group";
}

struct TroubleText {
  Trouble trouble;
  const char* check;
  // What is wrong, behind "node 0 (a) → node 1 (b): ". {address}, {to}, {from} and {why} are replaced.
  const char* text;
  const char* remedy;  // nullptr for that of a firewall
};
constexpr TroubleText kTroubles[] = {
    {Trouble::refused, "reach", "{address} refuses connections, although {to} listens there. A firewall rejects them",
     nullptr},
    {Trouble::dropped, "reach", "no answer from {address} within 4 s. A firewall drops the packets", nullptr},
    {Trouble::lost_one_way, "reach", "packets from {from} never arrive at {to}. In the other direction they do",
     "a firewall, a route back, or reverse path filtering is wrong: compare ip route get {address} on {from} with the "
     "routes of {to}, and look at sysctl net.ipv4.conf.all.rp_filter"},
    {Trouble::cut, "reach", "nothing arrives, in either direction", nullptr},
    {Trouble::unreachable, "reach", "{address}: {why}. A route is missing, or a firewall rejects packets",
     "ip route get {address}, on {from}, and the firewall of {to} (firewall-cmd --list-all, iptables -S). If the nodes "
     "have "
     "another common network, name its address with --local-addr and --rdzv-endpoint"},
    {Trouble::foreign, "reach", "something else answers at {address}: {why}",
     "look whether two hosts have this address (arping -D {address}), or a proxy is between them"},
    {Trouble::silent, "reach", "{address} accepts connections, and no answer arrives",
     "a proxy, or a firewall that knows only a part of the connections, is between them"},
    {Trouble::endpoint_only, "reach",
     "of {to}, only the port at which the nodes meet is open. A firewall drops packets to all others", nullptr},
    {Trouble::large_lost, "packets",
     "large packets never arrive, small ones do. A device on the way has a smaller MTU and does not say so",
     "find the largest SIZE that arrives: ping -M do -s SIZE {address}, on {from}. Give all nodes the MTU SIZE + 28 "
     "(ip link "
     "set dev INTERFACE mtu), let the switches carry that of the nodes, or let ICMP pass"},
    {Trouble::many_lost, "packets", "256 KiB at once do not arrive, although the connection is made",
     "the way loses packets, or a firewall cuts connections: look at nstat -az TcpRetransSegs on both"},
};

std::string filled(std::string text, std::initializer_list<std::pair<std::string_view, std::string>> values) {
  for (const auto& [name, value] : values) {
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

// The ways to one node with one trouble are one finding. If packets are lost, it is the way that loses them, whichever
// node has noticed it.
struct Ways {
  Trouble trouble = Trouble::none;
  int to = 0;
  std::vector<int> from;
};

std::vector<Ways> ways_with_trouble(const JobRecord& job) {
  std::map<std::pair<Trouble, int>, std::set<int>> from_by_trouble;
  for (const NodePaths& of_node : job.paths) {
    for (const Path& path : of_node.paths) {
      const Trouble trouble = trouble_of(job, of_node.node, path);
      const Flow lost = trouble == Trouble::many_lost && path.small != Flow::unknown ? path.small : path.large;
      const bool is_back = (trouble == Trouble::large_lost || trouble == Trouble::many_lost) && lost == Flow::lost_back;
      if (trouble == Trouble::none) continue;
      from_by_trouble[{trouble, is_back ? of_node.node : path.to}].insert(is_back ? path.to : of_node.node);
    }
  }
  std::vector<Ways> all;
  for (const auto& [key, from] : from_by_trouble) all.push_back({key.first, key.second, {from.begin(), from.end()}});
  return all;
}

Finding finding_of(const JobRecord& job, const Ways& ways, const TroubleText& row) {
  const Path* const path = path_between(job, ways.from.front(), ways.to);
  const NodeAddress* const address = address_of(job, ways.to);
  const std::string to = name_of_node(job, ways.to);
  const bool are_all = ways.from.size() > 1 && ways.from.size() + 1 == job.addresses.size();
  const std::string from = ways.from.size() == 1 ? name_of_node(job, ways.from.front())
                           : are_all             ? "all other nodes"
                                                 : "nodes " + base::rank_list(ways.from);
  const auto with_values = [&](const char* text) {
    return filled(text, {{"{address}", address == nullptr ? "" : address->address},
                         {"{to}", to},
                         {"{from}", from},
                         {"{why}", path == nullptr ? "" : base::printable(path->why)}});
  };
  const char* const arrow = ways.trouble == Trouble::cut ? " ↔ " : " → ";
  return fail(from + arrow + to + ": " + with_values(row.text),
              row.remedy == nullptr ? firewall_remedy(job) : with_values(row.remedy));
}

Findings findings_of_ways(const JobRecord& job, std::string_view check) {
  Findings findings;
  std::int64_t left_out = 0;
  for (const Ways& ways : ways_with_trouble(job)) {
    const TroubleText& row = *std::ranges::find(kTroubles, ways.trouble, &TroubleText::trouble);
    if (row.check != check) continue;
    findings.size() < kMostShown ? findings.push_back(finding_of(job, ways, row)) : void(++left_out);
  }
  if (left_out > 0) findings.push_back(fail(base::counted(left_out, "more way") + " like these", "repair these first"));
  return findings;
}

std::vector<int> silent_nodes(const JobRecord& job, int expected) {
  std::vector<int> silent;
  for (int node = 0; node < expected; ++node) {
    const bool has_said_all = address_of(job, node) != nullptr &&
                              std::ranges::find(job.findings, node, &NodeFindings::node) != job.findings.end() &&
                              std::ranges::find(job.paths, node, &NodePaths::node) != job.paths.end();
    if (!has_said_all) silent.push_back(node);
  }
  return silent;
}

Findings check_answers(const JobRecord& job, int expected) {
  const std::vector<int> silent = silent_nodes(job, expected);
  if (silent.empty()) return {};
  return {
      fail(names_of_nodes(job, silent) + base::plural(std::ssize(silent), " has", " have") + " not answered in time",
           "run ddplaunch doctor --node there. A driver or a file system may hang")};
}

Findings check_reach(const JobRecord& job) {
  Findings findings = findings_of_ways(job, "reach");
  if (!findings.empty()) return findings;
  const auto nodes = std::ssize(job.addresses);
  return {ok("each node reaches all others, on " + base::counted(std::ssize(job.addresses.front().ports), "port") +
             " that the kernel has chosen (" + base::counted(nodes * (nodes - 1), "way") + ")")};
}

Findings check_packets(const JobRecord& job) {
  Findings findings = findings_of_ways(job, "packets");
  double least = 0;
  double most = 0;
  bool is_any_known = false;
  for (const NodePaths& of_node : job.paths) {
    for (const Path& path : of_node.paths) {
      if (path.large != Flow::unknown) is_any_known = true;
      if (path.round_trip_us > 0) {
        least = least == 0 ? path.round_trip_us : std::min(least, path.round_trip_us);
        most = std::max(most, path.round_trip_us);
      }
      const auto arrived_here = arrived(job, of_node.node, path.to);
      const int sent = job.datagrams_sent;
      const bool is_judged = sent >= kJudgedDatagrams && arrived_here && *arrived_here > 0;
      if (!is_judged || trouble_of(job, of_node.node, path) != Trouble::none) continue;
      const int lost = sent - *arrived_here;
      if (lost < kLostDatagrams * sent || findings.size() >= kMostShown) continue;
      findings.push_back(warn(name_of_node(job, of_node.node) + " → " + name_of_node(job, path.to) + ": " +
                                  std::to_string(lost) + " of " + base::counted(sent, "packet") + " were lost",
                              "look at ip -s link on both nodes, and at the ports of the switch"));
    }
  }
  if (!findings.empty()) return findings;
  if (!is_any_known) return {unknown("no node reaches another one")};
  return {
      ok("many bytes at once arrive, and an answer takes " + time_text(least / 1e6) + " to " + time_text(most / 1e6))};
}

Findings check_clocks(const JobRecord& job) {
  Findings findings;
  double most = 0;
  bool is_any_known = false;
  for (const NodeAddress& node : job.addresses) {
    const int first = job.addresses.front().node;
    const Path* path = path_between(job, first, node.node);
    if (path == nullptr || !path->clock_ahead_s) continue;
    is_any_known = true;
    most = std::max(most, std::abs(*path->clock_ahead_s));
    if (std::abs(*path->clock_ahead_s) < kMostClockOffset) continue;
    findings.push_back(
        warn("the clock of " + name_of_node(job, node.node) + " is " + time_text(std::abs(*path->clock_ahead_s)) +
                 (*path->clock_ahead_s > 0 ? " ahead of" : " behind") + " that of " + name_of_node(job, first),
             "timedatectl, and start chronyd or systemd-timesyncd there"));
  }
  if (!findings.empty()) return findings;
  if (!is_any_known) return {unknown("no node could ask another one")};
  return {ok("they differ by at most " + time_text(most))};
}

// A node's own name often means its loopback address there, so only what other nodes know of it counts.
Findings check_names(const JobRecord& job) {
  Findings findings;
  for (const NodeAddress& node : job.addresses) {
    std::map<std::vector<std::string>, std::vector<int>> by_meaning;
    for (const NodePaths& of_node : job.paths) {
      const Path* path = path_between(job, of_node.node, node.node);
      if (path != nullptr && !path->name_means.empty()) by_meaning[path->name_means].push_back(of_node.node);
    }
    const auto has_common = [&](const auto& one) {
      return std::ranges::all_of(by_meaning, [&](const auto& other) {
        std::vector<std::string> common;
        std::ranges::set_intersection(one.first, other.first, std::back_inserter(common));
        return !common.empty();
      });
    };
    if (by_meaning.size() < 2 || std::ranges::all_of(by_meaning, has_common) || findings.size() >= kMostShown) continue;
    std::vector<std::string> texts;
    for (const auto& [means, nodes] : by_meaning)
      texts.push_back(base::join(means, ", ") + " on " + names_of_nodes(job, nodes));
    findings.push_back(warn("the name " + base::printable(node.host) + " means " + base::join(texts, ", and "),
                            "make /etc/hosts or the name service the same on all nodes"));
  }
  return findings;
}

Findings check_speed(const JobRecord& job) {
  if (job.speeds.empty()) return {unknown("no pair of nodes could be measured")};
  const std::vector<int> slow = slow_nodes(job.speeds);
  const auto [least, most] = std::ranges::minmax_element(job.speeds, {}, slower_of);
  const std::string range = "a pair exchanges " + rate_text(slower_of(*least)) +
                            (slower_of(*most) > slower_of(*least) ? " to " + rate_text(slower_of(*most)) : "") +
                            " over TCP, on one connection";
  if (slow.empty()) return {ok(range)};
  return {warn(
      names_of_nodes(job, slow) + base::plural(std::ssize(slow), " is", " are") + " slow with two partners: " + range,
      "ethtool INTERFACE there (speed and duplex), and ip -s link for errors")};
}

Findings check_checkpoints(const JobRecord& job) {
  const std::string folder = job.findings.empty() ? "" : job.findings.front().folder;
  if (folder.empty()) return {};
  std::vector<int> apart;
  for (const NodePaths& of_node : job.paths) {
    if (!of_node.shares_folder) apart.push_back(of_node.node);
  }
  const std::string shown = base::printable(folder);
  if (apart.empty()) return {ok(shown + " is the same directory on all nodes")};
  return {warn(shown + " is another directory on " + names_of_nodes(job, apart) + " than on the first node",
               "name a directory of a file system that all nodes share")};
}

Findings check_differences(const JobRecord& job) {
  Findings findings;
  for (const Difference& difference : differences(job)) {
    if (!difference.matters) continue;
    std::vector<std::string> texts;
    for (const auto& [value, nodes] : difference.values) {
      texts.push_back((value.empty() ? "nothing" : base::printable(value)) + " on " + names_of_nodes(job, nodes));
    }
    findings.push_back(warn(difference.name + " differs: " + base::join(texts, ", "), "make the nodes the same"));
  }
  if (findings.empty()) findings.push_back(ok("the nodes have the same versions, devices and variables"));
  return findings;
}

}  // namespace

// Nodes and ways are in the order of their numbers. Of many nodes, this is called often.
const Path* path_between(const JobRecord& job, int from, int to) {
  const auto of_node = std::ranges::lower_bound(job.paths, from, {}, &NodePaths::node);
  if (of_node == job.paths.end() || of_node->node != from) return nullptr;
  const auto path = std::ranges::lower_bound(of_node->paths, to, {}, &Path::to);
  return path == of_node->paths.end() || path->to != to ? nullptr : &*path;
}

std::string name_of_node(const JobRecord& job, int node) {
  const NodeAddress* address = address_of(job, node);
  return "node " + std::to_string(node) + (address == nullptr ? "" : " (" + base::printable(address->host) + ")");
}

std::string names_of_nodes(const JobRecord& job, const std::vector<int>& nodes) {
  constexpr std::size_t kMostNames = 4;
  std::vector<std::string> names;
  for (const int node : nodes) {
    if (names.size() < kMostNames) names.push_back(name_of_node(job, node));
  }
  const std::size_t more = nodes.size() - names.size();
  return base::join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

std::vector<Difference> differences(const JobRecord& job) {
  std::map<std::string, std::map<std::string, std::vector<int>>> by_name;
  std::set<std::string> that_matter;
  for (const NodeFindings& of_node : job.findings) {
    for (const Fact& fact : of_node.facts) {
      by_name[fact.name];
      if (fact.matters) that_matter.insert(fact.name);
    }
  }
  for (auto& [name, values] : by_name) {
    for (const NodeFindings& of_node : job.findings) {
      const auto fact = std::ranges::find(of_node.facts, name, &Fact::name);
      values[fact == of_node.facts.end() ? "" : fact->value].push_back(of_node.node);
    }
  }
  std::vector<Difference> all;
  for (const auto& [name, values] : by_name) {
    if (values.size() < 2) continue;
    Difference difference{name, that_matter.contains(name), {}};
    for (const auto& [value, nodes] : values) difference.values.push_back({value, nodes});
    std::ranges::stable_sort(difference.values, std::greater(), [](const auto& each) { return each.nodes.size(); });
    all.push_back(std::move(difference));
  }
  return all;
}

Findings findings_between(const JobRecord& job, int expected) {
  Findings all;
  const auto add = [&](const char* check, Findings findings) {
    for (Finding& finding : findings) {
      finding.check = check;
      all.push_back(std::move(finding));
    }
  };
  add("answers", check_answers(job, expected));
  if (job.addresses.size() < 2) return all;
  add("reach", check_reach(job));
  add("packets", check_packets(job));
  add("clocks", check_clocks(job));
  add("names", check_names(job));
  add("speed", check_speed(job));
  add("checkpoints", check_checkpoints(job));
  add("differences", check_differences(job));
  return all;
}

JobRecord troubles_only(JobRecord job) {
  const JobRecord all = job;
  const auto is_well = [&](int from, const Path& path) {
    return worst_of(path) == Reach::open && trouble_of(all, from, path) == Trouble::none;
  };
  for (NodePaths& of_node : job.paths) {
    std::erase_if(of_node.paths, [&](const Path& path) {
      const Path* back = path_between(all, path.to, of_node.node);
      return is_well(of_node.node, path) && (back == nullptr || is_well(path.to, *back));
    });
  }
  for (NodeFindings& node : job.findings) {
    std::erase_if(node.findings, [](const Finding& finding) { return finding.grade == Grade::ok; });
    node.facts.clear();
  }
  return job;
}

std::vector<int> nodes_to_leave_out(const JobRecord& job, int expected) {
  const std::vector<int> silent = silent_nodes(job, expected);
  std::set<int> bad(silent.begin(), silent.end());
  for (const NodeFindings& of_node : job.findings) {
    if (std::ranges::find(of_node.findings, Grade::fail, &Finding::grade) != of_node.findings.end())
      bad.insert(of_node.node);
  }
  std::set<std::pair<int, int>> ways;
  for (const Ways& each : ways_with_trouble(job)) {
    for (const int from : each.from) ways.insert(std::minmax(from, each.to));
  }
  while (true) {
    std::erase_if(ways, [&](const auto& way) { return bad.contains(way.first) || bad.contains(way.second); });
    if (ways.empty()) break;
    std::map<int, int> counts;
    for (const auto& [one, other] : ways) {
      ++counts[one];
      ++counts[other];
    }
    bad.insert(std::ranges::max_element(counts, {}, [](const auto& entry) {
                 return std::pair(entry.second, entry.first);
               })->first);
  }
  return {bad.begin(), bad.end()};
}

}  // namespace ddp::launcher::doctor
