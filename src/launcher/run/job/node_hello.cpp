#include "launcher/run/job/node_hello.h"

#include <ddp/version.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include "base/hash.h"
#include "base/printable.h"
#include "base/random.h"
#include "base/secrets.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/witness_directory.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher {
namespace {

using wire::NodeHello;

// The program may be on a slow file system, so no more than this is read.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostCompared = 1000;
constexpr const char* kWitness = "--witness";

std::string fingerprint(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "cannot be read";
  base::Fnv1a64 hash;
  std::array<char, 64 << 10> buffer;
  for (std::size_t bytes = 0; bytes < kMostBytes && file; bytes += buffer.size()) {
    file.read(buffer.data(), buffer.size());
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
  }
  return base::hex64(hash.value());
}

// Returns whether nodes may differ in this variable without a remark.
bool is_own_matter(std::string_view name) {
  return name.ends_with("_SOCKET_IFNAME") || name == "NCCL_RAS_ADDR" || name == "NCCL_HOSTID";
}

// Returns the file behind the library's name where the loader would find it, such as "libnccl.so.2.21.5". Returns an
// empty string if there is none. The library is not loaded, because a driver's library may hang.
std::string library_version(const std::string& name, const std::vector<std::string>& environment) {
  std::vector<std::string> folders = base::split(find_variable(environment, "LD_LIBRARY_PATH").value_or(""), ':');
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                            "/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/usr/local/lib"}) {
    folders.emplace_back(usual);
  }
  for (const std::string& folder : folders) {
    std::error_code ignored;
    const auto file = std::filesystem::canonical(std::filesystem::path(folder) / name, ignored);
    if (!ignored) return file.filename();
  }
  return "";
}

// A message carries only UTF-8, so other bytes are shown in hexadecimal on both sides. It has a limit, and a command
// line may be long. A long text is reduced to its beginning and a hash, which differs if the text differs.
std::string comparable(const std::string& text) {
  std::string shown = base::printable(text);
  if (shown.size() <= kMostCompared) return shown;
  base::Fnv1a64 hash;
  hash.update(text);
  return base::printable(shown, kMostCompared) + " (hash " + base::hex64(hash.value()) + ")";
}

struct Difference {
  std::string name;
  std::string theirs;
  std::string ours;
};

// Returns the names of which two nodes have different values, the first limits::kRemarks of them. A value that a node
// does not have is `missing`.
std::vector<Difference> differences(const std::map<std::string, std::string>& theirs,
                                    const std::map<std::string, std::string>& ours, const std::string& missing) {
  const auto value_of = [&](const std::map<std::string, std::string>& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? missing : found->second;
  };
  std::map<std::string, std::string> all = ours;
  all.insert(theirs.begin(), theirs.end());
  std::vector<Difference> found;
  for (const auto& [name, value] : all) {
    const Difference one{name, value_of(theirs, name), value_of(ours, name)};
    if (one.theirs != one.ours && found.size() < limits::kRemarks) found.push_back(one);
  }
  return found;
}

// Returns a text such as "program train: b0a1… on b, 77c2… on a", or an empty string if there is no difference.
std::string difference(const NodeHello& theirs, const NodeHello& ours) {
  const auto shown = [](const std::string& text) { return base::printable(text, limits::kShownName); };
  std::vector<std::string> parts;
  for (const Difference& one : differences(theirs.same, ours.same, "nothing")) {
    parts.push_back(shown(one.name) + ": " + shown(one.theirs) + " on " + shown(theirs.host) + ", " + shown(one.ours) +
                    " on " + ours.host);
  }
  return base::join(parts, "; ");
}

}  // namespace

bool may_be_led_by_any_node(const LaunchPlan& plan) {
  return plan.nodes.several() && !plan.nodes.rank && plan.max_restarts > 0;
}

