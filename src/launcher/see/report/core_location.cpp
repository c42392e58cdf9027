#include "launcher/see/report/core_location.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/file.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kThreadNameBytes = 15;  // the kernel's TASK_COMM_LEN without the final null byte

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns what the kernel writes for "%<specifier>".
std::string expand(char specifier, const CoreFacts& facts) {
  const auto outside = [&](auto number) { return facts.has_own_numbers ? "*" : std::to_string(number); };
  std::string path = facts.executable;
  std::replace(path.begin(), path.end(), '/', '!');
  const std::map<char, std::string> known = {
      {'%', "%"},
      {'p', std::to_string(facts.pid)},
      {'P', outside(facts.pid)},
      {'e', file_name(facts.program).substr(0, kThreadNameBytes)},
      {'f', file_name(facts.executable)},
      {'E', path},
      {'s', std::to_string(facts.signal)},
      {'h', facts.host_name},
      {'u', outside(facts.user)},
      {'g', outside(facts.group)},
  };
  const auto found = known.find(specifier);
  if (found != known.end()) return found->second;
  // The limit, the CPU, the dump mode, the thread (inside and outside of a container) and the time are not known.
  return std::string_view("cCdiIt").find(specifier) != std::string_view::npos ? "*" : "";
}

std::string expand_pattern(const CoreFacts& facts) {
  const std::string& pattern = facts.pattern;
  std::string text;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      text += pattern[i];
    } else if (++i < pattern.size()) {
      text += expand(pattern[i], facts);
      has_pid |= pattern[i] == 'p';
    }
  }
  return facts.uses_pid && !has_pid ? text + "." + std::to_string(facts.pid) : text;
}

bool leaves_core(const base::ExitStatus& status) {
  constexpr std::array signals = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ};
  return std::ranges::any_of(signals, [&](int signal) { return status.was_killed_by(signal); });
}

std::string why_no_core(const CoreFacts& facts) {
  // The kernel passes the core to a handler whatever the limit is.
  if (!facts.limit_is_zero || facts.pattern.starts_with("|")) return "none";
  if (facts.choice == CoreDumps::off) return "none (--core=off)";
  if (facts.choice == CoreDumps::unlimited) return "none, because the hard limit is 0 (ulimit -H -c)";
  return "none, because the limit is 0 (--core=unlimited)";
}

std::string describe_handler(const CoreFacts& facts) {
  const std::string handler = file_name(facts.pattern.substr(1, facts.pattern.find(' ') - 1));
  std::string text = "with " + handler;
  // The handler runs outside the container and sees another number for the process.
  const bool is_asked_by_pid = handler == "systemd-coredump" && !facts.has_own_numbers;
  if (is_asked_by_pid) text += " (coredumpctl info " + std::to_string(facts.pid) + ")";
  return facts.limit_is_zero ? text + ", which may discard it, because the core limit is 0" : text;
}

// The initial namespaces have fixed numbers (PROC_PID_INIT_INO and PROC_USER_INIT_INO of the kernel).
bool is_in_own_namespace() {
  std::error_code ignored;
  const auto differs = [&](const char* name, const char* first) {
    const std::string is = std::filesystem::read_symlink(std::string("/proc/self/ns/") + name, ignored).string();
    return !is.empty() && is != std::string(name) + ":[" + first + "]";
  };
  return differs("pid", "4026531836") || differs("user", "4026531837");
}

}  // namespace

std::string describe_core(const base::ExitStatus& status, const CoreFacts& facts) {
  if (!leaves_core(status)) return "";
  if (!status.dumped_core()) return why_no_core(facts);
  if (facts.pattern.starts_with("|")) return describe_handler(facts);
  if (facts.pattern.starts_with("@")) {
    return "with the server at " + facts.pattern.substr(facts.pattern.starts_with("@@") ? 2 : 1);
  }
  const std::string path = expand_pattern(facts);
  if (path.empty()) return "";
  return path.starts_with("/") ? path : facts.directory + "/" + path;
}

CoreFacts gather_core_facts(pid_t pid, const std::string& program, const std::string& host_name, CoreDumps core_choice,
                            const base::ExitStatus& status) {
  CoreFacts facts;
  facts.pattern = base::read_line("/proc/sys/kernel/core_pattern");
  facts.uses_pid = base::read_line("/proc/sys/kernel/core_uses_pid") == "1";
  facts.pid = pid;
  facts.has_own_numbers = is_in_own_namespace();
  facts.program = program;
  std::error_code error;
  facts.executable = std::filesystem::canonical(program, error).string();
  if (error) facts.executable = program;
  facts.directory = std::filesystem::current_path(error).string();
  facts.host_name = host_name;
  facts.signal = status.signal();
  facts.user = ::getuid();
  facts.group = ::getgid();
  facts.choice = core_choice;
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  facts.limit_is_zero =
      core_choice == CoreDumps::off || (core_choice == CoreDumps::inherit ? limit.rlim_cur : limit.rlim_max) == 0;
  return facts;
}

}  // namespace ddp::launcher
