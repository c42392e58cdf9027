#include "launcher/run/process/helper.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/run/process/process_host.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;
using base::ExitStatus;

namespace {

// Records what a helper has written, and how it has ended.
class Observed {
 public:
  base::Result<std::unique_ptr<Helper>> start(std::vector<std::string> command, bool is_interactive = true) {
    HelperCallbacks callbacks;
    callbacks.read = [this](std::size_t stream, std::string_view bytes) { texts.at(stream) += bytes; };
    callbacks.may_read = [this](std::size_t) { return may_read; };
    callbacks.ended = [this](const ExitStatus& status) {
      end = status;
      loop.stop();
    };
    return Helper::start(loop, {std::move(command), is_interactive}, std::move(callbacks));
  }

  std::unique_ptr<Helper> shell(const std::string& script, bool is_interactive = true) {
    auto helper = start({"sh", "-c", script}, is_interactive);
    if (!helper) FAIL(helper.error().message);
    return std::move(helper).value();
  }

  ExitStatus run_to_end() {
    const auto limit = loop.at(std::chrono::steady_clock::now() + 20s, [this] { loop.stop(); });
    loop.run();
    REQUIRE(end);
    return *end;
  }

  void run_for(std::chrono::milliseconds time) {
    const auto limit = loop.at(std::chrono::steady_clock::now() + time, [this] { loop.stop(); });
    loop.run();
  }