void set_clocks(wire::NodeHello& hello) {
  const auto nanoseconds = [](auto time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  hello.monotonic = nanoseconds(std::chrono::steady_clock::now());
  hello.time_of_day = nanoseconds(std::chrono::system_clock::now());
}

wire::NodeHello make_node_hello(const LaunchPlan& plan) {
  wire::NodeHello hello;
  hello.job = comparable(plan.run_id);
  hello.host = base::printable(plan.host_name);
  hello.node_rank = plan.nodes.rank.value_or(wire::kAnyNodeRank);
  hello.workers = plan.workers;
  hello.nodes = plan.nodes.asked;
  if (!plan.nodes.several()) return hello;  // there is no other node to compare it with
  // The interpreter of a script may be another build on each node. The script counts as the program.
  const bool is_script = plan.arguments.size() > 1 && plan.what != plan.arguments.front();
  hello.same["program " + comparable(plan.what.substr(plan.what.rfind('/') + 1))] =
      fingerprint(is_script ? plan.what : plan.program);
  if (!plan.nodes.witness.empty()) {
    const auto identity = identify_witness(plan.nodes.witness);
    hello.same[kWitness] = identity ? identity.value() : "unknown " + base::hex64(base::random64());
  }
  set_clocks(hello);
  hello.alike["ddplaunch's version"] = DDP_VERSION_STRING;
  hello.alike["the program's arguments"] = comparable(base::join(base::without_secrets(plan.arguments), " "));
  for (const char* library : {"libcuda.so.1", "libnccl.so.2"}) {
    hello.alike[library] = comparable(library_version(library, plan.inherited_environment));
  }
  for (const std::string& line : plan.inherited_environment) {
    const std::string name = line.substr(0, line.find('='));
    const bool counts = name.starts_with("NCCL_") || name.starts_with("GLOO_");
    if (counts && !is_own_matter(name)) hello.alike[comparable(name)] = comparable(line.substr(name.size() + 1));
  }
  return hello;
}

std::chrono::nanoseconds clock_ahead(std::int64_t theirs, std::chrono::nanoseconds ours) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  return std::chrono::nanoseconds(std::clamp<std::int64_t>(theirs, 0, kMost)) - ours;
}

std::string difference_of_kind(const NodeHello& hello, const NodeHello& own, bool is_static, int max_nodes) {
  if (hello.version != wire::kControlVersion) return "it runs another version of ddplaunch";
  if (hello.workers < 1 || hello.workers > limits::kWorkersPerNode || hello.node_rank < wire::kAnyNodeRank) {
    return "it has " + std::to_string(hello.workers) + " workers and --node-rank=" + std::to_string(hello.node_rank) +
           ", which no launcher sends";
  }
  if (hello.job != own.job) {
    return "it belongs to job '" + base::printable(hello.job, limits::kShownName) + "', and this is job '" + own.job +
           "' (--rdzv-id)";
  }
  if (hello.nodes != own.nodes)
    return "it has --nnodes=" + base::printable(hello.nodes, limits::kShownName) + ", and the first node has " +
           own.nodes;
  // Each of two nodes could claim the job in its own directory.
  const auto witness_of = [](const NodeHello& node) {
    return node.same.contains(kWitness) ? node.same.at(kWitness) : std::string();
  };
  if (witness_of(hello) != witness_of(own)) {
    return "its --witness is not the directory of the first node. Give all nodes the same one, on a file system that "
           "they share, or none";
  }
  const std::string different = difference(hello, own);
  if (!different.empty()) return "it would run another program (" + different + ")";
  const bool has_number = hello.node_rank != wire::kAnyNodeRank;
  const std::string number = "--node-rank=" + std::to_string(hello.node_rank);
  if (!is_static)
    return has_number ? "it has " + number + ", but the first node has none. Give it to all nodes or to none" : "";
  if (!has_number) return "it has no --node-rank, but the first node has one. Give it to all nodes or to none";
  return hello.node_rank < max_nodes
             ? ""
             : "it has " + number + ", but the job has only " + std::to_string(max_nodes) + " nodes, counted from 0";
}

std::vector<Remark> remarks_on(const NodeHello& hello, const NodeHello& own, std::chrono::nanoseconds now) {
  std::vector<Remark> remarks;
  for (const Difference& one : differences(hello.alike, own.alike, "")) {
    const std::string shown = base::printable(one.name, limits::kShownName);
    remarks.push_back({shown, "nodes differ: " + shown + " is '" + base::printable(one.theirs, limits::kShownReason) +
                                  "' on " + base::printable(hello.host, limits::kShownName) + " and '" + one.ours +
                                  "' on " + own.host});
  }
  if (hello.time_of_day == 0) return remarks;
  const auto difference =
      clock_ahead(hello.time_of_day, std::chrono::nanoseconds(own.time_of_day - own.monotonic) + now);
  const auto amount = std::chrono::abs(difference);
  if (amount < limits::kClockDifference) return remarks;
  const std::string host = base::printable(hello.host, limits::kShownName);
  remarks.push_back({"clock of " + host, "the clock of " + host + " is " + base::human_duration(amount) +
                                             (difference.count() > 0 ? " ahead of" : " behind") + " that of " +
                                             own.host + "; the times in their logs do not match"});
  return remarks;
}

}  // namespace ddp::launcher
