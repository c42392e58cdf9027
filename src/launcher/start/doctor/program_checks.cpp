#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

struct KnownBad {
  int first;  // versions as NCCL counts them: 2.28.3 is 22803
  int last;
  const char* harm;
  const char* remedy;
};

constexpr KnownBad kKnownBad[] = {
    {22803, 22808, "ncclCommAbort may end the program or hang", "pip install nvidia-nccl-cu12==2.28.9, or newer"},
    {23003, 23003, "a profiler plug-in may end the program", "pip install nvidia-nccl-cu12==2.30.4, or newer"},
};

// Returns the number of "2.28.3" as NCCL counts it.
std::optional<int> number_of_version(const std::string& version) {
  const std::vector<std::string> parts = base::split(version, '.');
  if (parts.size() < 3) return std::nullopt;
  int number = 0;
  for (int i = 0; i < 3; ++i) {
    const auto part = base::parse_integer(parts[static_cast<std::size_t>(i)], 0, 99);
    if (!part) return std::nullopt;
    number = number * 100 + static_cast<int>(*part);
  }
  return number;
}

struct Nccl {
  std::string path;
  std::string version;  // empty if no name shows it
};

// The libraries of packages have the version in the name of the file, and wheels have it in the name of a folder.
std::vector<Nccl> find_nccl(const Node& node) {
  std::vector<Nccl> found;
  std::vector<std::string> folders = base::split(node.variable("LD_LIBRARY_PATH"), ':');
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib",
                             "/usr/local/cuda/lib64", "/usr/local/nccl/lib"}) {
    folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    Nccl nccl;
    for (const std::string& name : node.names(folder)) {
      if (name.starts_with("libnccl.so.2")) nccl = {folder + "/" + name, name.substr(name.find(".so.") + 4)};
    }
    if (!nccl.path.empty()) found.push_back(nccl);
  }
  const std::string environment = node.variable("VIRTUAL_ENV");
  if (environment.empty()) return found;
  for (const std::string& python : node.names(environment + "/lib")) {
    const std::string packages = environment + "/lib/" + python + "/site-packages";
    for (const std::string& name : node.names(packages)) {
      if (!name.starts_with("nvidia_nccl_cu")) continue;
      const std::size_t dash = name.find('-');
      found.push_back(
          {packages + "/nvidia/nccl/lib/libnccl.so.2", name.substr(dash + 1, name.find(".dist") - dash - 1)});
    }
  }
  return found;
}

bool has_tool(const Node& node, const std::string& name) {
  const std::vector<std::string> folders = base::split(node.variable("PATH"), ':');
  return std::ranges::any_of(folders, [&](const std::string& folder) { return node.exists(folder + "/" + name); });
}

std::string error_text() {
  return std::strerror(errno);
}

// A full file system takes a part first, and fails then.
bool writes_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0) return false;
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Writes a file, flushes it and gives it its name, as a checkpoint does. Returns why that failed.
std::optional<std::string> failure_to_save(const std::string& folder) {
  const std::string file = folder + "/.ddplaunch_doctor." + std::to_string(::getpid());
  const std::string part = file + ".part";
  const base::UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (fd.get() < 0) return "cannot create a file: " + error_text();
  std::optional<std::string> failure;
  const std::string data(1 << 20, 'd');
  if (!writes_all(fd.get(), data)) {
    failure = "cannot write 1 MiB: " + error_text();
  } else if (::fsync(fd.get()) != 0) {
    failure = "cannot flush a file (fsync): " + error_text();
  } else if (std::rename(part.c_str(), file.c_str()) != 0) {
    failure = "cannot rename a file: " + error_text();
  }
  ::unlink(part.c_str());
  ::unlink(file.c_str());
  return failure;
}

}  // namespace

Findings check_nccl(const Node& node) {
  const std::vector<Nccl> found = find_nccl(node);
  if (found.empty()) {
    if (node.gpus.empty()) return {ok("no NCCL, and no GPU that needs it")};
    return {unknown("NCCL is in none of the usual folders; a PyTorch wheel may contain it",
                    "apt-get install libnccl2, or pip install nvidia-nccl-cu12")};
  }
  Findings findings;
  for (const Nccl& nccl : found) {
    const auto number = number_of_version(nccl.version);
    for (const KnownBad& bad : kKnownBad) {
      if (!number || *number < bad.first || *number > bad.last) continue;
      findings.push_back(warn("NCCL " + nccl.version + " (" + nccl.path + "): " + bad.harm, bad.remedy));
    }
    if (nccl.version != found.front().version && number && number_of_version(found.front().version)) {
      findings.push_back(warn("there are NCCL " + found.front().version + " (" + found.front().path + ") and " +
                                  nccl.version + " (" + nccl.path + "), and programs may load different ones",
                              "remove one of them, or set LD_LIBRARY_PATH for all ranks"));
    }
  }
  if (findings.empty()) findings.push_back(ok("NCCL " + found.front().version + " (" + found.front().path + ")"));
  return findings;
}

Findings check_diagnosis(const Node& node) {
  std::vector<std::string> lacks;
  if (!has_tool(node, "py-spy")) lacks.emplace_back("py-spy (lines of Python)");
  if (!has_tool(node, "gdb") && !has_tool(node, "eu-stack"))
    lacks.emplace_back("gdb or eu-stack (more than one stack)");
  const std::string scope = node.line("/proc/sys/kernel/yama/ptrace_scope");
  if (scope == "3" || (scope == "2" && !node.is_root)) {
    return {warn("no process may read another one's stack (kernel.yama.ptrace_scope=" + scope +
                     "), so a report of a hang shows less",
                 "sysctl -w kernel.yama.ptrace_scope=1")};
  }
  if (lacks.empty()) return {ok("a report of a hang can show all stacks")};
  return {ok("a report of a hang shows more with " + base::join(lacks, " and "))};
}

Findings check_checkpoints(const Node& node) {
  if (node.folder.empty()) return {};
  const std::string remedy = "df -h " + node.folder + ", ls -ld " + node.folder + ", quota -s";
  if (const auto failure = failure_to_save(node.root + node.folder))
    return {fail(node.folder + ": " + *failure, remedy)};
  const auto files = node.file_system(node.folder);
  if (!files) return {unknown("the free space of " + node.folder + " cannot be read")};
  const std::string text = node.folder + " has " + base::human_bytes(files->free_bytes) + " free";
  if (files->free_bytes < kGiB) return {warn("only " + text, remedy)};
  return {ok(text + ", and a file can be flushed and renamed")};
}

}  // namespace ddp::launcher::doctor