  net::EventLoop loop;
  std::array<std::string, 2> texts;
  bool may_read = true;
  std::optional<ExitStatus> end;
};

pid_t pid_in(const std::string& text) {
  return static_cast<pid_t>(base::parse_integer(text.substr(0, text.find('\n')), 1, 1 << 30).value_or(0));
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("a helper may be abandoned at the moment of its exit") {
  Observed seen;
  auto helper = seen.shell("echo $$; read go");
  REQUIRE(test::eventually([&] {
    seen.loop.poll();
    return pid_in(seen.texts[0]) > 0;
  }));
  const pid_t pid = pid_in(seen.texts[0]);
  // The loop sees both events at the same time, that of the pipe first. The end of the process is then already queued.
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const base::UniqueFd in(ends[0]);
  const base::UniqueFd out(ends[1]);
  const auto watch = seen.loop.watch_readable(in.get(), [&] { helper.reset(); });
  REQUIRE(::write(out.get(), "x", 1) == 1);
  helper->write_line("go");
  REQUIRE(test::eventually(
      [&] { return base::read_file("/proc/" + std::to_string(pid) + "/stat").find(") Z") != std::string::npos; }));
  for (int i = 0; i < 10; ++i) seen.loop.poll();
  CHECK(helper == nullptr);
  CHECK_FALSE(seen.end);
}

TEST_CASE("a helper's output streams are kept apart and its exit status is exact") {
  for (const auto& [script, expected] : {std::pair{"exit 11", ExitStatus::exited(11)},
                                         {"kill -SEGV $$", ExitStatus::killed(SIGSEGV)},
                                         {"exit 0", ExitStatus::exited(0)}}) {
    Observed observed;
    const auto helper = observed.shell(std::string("ulimit -c 0; echo out; echo err >&2; ") + script);
    CHECK(observed.run_to_end().describe() == expected.describe());
    CHECK(observed.texts[0] == "out\n");
    CHECK(observed.texts[1].starts_with("err\n"));
    CHECK(observed.loop.children().empty());
  }
}

TEST_CASE("a helper reads the lines written to it in order") {
  Observed observed;
  const auto helper = observed.shell("head -n 3000 | cksum");
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    const std::string line = std::to_string(i) + std::string(100, 'x');
    helper->write_line(line);
    all += line + "\n";
  }
  CHECK(observed.run_to_end().success());
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/all") << all;
  Observed reference;
  const auto sum = reference.shell("cksum < " + directory.path() + "/all");
  reference.run_to_end();
  CHECK(observed.texts[0] == reference.texts[0]);
}

TEST_CASE("a helper with paused output waits, and nothing is lost") {
  Observed observed;
  observed.may_read = false;
  const auto helper = observed.shell("seq 1 50000");
  observed.run_for(50ms);
  CHECK(observed.texts[0].empty());
  CHECK_FALSE(observed.end);
  observed.may_read = true;
  helper->resume();
  CHECK(observed.run_to_end().success());
  CHECK(observed.texts[0].size() == 288'894);
  CHECK(observed.texts[0].ends_with("\n50000\n"));
}

TEST_CASE("output that was paused when the helper exits is read after resume") {
  Observed observed;
  observed.may_read = false;
  const auto helper = observed.shell("echo short");
  observed.run_for(100ms);
  CHECK(observed.loop.children().empty());
  CHECK_FALSE(observed.end);
  observed.may_read = true;
  helper->resume();
  CHECK(observed.run_to_end().success());
  CHECK(observed.texts[0] == "short\n");
}

TEST_CASE("a process that keeps a helper's output open does not delay the helper's end") {
  Observed observed;
  const auto helper = observed.shell("setsid sleep 1000 & echo $!; seq 1 10000");
  CHECK(observed.run_to_end().success());
  CHECK(observed.texts[0].ends_with("\n10000\n"));
  CHECK(::kill(pid_in(observed.texts[0]), SIGKILL) == 0);
}

TEST_CASE("an interactive helper leads a session and is terminated with its process group") {
  Observed observed;
  const auto helper = observed.shell("set -- $(cat /proc/$$/stat); test $6 = $$ || exit 7; sleep 1000 & echo $!; wait");
  REQUIRE(ddp::test::eventually([&] {
    observed.run_for(5ms);
    return observed.texts[0].ends_with("\n");
  }));
  helper->end();
  CHECK(observed.run_to_end() == ExitStatus::killed(SIGTERM));
  const pid_t child = pid_in(observed.texts[0]);
  CHECK(ddp::test::eventually([&] {
    const std::string stat = base::read_file("/proc/" + std::to_string(child) + "/stat");
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }));
}

TEST_CASE("a helper that ignores SIGTERM is killed") {
  Observed observed;
  const auto helper = observed.shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
  REQUIRE(ddp::test::eventually([&] {
    observed.run_for(5ms);
    return !observed.texts[0].empty();
  }));
  helper->end();
  CHECK(observed.run_to_end() == ExitStatus::killed(SIGKILL));
}

TEST_CASE("an abandoned helper is killed and reaped by the event loop") {
  Observed observed;
  auto helper = observed.shell("echo ready; exec sleep 1000", false);
  observed.run_for(50ms);
  REQUIRE(observed.loop.children().size() == 1);
  const pid_t pid = *observed.loop.children().begin();
  helper.reset();
  CHECK(ddp::test::eventually([&] {
    observed.run_for(5ms);
    return observed.loop.children().empty();
  }));
  CHECK(::kill(pid, 0) == -1);
  CHECK_FALSE(observed.end);
}

TEST_CASE("helpers leave no file descriptors open") {
  Observed observed;
  observed.run_for(1ms);
  const auto before = open_descriptors();
  for (const bool is_interactive : {false, true}) {
    auto helper = observed.shell("echo x", is_interactive);
    observed.run_to_end();
    helper.reset();
    helper = observed.shell("exec sleep 1000", is_interactive);
    helper.reset();
    CHECK(ddp::test::eventually([&] {
      observed.run_for(5ms);
      return observed.loop.children().empty();
    }));
    CHECK_FALSE(observed.start({"/no/such/program"}, is_interactive).ok());
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a helper inherits only the first three file descriptors") {
  Observed observed;
  const int leaky = ::open("/dev/null", O_RDONLY);  // NOLINT: meant to be inheritable
  const auto helper = observed.shell("ls /proc/self/fd | tr '\\n' ' '");
  ::close(leaky);
  observed.run_to_end();
  CHECK(observed.texts[0] == "0 1 2 3 ");  // ls itself opens the directory that it lists
}

TEST_CASE("a helper that cannot be started reports the reason") {
  Observed observed;
  const auto missing = observed.start({"no-such-program-anywhere"});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message == "cannot start no-such-program-anywhere: No such file or directory");
  CHECK(observed.loop.children().empty());
}

TEST_CASE("a helper is not started if there are no file descriptors for its pipes") {
  Observed observed;
  observed.run_for(1ms);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{static_cast<rlim_t>(open_descriptors()), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  const auto helper = observed.start({"sh", "-c", "echo x"});
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE_FALSE(helper.ok());
  CHECK(helper.error().message.find("Too many open files") != std::string::npos);
}

TEST_CASE("the process host leaves the reaping of helpers to the event loop") {
  Observed observed;
  const auto host = make_process_host(observed.loop, nullptr);
  for (int i = 0; i < 50; ++i) {
    observed.end.reset();
    const auto helper = observed.shell("exit 3", false);
    CHECK(observed.run_to_end() == ExitStatus::exited(3));
  }
  const auto helper = observed.shell("sleep 0.1; exit 4", false);
  observed.end.reset();
  CHECK(host->end_leftovers().empty());
  CHECK(observed.run_to_end() == ExitStatus::exited(4));
}
