#include "launcher/run/process/spawn.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/run/process/worker_cgroup.h"
#include "support/catch.h"
#include "support/random_seed.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

WorkerSpec program(const std::string& path, std::vector<std::string> arguments,
                   std::vector<std::string> environment = {}) {
  WorkerSpec spec;
  spec.program = path;
  spec.arguments = std::move(arguments);
  spec.environment = std::move(environment);
  return spec;
}

WorkerSpec shell(const std::string& script) {
  return program("/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"});
}

ddp::base::Result<Spawned, StartFailure> start(const WorkerSpec& spec, WorkerDescriptors descriptors = {}) {
  const ddp::base::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  descriptors.in = nothing.get();
  static ddp::net::EventLoop loop;
  return spawn_worker(loop, spec, descriptors);
}

// Runs the worker to its end. Returns the raw status from waitpid.
int run(const WorkerSpec& spec, const WorkerDescriptors& descriptors = {}) {
  const auto spawned = start(spec, descriptors);
  if (!spawned) FAIL(spawned.error().message);
  int status = 0;
  const pid_t pid = spawned.value().process.id();
  REQUIRE(::waitpid(pid, &status, 0) == pid);
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

TEST_CASE("a missing interpreter is reported as not found") {
  const TemporaryDirectory directory;
  make_script(directory.path() + "/x", "#!/no/such/interpreter\n");
  const auto pid = start(program(directory.path() + "/x", {"x"}));
  REQUIRE_FALSE(pid.ok());
  CHECK(pid.error().exit_code == 127);
  CHECK(pid.error().message.find("interpreter") != std::string::npos);
}

TEST_CASE("a file that is not a program for this computer is reported as not executable") {
  const TemporaryDirectory directory;
  make_script(directory.path() + "/x",
              "\x7f"
              "ELFgarbage");
  const auto pid = start(program(directory.path() + "/x", {"x"}));
  REQUIRE_FALSE(pid.ok());
  CHECK(pid.error().exit_code == 126);
}

TEST_CASE("a failed start leaves no zombie") {
  static_cast<void>(start(program("/no/such/program", {"x"})));
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  CHECK(errno == ECHILD);
}

TEST_CASE("exit codes and signals of a child are reported exactly") {
  for (const int code : {0, 1, 11, 127, 255}) {
    const int status = run(shell("exit " + std::to_string(code)));
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == code);
  }
  const int status = run(shell("kill -SEGV $$"));
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("a child has only the environment that it is given") {
  WorkerSpec spec = shell("test \"$X\" = 'a=b c' && test -z \"$HOME\"");
  spec.environment.emplace_back("X=a=b c");
  CHECK(run(spec) == 0);
}

TEST_CASE("arguments reach a child unchanged") {
  CHECK(run(program("/bin/sh", {"sh", "-c", "test \"$1\" = '' && test \"$2\" = 'a b' && test \"$3\" = '$X'", "sh", "",
                                "a b", "$X"})) == 0);
}

TEST_CASE("a child leads its own session and process group") {
  CHECK(run(shell("set -- $(cat /proc/$$/stat); test $5 = $$ && test $6 = $$")) == 0);
}

TEST_CASE("a child inherits only the first three file descriptors") {
  const int leaky = ::open("/dev/null", O_RDONLY);  // NOLINT: meant to be inheritable
  REQUIRE(leaky > 2);
  // ls itself opens the directory it lists.
  CHECK(output_of("ls /proc/self/fd | tr '\\n' ' '") == "0 1 2 3 ");
  ::close(leaky);
}

TEST_CASE("a child inherits no blocked or ignored signals") {
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

TEST_CASE("a child's standard input is empty") {
  CHECK(run(shell("test -z \"$(cat)\"")) == 0);
}

TEST_CASE("a child has the file descriptors that it is given") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  WorkerDescriptors descriptors;
  descriptors.out = ends[1];
  descriptors.err = ends[1];
  CHECK(run(shell("echo out; echo err >&2"), descriptors) == 0);
  ::close(ends[1]);
  char text[64] = {};
  CHECK(::read(ends[0], text, sizeof text) == 8);
  CHECK(std::string(text) == "out\nerr\n");
  ::close(ends[0]);
}

TEST_CASE("spawn moves an output pipe away from the descriptor number of the status page or of the record ring") {
  const ddp::base::UniqueFd page(::memfd_create("page", MFD_CLOEXEC));
  const ddp::base::UniqueFd ring(::memfd_create("ring", MFD_CLOEXEC));
  const auto [out, error] = GENERATE(std::pair(197, 196), std::pair(196, 197), std::pair(197, 300));
  std::array<ddp::base::UniqueFd, 2> readers;
  WorkerDescriptors descriptors{-1, out, error, page.get(), ring.get()};
  for (const int number : {out, error}) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    readers[number == out ? 0 : 1].reset(ends[0]);
    REQUIRE(::dup3(ends[1], number, O_CLOEXEC) == number);
    ::close(ends[1]);
  }
  CHECK(
      run(shell("echo out; echo error >&2; exec 3>/proc/self/fd/197 && echo page >&3 && echo ring >/proc/self/fd/196"),
          descriptors) == 0);
  const auto read_all = [](int descriptor) {
    std::string text(64, 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(descriptor, text.data(), text.size()))));
    return text;
  };
  for (const int number : {out, error}) ::close(number);
  CHECK(read_all(readers[0].get()) == "out\n");
  CHECK(read_all(readers[1].get()) == "error\n");
  ::lseek(page.get(), 0, SEEK_SET);
  ::lseek(ring.get(), 0, SEEK_SET);
  CHECK(read_all(page.get()) == "page\n");
  CHECK(read_all(ring.get()) == "ring\n");
}

