#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/log/file_output.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::chrono::milliseconds kNoPatience{0};

struct KnownBad {
  int first;  // versions as NCCL counts them: 2.28.3 is 22803
  int last;
  const char* harm;
  const char* repaired;
};

constexpr KnownBad kKnownBad[] = {
    {22803, 22808, "ncclCommAbort may end the program or hang", "2.28.9"},
    {23003, 23003, "a profiler plug-in may end the program", "2.30.4"},
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
  std::string version;       // empty if no name shows it
  std::string package = {};  // the wheel that contains it
};

// Returns the NCCL that PyTorch of this environment loads, by the name of the wheel's folder.
std::optional<Nccl> nccl_of_wheel(const Node& node) {
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string environment = node.variable(variable);
    if (environment.empty()) continue;
    for (const std::string& python : node.names(environment + "/lib")) {
      const std::string packages = environment + "/lib/" + python + "/site-packages";
      for (const std::string& name : node.names(packages)) {
        const std::size_t dash = name.find('-');
        if (!name.starts_with("nvidia_nccl_cu") || dash == std::string::npos) continue;
        return Nccl{packages + "/nvidia/nccl/lib/libnccl.so.2", name.substr(dash + 1, name.find(".dist") - dash - 1),
                    name.substr(0, dash)};
      }
    }
  }
  return std::nullopt;
}

// Returns the NCCL that programs load, by the name of the file. A wheel's is loaded before the system's.
std::optional<Nccl> find_nccl(const Node& node) {
  if (auto nccl = nccl_of_wheel(node)) return nccl;
  std::vector<std::string> folders = base::split(node.variable("LD_LIBRARY_PATH"), ':');
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib",
                             "/usr/local/cuda/lib64", "/usr/local/nccl/lib"}) {
    folders.emplace_back(folder);
  }
  for (const std::string& folder : folders) {
    std::optional<Nccl> nccl;
    // The longest name has the whole version.
    for (const std::string& name : node.names(folder)) {
      if (name.starts_with("libnccl.so.2")) nccl = {folder + "/" + name, name.substr(name.find(".so.") + 4)};
    }
    if (nccl && !folder.empty()) return nccl;
  }
  return std::nullopt;
}

bool has_tool(const Node& node, const std::string& name) {
  const std::vector<std::string> folders = base::split(node.variable("PATH"), ':');
  return std::ranges::any_of(folders, [&](const std::string& folder) { return node.exists(folder + "/" + name); });
}

struct SaveFailure {
  std::string text;
  int error = 0;  // errno
};
SaveFailure failure_of(const std::string& step) {
  return {step + ": " + std::strerror(errno), errno};
}

std::string remedy_of(int error, const std::string& folder) {
  switch (error) {
    case ENOENT:
      return "mkdir -p " + folder;
    case EROFS:
      return "findmnt -T " + folder + " shows the file system, which is read-only";
    case EACCES:
    case EPERM:
      return "ls -ld " + folder + " shows who may write to it";
    case EFBIG:
      return "ulimit -f unlimited";
    default:
      return "df -h " + folder + ", ls -ld " + folder + ", quota -s";
  }
}

// Writes a file, flushes it and gives it its name, as a checkpoint does. Returns why that failed.
std::optional<SaveFailure> failure_to_save(const std::string& folder) {
  // Other nodes may do the same in a shared folder.
  std::string part = folder + "/.ddplaunch_doctor.XXXXXX";
  const base::UniqueFd fd(::mkostemp(part.data(), O_CLOEXEC));
  if (fd.get() < 0) return failure_of("cannot create a file");
  const std::string file = part + ".renamed";
  std::optional<SaveFailure> failure;
  const std::string data(1 << 20, 'd');
  if (!write_all(fd.get(), data, kNoPatience)) {
    failure = failure_of("cannot write 1 MiB");
  } else if (::fsync(fd.get()) != 0) {
    failure = failure_of("cannot flush a file (fsync)");
  } else if (std::rename(part.c_str(), file.c_str()) != 0) {
    failure = failure_of("cannot rename a file");
  }
  ::unlink(part.c_str());
  ::unlink(file.c_str());
  return failure;
}

}  // namespace

std::optional<int> nccl_number(const Node& node) {
  const auto nccl = find_nccl(node);
  return nccl ? number_of_version(nccl->version) : std::nullopt;
}

Findings check_nccl(const Node& node) {
  const auto nccl = find_nccl(node);
  if (!nccl && node.gpus.empty()) return {ok("no NCCL, and no GPU that needs it")};
  if (!nccl) {
    return {unknown("NCCL is in none of the usual folders. PyTorch may bring its own",
                    "python3 -c 'import torch; print(torch.cuda.nccl.version())'")};
  }
  const std::string text = "NCCL " + nccl->version + " (" + nccl->path + ")";
  const auto number = number_of_version(nccl->version);
  for (const KnownBad& bad : kKnownBad) {
    if (!number || *number < bad.first || *number > bad.last) continue;
    return {warn(text + ": " + bad.harm,
                 nccl->package.empty()
                     ? "apt-get install libnccl2, in version " + std::string(bad.repaired) + " or newer"
                     : "pip install '" + nccl->package + ">=" + bad.repaired + "'")};
  }
  return {ok(text)};
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
                 scope == "3" ? "kernel.yama.ptrace_scope=1 in /etc/sysctl.d, and a reboot, because 3 cannot be changed"
                              : "sysctl -w kernel.yama.ptrace_scope=1, as root")};
  }
  if (lacks.empty()) return {ok("a report of a hang can show all stacks")};
  return {ok("a report of a hang shows more with " + base::join(lacks, " and "))};
}

// The launcher has a directory of its own there, and so have many programs.
Findings check_temporary(const Node& node) {
  const std::string variable = node.variable("TMPDIR");
  const std::string folder = variable.empty() ? "/tmp" : variable;
  const std::string name = variable.empty() ? folder : folder + " (TMPDIR)";
  if (const auto failure = failure_to_save(node.root + folder)) {
    const std::string remedy = remedy_of(failure->error, folder);
    return {fail(name + ": " + failure->text, variable.empty() ? remedy : "unset TMPDIR, or " + remedy)};
  }
  return {ok("files can be written to " + name)};
}

Findings check_checkpoints(const Node& node) {
  if (node.folder.empty()) return {};
  const std::string remedy = remedy_of(ENOSPC, node.folder);
  if (const auto failure = failure_to_save(node.root + node.folder))
    return {fail(node.folder + ": " + failure->text, remedy_of(failure->error, node.folder))};
  const auto files = node.file_system(node.folder);
  if (!files) return {unknown("the free space of " + node.folder + " cannot be read")};
  const std::string text = node.folder + " has " + base::human_bytes(files->free_bytes) + " free";
  if (files->free_bytes < kGiB) return {warn("only " + text, remedy)};
  return {ok(text + ", and a file can be flushed and renamed")};
}

}  // namespace ddp::launcher::doctor
