#include "launcher/report/core_location.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace ddp::launcher {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// core(5).
std::string expand(char specifier, const CoreFacts& facts) {
  std::string path = facts.program;
  switch (specifier) {
    case '%':
      return "%";
    case 'p':
    case 'P':
    case 'i':
    case 'I':
      return std::to_string(facts.pid);
    case 'e':
    case 'f':
      return file_name(facts.program).substr(0, 15);
    case 'E':
      std::replace(path.begin(), path.end(), '/', '!');
      return path;
    case 's':
      return std::to_string(facts.signal);
    case 'h':
      return facts.host_name;
    case 'u':
      return std::to_string(::getuid());
    case 'g':
      return std::to_string(::getgid());
    default:
      return "*";
  }
}

std::string expand_pattern(const std::string& pattern, const CoreFacts& facts) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      text += pattern[i];
    } else {
      text += expand(pattern[++i], facts);
    }
  }
  if (facts.uses_pid && pattern.find("%p") == std::string::npos) text += "." + std::to_string(facts.pid);
  return text;
}

bool leaves_core(const base::ExitStatus& status) {
  constexpr std::array signals = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ};
  return std::any_of(signals.begin(), signals.end(), [&](int signal) { return status.was_killed_by(signal); });
}

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string describe_core(const base::ExitStatus& status, const CoreFacts& facts) {
  if (!leaves_core(status)) return "";
  if (facts.pattern.starts_with("|")) {
    const std::string handler = file_name(facts.pattern.substr(1, facts.pattern.find(' ') - 1));
    const bool systemd = handler.find("systemd-coredump") != std::string::npos;
    return "with " + handler + (systemd ? " (coredumpctl info " + std::to_string(facts.pid) + ")" : "");
  }
  if (facts.limit_is_zero) return "none, the limit is 0 (--core=unlimited)";
  if (!status.dumped_core()) return "none";
  if (facts.pattern.empty()) return "";
  const std::string path = expand_pattern(facts.pattern, facts);
  return path.starts_with("/") ? path : facts.directory + "/" + path;
}

CoreFacts gather_core_facts(pid_t pid, const std::string& program, const std::string& host_name,
                            const std::string& core_choice, const base::ExitStatus& status) {
  CoreFacts facts;
  facts.pattern = read_line("/proc/sys/kernel/core_pattern");
  facts.uses_pid = read_line("/proc/sys/kernel/core_uses_pid") == "1";
  facts.pid = pid;
  facts.program = program;
  std::error_code ignored;
  facts.directory = std::filesystem::current_path(ignored).string();
  facts.host_name = host_name;
  facts.signal = status.was_killed() ? status.shell_code() - 128 : 0;
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  facts.limit_is_zero = core_choice == "off" || (core_choice == "inherit" ? limit.rlim_cur : limit.rlim_max) == 0;
  return facts;
}

}  // namespace ddp::launcher
