// Between fork and exec only async-signal-safe calls are made: the child of a process with other threads (a library's,
// say) may not touch a lock. So argv and the environment are built before the fork, and all signals are blocked across
// it, lest a handler of ours runs in the child.
#include "launcher/process/child_process.h"

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/error.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <linux/close_range.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/prctl.h>
#include <unistd.h>

#include "base/exit_code.h"

namespace ddp::launcher {
namespace {

namespace bp = boost::process;

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// Runs in the child.
void prepare_child(pid_t launcher, const rlimit& descriptors) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have died before that call; its pid is compared with what it was, since a subreaper, not 1, may
  // have adopted us.
  if (::getppid() != launcher) ::_exit(1);
  ::setsid();
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

SpawnFailure explain(const std::string& program, const std::error_code& error) {
  const std::string start = "cannot start " + program + ": ";
  switch (error.value()) {
    case ENOENT:
      // The file was there a moment ago, so it is the interpreter (of a script or of a dynamic program) that is
      // missing.
      return {base::kExitNotFound,
              start + "no such file, or the interpreter it names is missing (its first line; ldd)."};
    case ENOEXEC:
      return {base::kExitNotExecutable,
              start + "not a program for this machine. Another architecture, or a script without a #! line?"};
    case EACCES:
      return {base::kExitNotExecutable, start + "permission denied (file, directory or interpreter)."};
    case EMFILE:
    case ENFILE:
      return {base::kExitOwnFault, start + "out of file descriptors (ulimit -n)."};
    case EAGAIN:
      return {base::kExitOwnFault, start + "the limit of processes is reached (ulimit -u, or pids.max of the cgroup)."};
    default:
      return {error.value() == E2BIG ? base::kExitNotExecutable : base::kExitOwnFault, start + error.message() + "."};
  }
}

}  // namespace

base::Result<pid_t, SpawnFailure> spawn_child(const WorkerSpec& spec, const rlimit& descriptors) {
  bp::environment environment;
  for (const std::string& line : spec.environment) {
    const std::size_t equals = line.find('=');
    environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  const std::vector<std::string> arguments(spec.arguments.begin() + 1, spec.arguments.end());
  const pid_t launcher = ::getpid();
  std::error_code error;
  const BlockedSignals blocked;
  bp::child child(
      bp::exe = spec.program, bp::args = arguments, environment, bp::std_in < bp::null, error,
      bp::extend::on_exec_setup = [launcher, descriptors](auto&) { prepare_child(launcher, descriptors); });
  if (error) return explain(spec.program, error);
  const pid_t pid = child.id();
  // The library reports a failed pipe() by this alone.
  if (!child.valid() || pid <= 0) return explain(spec.program, {EMFILE, std::system_category()});
  child.detach();
  return pid;
}

}  // namespace ddp::launcher