TEST_CASE("a worker whose descriptor limit is below the status page's number starts without the page") {
  const pid_t pid = ::fork();  // the hard limit cannot be raised again
  if (pid == 0) {
    const rlimit low{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &low);
    const ddp::base::UniqueFd page(::memfd_create("page", MFD_CLOEXEC));
    WorkerDescriptors descriptors;
    descriptors.page = page.get();
    ::_exit(WEXITSTATUS(run(shell("exit 7"), descriptors)));
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a child's soft descriptor limit is raised and its core limit is set as requested") {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{64, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  const std::string expected = std::to_string(std::min<rlim_t>(before.rlim_max, ddp::limits::kWorkerDescriptors));
  CHECK(run(shell("test $(ulimit -Sn) = " + expected)) == 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  WorkerSpec spec = shell("test $(ulimit -Sc) = 0");
  spec.core = CoreDumps::off;
  CHECK(run(spec) == 0);
  spec = shell("test $(ulimit -Sc) = $(ulimit -Hc)");
  spec.core = CoreDumps::unlimited;
  CHECK(run(spec) == 0);
}

TEST_CASE("a child runs on the CPUs that it is bound to") {
  WorkerSpec spec = shell("grep -q 'Cpus_allowed_list:.0$' /proc/self/status");
  spec.cpus = {0};
  spec.memory_nodes = {0};
  CHECK(run(spec) == 0);
  spec.cpus = {1000};
  const auto failed = start(spec);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().exit_code == 125);
  CHECK(failed.error().message.find("--numa-binding") != std::string::npos);
}

TEST_CASE("the kernel's out-of-memory killer prefers a child to the launcher") {
  int own = 0;
  std::ifstream("/proc/self/oom_score_adj") >> own;
  const int raised = std::min(1000, own + ddp::limits::kOomScoreRaise);
  CHECK(run(shell("test $(cat /proc/self/oom_score_adj) = " + std::to_string(raised))) == 0);
}

TEST_CASE("a thread that holds the allocator's lock does not block a child") {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) std::vector<char>(100'000).swap(*std::make_unique<std::vector<char>>(1000));
  });
  for (int i = 0; i < 300; ++i) REQUIRE(run(program("/bin/true", {"true"})) == 0);
  stop = true;
  busy.join();
}

TEST_CASE("a child outlives the helper thread that started it") {
  const auto spawned = start(shell("read line || sleep 1000"));
  REQUIRE(spawned.ok());
  std::thread([] {}).join();
  CHECK(::waitpid(spawned.value().process.id(), nullptr, WNOHANG) == 0);
  ::killpg(spawned.value().process.id(), SIGKILL);
}

namespace {

// A cgroup for workers, which join it, unless there is no writable cgroup of version 2.
struct MadeCgroup {
  MadeCgroup() : is_there(cgroup.make()) {
    if (!is_there) WARN("no writable cgroup of version 2 here: nothing to test");
    descriptors.cgroup_procs = cgroup.procs_fd();
  }
  explicit operator bool() const { return is_there; }
  // Returns a worker that exits with 0 if it is in the cgroup.
  WorkerSpec asks_for_it() const {
    return shell("grep -q " + cgroup.path().substr(cgroup.path().rfind('/') + 1) + " /proc/self/cgroup");
  }

  WorkerCgroup cgroup;
  bool is_there;
  WorkerDescriptors descriptors;
};

}  // namespace

