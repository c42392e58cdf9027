#include "launcher/process/child_process.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

WorkerSpec shell(const std::string& script) {
  return {"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}};
}

ddp::base::Result<pid_t, SpawnFailure> start(const WorkerSpec& spec) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  return spawn_child(spec, descriptors);
}

// Runs to the end; the raw status of waitpid.
int run(const WorkerSpec& spec) {
  const auto pid = start(spec);
  if (!pid) FAIL(pid.error().message);
  int status = 0;
  REQUIRE(::waitpid(pid.value(), &status, 0) == pid.value());
  return status;
}

std::string output_of(const std::string& script) {
  const TemporaryDirectory directory;
  REQUIRE(run(shell("{ " + script + "; } > " + directory.path() + "/out 2>&1")) == 0);
  std::ifstream file(directory.path() + "/out");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void make_script(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), 0755);
}

}  // namespace

TEST_CASE("a missing interpreter is not found and says so") {
  const TemporaryDirectory directory;
  make_script(directory.path() + "/x", "#!/no/such/interpreter\n");
  const auto pid = start({directory.path() + "/x", {"x"}, {}});
  REQUIRE_FALSE(pid.ok());
  CHECK(pid.error().exit_code == 127);
  CHECK(pid.error().message.find("interpreter") != std::string::npos);
}

TEST_CASE("a file that is no program for this machine is not executable") {
  const TemporaryDirectory directory;
  make_script(directory.path() + "/x",
              "\x7f"
              "ELFgarbage");
  const auto pid = start({directory.path() + "/x", {"x"}, {}});
  REQUIRE_FALSE(pid.ok());
  CHECK(pid.error().exit_code == 126);
}

TEST_CASE("a failed start leaves no zombie that the caller cannot reap") {
  static_cast<void>(start({"/no/such/program", {"x"}, {}}));
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  CHECK(errno == ECHILD);
}

TEST_CASE("exit codes and signals arrive as they are") {
  for (const int code : {0, 1, 11, 127, 255}) {
    const int status = run(shell("exit " + std::to_string(code)));
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
  }
  const int status = run(shell("kill -SEGV $$"));
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("a child has only its own environment") {
  WorkerSpec spec = shell("test \"$X\" = 'a=b c' && test -z \"$HOME\"");
  spec.environment.emplace_back("X=a=b c");
  CHECK(run(spec) == 0);
}

TEST_CASE("arguments arrive verbatim") {
  CHECK(run({"/bin/sh",
             {"sh", "-c", "test \"$1\" = '' && test \"$2\" = 'a b' && test \"$3\" = '$X'", "sh", "", "a b", "$X"},
             {}}) == 0);
}

TEST_CASE("a child leads its own session and group") {
  CHECK(run(shell("set -- $(cat /proc/$$/stat); test $5 = $$ && test $6 = $$")) == 0);
}

TEST_CASE("a child inherits no descriptor but the first three") {
  const int leaky = ::open("/dev/null", O_RDONLY);  // NOLINT: meant to be inheritable
  REQUIRE(leaky > 2);
  // ls itself opens the directory it lists.
  CHECK(output_of("ls /proc/self/fd | tr '\\n' ' '") == "0 1 2 3 ");
  ::close(leaky);
}

TEST_CASE("a child inherits no blocked or ignored signal") {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const auto old_pipe = std::signal(SIGPIPE, SIG_IGN);
  const auto old_usr1 = std::signal(SIGUSR1, SIG_IGN);
  const std::string masks = output_of("grep -E 'SigBlk|SigIgn' /proc/self/status");
  std::signal(SIGPIPE, old_pipe);
  std::signal(SIGUSR1, old_usr1);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  CHECK(masks == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("a child's input is empty") {
  CHECK(run(shell("test -z \"$(cat)\"")) == 0);
}

TEST_CASE("a child has the limit of descriptors that it is given") {
  const auto pid = spawn_child(shell("test $(ulimit -Sn) = 77 && test $(ulimit -Hn) = 99"), {77, 99});
  REQUIRE(pid.ok());
  int status = 0;
  REQUIRE(::waitpid(pid.value(), &status, 0) == pid.value());
  CHECK(status == 0);
}
