#include "launcher/plan/host_facts.h"

#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "base/hash.h"
#include "base/text.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

int count_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

// The driver lists GPUs in /proc; in containers without that, by their device files /dev/nvidia0, /dev/nvidia1, …
int count_gpus() {
  std::error_code ignored;
  int listed = 0;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    static_cast<void>(entry);
    ++listed;
  }
  int devices = 0;
  for (const auto& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && base::parse_integer(name.substr(6), 0, 1 << 20)) ++devices;
  }
  // A container may show all GPUs in /proc but only its own device files.
  return devices > 0 ? devices : listed;
}

ProgramFacts examine(const std::string& path) {
  ProgramFacts facts;
  facts.path = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return facts;
  facts.found = true;
  facts.is_directory = S_ISDIR(status.st_mode);
  facts.executable = S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  return facts;
}

// A file with a similar name in the same directory.
std::string similar_file(const std::string& path) {
  const fs::path wanted(path);
  const fs::path directory = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (names.size() > 10'000) break;
    const std::string name = entry.path().filename();
    if (examine(entry.path()).executable) names.push_back(name);
  }
  const auto nearest = base::nearest_match(wanted.filename().string(), names);
  if (!nearest) return "";
  return wanted.has_parent_path() ? (wanted.parent_path() / *nearest).string() : "./" + *nearest;
}

// As execvp looks: a name with a slash is a path, any other is searched for in PATH.
ProgramFacts find_program(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) {
    ProgramFacts facts = examine(program);
    if (!facts.found) facts.suggestion = similar_file(program);
    return facts;
  }
  ProgramFacts best;
  const std::string path = find_variable(environment, "PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string& directory : base::split(path, ':')) {
    ProgramFacts facts = examine((directory.empty() ? "." : directory) + "/" + program);
    if (facts.executable) return facts;
    if (facts.found && !facts.is_directory && !best.found) best = facts;
  }
  if (best.found) return best;
  // "train" for "./train" is the most common slip.
  if (examine("./" + program).executable) best.suggestion = "./" + program;
  if (best.suggestion.empty()) best.suggestion = similar_file(program);
  return best;
}

std::string random_id() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) value = static_cast<std::uint64_t>(::getpid());
  return base::hex64(value);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace

HostFacts gather_host_facts(const std::string& program) {
  HostFacts facts;
  facts.host_name = host_name();
  facts.cpu_count = count_cpus();
  facts.gpu_count = count_gpus();
  for (char** line = environ; *line != nullptr; ++line) facts.environment.emplace_back(*line);
  facts.program = find_program(program, facts.environment);
  facts.random_id = random_id();
  return facts;
}

std::optional<std::string> find_variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& line : environment) {
    if (line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name)) {
      return line.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

}  // namespace ddp::launcher
