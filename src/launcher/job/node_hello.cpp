#include "launcher/job/node_hello.h"

#include <ddp/version.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "launcher/facts/node_facts.h"

namespace ddp::launcher {
namespace {

// Of a program that lies on a slow file system, not more than this is read.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kMostCompared = 1000;

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

// Where nodes may differ, and must not be told of.
bool is_own_matter(std::string_view name) {
  return name.ends_with("_SOCKET_IFNAME") || name == "NCCL_RAS_ADDR" || name == "NCCL_HOSTID";
}

// "libnccl.so.2.21.5": the file behind the library's name, where the loader would find it; empty: there is none.
// Nothing is loaded: a driver's library may hang.
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

// A message has a limit, and a command line may be long: of a long text its beginning, and a hash that differs if the
// text does.
std::string comparable(const std::string& text) {
  if (text.size() <= kMostCompared) return text;
  base::Fnv1a64 hash;
  hash.update(text);
  return text.substr(0, kMostCompared) + "... (hash " + base::hex64(hash.value()) + ")";
}

}  // namespace

wire::NodeHello make_node_hello(const LaunchPlan& plan) {
  wire::NodeHello hello;
  hello.job = plan.run_id;
  hello.host = plan.host_name;
  hello.node_rank = plan.nodes.rank.value_or(wire::kAnyNodeRank);
  hello.workers = plan.workers;
  hello.nodes = plan.nodes.asked;
  if (!plan.nodes.several()) return hello;  // there is none to compare it with
  // The interpreter of a script may differ in its build; the script is the program.
  const bool is_script = plan.arguments.size() > 1 && plan.what != plan.arguments.front();
  hello.same["program " + plan.what.substr(plan.what.rfind('/') + 1)] =
      fingerprint(is_script ? plan.what : plan.program);
  const auto nanoseconds = [](auto time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  hello.monotonic = nanoseconds(std::chrono::steady_clock::now());
  hello.time_of_day = nanoseconds(std::chrono::system_clock::now());
  hello.alike["ddplaunch's version"] = DDP_VERSION_STRING;
  hello.alike["the program's arguments"] = comparable(base::join(plan.arguments, " "));
  for (const char* library : {"libcuda.so.1", "libnccl.so.2"}) {
    hello.alike[library] = library_version(library, plan.inherited_environment);
  }
  for (const std::string& line : plan.inherited_environment) {
    const std::string name = line.substr(0, line.find('='));
    const bool counts = name.starts_with("NCCL_") || name.starts_with("GLOO_");
    if (counts && !is_own_matter(name)) hello.alike[name] = comparable(line.substr(name.size() + 1));
  }
  return hello;
}

}  // namespace ddp::launcher