TEST_CASE("a worker is in its cgroup whether it is created there or joins it") {
  MadeCgroup made;
  if (!made) return;
  const int folder = GENERATE(0, 1);
  if (folder == 1) made.descriptors.cgroup = made.cgroup.folder_fd();
  CHECK(run(made.asks_for_it(), made.descriptors) == 0);
}

TEST_CASE("a worker that cannot be created in its cgroup joins it") {
  MadeCgroup made;
  if (!made) return;
  // This is not a directory, so the kernel refuses it, as an older kernel does.
  made.descriptors.cgroup = made.cgroup.procs_fd();
  CHECK(run(made.asks_for_it(), made.descriptors) == 0);
}

TEST_CASE("a worker runs in a cgroup whose earlier processes were killed") {
  MadeCgroup made;
  if (!made) return;
  made.descriptors.cgroup = made.cgroup.folder_fd();
  const auto former = start(shell("sleep 1000"), made.descriptors);
  REQUIRE(former.ok());
  made.cgroup.kill_all(std::chrono::seconds(5));
  for (int i = 0; i < 3; ++i) CHECK(run(made.asks_for_it(), made.descriptors) == 0);
}

TEST_CASE("a worker ignores the signals that ask it to save unless the program handles them") {
  WorkerSpec spec = shell("kill -USR1 $$; exit 5");
  CHECK(WIFSIGNALED(run(spec)));
  spec.ignored_signals = {SIGUSR1};
  CHECK(WEXITSTATUS(run(spec)) == 5);
}

using ddp::base::UniqueFd;
using ddp::launcher::DescriptorMove;
using ddp::launcher::move_descriptors;

namespace {

constexpr int kFirst = 210;  // the tests take descriptors from this number on

ino_t file_at(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

// Opens a file of its own at this number.
UniqueFd open_at(int number) {
  const UniqueFd file(::memfd_create("a file", MFD_CLOEXEC));
  REQUIRE(file);
  UniqueFd result(::fcntl(file.get(), F_DUPFD_CLOEXEC, number));
  REQUIRE(result.get() == number);
  return result;
}

// Makes the moves and checks what is at each target. Closes all files.
void check_moves(std::vector<DescriptorMove> moves) {
  std::vector<UniqueFd> files;
  std::vector<int> numbers;
  for (const DescriptorMove& move : moves) {
    for (const int number : {move.from, move.to}) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::ranges::unique(numbers).begin(), numbers.end());
  for (const int number : numbers) {
    if (number >= 0) files.push_back(open_at(number));
  }
  std::vector<ino_t> expected;
  for (const DescriptorMove& move : moves) expected.push_back(file_at(move.from >= 0 ? move.from : move.to));
  const std::vector<DescriptorMove> asked = moves;
  REQUIRE(move_descriptors(moves) == 0);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    INFO(asked[i].from << " -> " << asked[i].to);
    CHECK(file_at(asked[i].to) == expected[i]);
    CHECK((::fcntl(asked[i].to, F_GETFD) == 0) == (asked[i].from >= 0));
    if (moves[i].from != asked[i].from) UniqueFd(moves[i].from).reset();
  }
}

}  // namespace

TEST_CASE("descriptors reach their target numbers even if other moved descriptors occupy them") {
  constexpr int a = kFirst;
  check_moves({});
  check_moves({{a, a}});
  check_moves({{a + 5, a}, {a + 6, a + 1}});
  check_moves({{a + 1, a}, {a, a + 1}});
  check_moves({{a + 1, a}, {a + 2, a + 1}, {a, a + 2}});
  check_moves({{a + 1, a}, {a + 1, a + 1}, {a + 1, a + 2}});
  check_moves({{a, a}, {a, a + 1}, {a + 1, a + 2}});
  check_moves({{-1, a}, {a, a + 1}});
  check_moves({{a + 1, a}, {-1, a + 1}});
}

TEST_CASE("descriptors reach their target numbers for random numbers") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::array<int, 5> targets{};
    for (int i = 0; i < 5; ++i) targets[static_cast<std::size_t>(i)] = kFirst + i;
    std::ranges::shuffle(targets, random);
    std::vector<DescriptorMove> moves;
    for (const int target : targets) {
      const int from = static_cast<int>(random() % 9);
      moves.push_back({from == 8 ? -1 : kFirst + from, target});
    }
    check_moves(moves);
  }
}

TEST_CASE("moving a descriptor that is not open is an error") {
  std::array moves = {DescriptorMove{kFirst, kFirst + 1}};
  CHECK(move_descriptors(moves) == EBADF);
}
