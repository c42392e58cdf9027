#include "launcher/commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/exit_code.h"
#include "launcher/cli/parse.h"
#include "launcher/launch.h"
#include "launcher/plan/host_facts.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/process/launcher_signals.h"
#include "launcher/store_command/store_command.h"

namespace ddp::launcher {
namespace {

int print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (written) return 0;
  std::fprintf(stderr, "ddplaunch: cannot write to the standard output: %s\n", std::strerror(errno));
  return base::kExitOwnFault;
}

// A pipe that were made as descriptor 1 would be lost in the worker that gets it.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY));
  }
}

// A program of ours: where this one is (the build tree), or where it is installed.
std::string beside_us(const std::string& name) {
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string path(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string near = folder + "/" + name;
  return ::access(near.c_str(), X_OK) == 0 ? near : folder + "/" DDP_LIBEXEC_FROM_BIN "/" + name;
}

int run(int argc, const char* const* argv) {
  std::vector<std::string> environment;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) environment.emplace_back(*line);
  const auto parsed = parse_command_line(argc, argv, environment);
  if (const auto* information = std::get_if<Information>(&parsed)) {
    return print(information->text);
  }
  if (const auto* mistake = std::get_if<UsageError>(&parsed)) {
    LogSink(false).error(mistake->message);
    return base::kExitUsage;
  }
  if (const auto* store = std::get_if<StoreOptions>(&parsed)) {
    LogSink log(false);
    return run_store_command(*store, environment, log, print);
  }
  Options options = std::get<Options>(parsed);
  if (options.bench) options.command.front() = beside_us(options.command.front());
  LogSink log(options.quiet);
  const auto plan = make_launch_plan(options, gather_host_facts(options));
  hide_auth_token();
  if (!plan) {
    log.error(plan.error().message);
    return plan.error().exit_code;
  }
  if (options.dry_run) {
    return print(options.json ? describe_json(plan.value()) : describe(plan.value()));
  }
  return end_like(launch(plan.value(), log));
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  // A closed terminal or pipe must not end the launcher while workers run.
  std::signal(SIGPIPE, SIG_IGN);
  open_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddplaunch: internal error: %s. Please report it.\n", error.what());
    return base::kExitOwnFault;
  }
}

}  // namespace ddp::launcher
