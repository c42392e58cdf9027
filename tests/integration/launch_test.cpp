// Tests the launcher as a user runs it, with whole processes and real signals.
#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "support/catch.h"
#include "support/run_command.h"
#include "support/temporary_directory.h"

namespace {

CommandResult launch(std::vector<std::string> words, const std::map<std::string, std::string>& environment = {}) {
  words.insert(words.begin(), built("ddplaunch"));
  return run_command(std::move(words), environment);
}

std::vector<std::string> shell(const std::string& workers, const std::string& script) {
  return {"--nproc-per-node=" + workers, "--tag=", "--no-collapse", "sh", "-c", script};
}

bool is_gone(pid_t pid) {
  for (int i = 0; i < 60000; ++i) {
    if (::kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::size_t count_entries(const std::string& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("ddplaunch exits with the exit code of the failing rank") {
  const CommandResult result = launch({"--nproc_per_node=2", "sh", "-c", "exit 3"});
  CHECK(result.exit_code == 3);
  CHECK(result.err.find("failed: exit code 3") != std::string::npos);
}

TEST_CASE("a rank killed by SIGSEGV gives exit code 139 and a message with its rank, pid and signal") {
  const CommandResult result = launch(shell("2", "[ $RANK = 1 ] && echo $$ && kill -SEGV $$; sleep 1000"));
  CHECK(result.exit_code == 139);
  const std::string pid = result.out.substr(0, result.out.find('\n'));
  CHECK(result.err.find("rank 1 (pid " + pid + ") failed: killed by SIGSEGV") != std::string::npos);
  CHECK(result.err.find("rank 0 was terminated because of it (SIGTERM") != std::string::npos);
}

TEST_CASE("the option --inject kills or delays a rank of a program without the runtime after the given time") {
  const CommandResult killed = launch({"--nproc-per-node=2", "--inject=rank=1,at=100ms,kind=kill", "sleep", "1000"});
  CHECK(killed.exit_code == 137);
  CHECK(killed.err.find("ddplaunch kills rank 1 (--inject)\n") != std::string::npos);
  CHECK(killed.err.find(") failed: killed by SIGKILL") != std::string::npos);
  const CommandResult delayed =
      launch({"--nproc-per-node=2", "--inject=rank=0,at=0.1s,kind=delay=200ms", "sleep", "1"});
  CHECK(delayed.exit_code == 0);
  const std::size_t stops = delayed.err.find("ddplaunch stops rank 0 (--inject)\n");
  CHECK(delayed.err.find("ddplaunch continues rank 0 (--inject)\n", stops) != std::string::npos);
  CHECK(launch({"--inject=rank=0,at=1s,kind=spin", "true"}).exit_code == 2);
}

TEST_CASE("workers that never exit are terminated when another worker fails") {
  const TemporaryDirectory directory;
  const std::string script = "cd " + directory.path() +
                             "; echo $$; touch $RANK; [ $RANK = 3 ] || exec sleep 1000;"
                             "while [ $(ls | wc -l) -lt 4 ]; do sleep 0.01; done; exit 9";
  const CommandResult result = launch(shell("4", script));
  CHECK(result.exit_code == 9);
  std::istringstream pids(result.out);
  int count = 0;
  for (pid_t pid = 0; pids >> pid; ++count) CHECK(is_gone(pid));
  CHECK(count == 4);
}

TEST_CASE("a worker that ignores SIGTERM is killed after the grace period") {
  const TemporaryDirectory directory;
  const std::string script = "cd " + directory.path() +
                             "; if [ $RANK = 0 ]; then trap '' TERM; touch deaf; while :; do sleep 0.05; done; fi;"
                             "until [ -e deaf ]; do sleep 0.01; done; exit 4";
  const CommandResult result = launch({"--grace=0.2", "--nproc-per-node=2", "sh", "-c", script});
  CHECK(result.exit_code == 4);
  CHECK(result.err.find("rank 0 was terminated because of it (SIGTERM, then SIGKILL after the grace") !=
        std::string::npos);
}

TEST_CASE("a program that runs inside a shell gets the grace period too") {
  const TemporaryDirectory directory;
  // SIGTERM ends the shell immediately. The program that it waits for saves first.
  const std::string inner = "trap \"sleep 0.3; echo saved > " + directory.path() +
                            "/saved; exit 0\" TERM; echo ready > " + directory.path() +
                            "/ready; while :; do sleep 0.01; done";
  const CommandResult result = launch({"--nproc-per-node=2", "sh", "-c",
                                       "if [ $RANK = 0 ]; then sh -c '" + inner + "'; true; else while [ ! -f " +
                                           directory.path() + "/ready ]; do sleep 0.01; done; exit 6; fi"});
  INFO(result.err);
  CHECK(result.exit_code == 6);
  CHECK(std::filesystem::exists(directory.path() + "/saved"));
}

TEST_CASE("running out of file descriptors is reported and ends the job") {
  const CommandResult result =
      run_command({"sh", "-c", "ulimit -n 40; exec \"$0\" --nproc-per-node=60 sleep 1000", built("ddplaunch")});
  CHECK(result.exit_code == 125);
  CHECK(result.err.find("ulimit -n") != std::string::npos);
}

TEST_CASE("arguments reach the program unchanged") {
  const CommandResult result = launch({"-q", "printf", "%s|", "[1,2]", "[]", "{}", "a b", "", "--nproc-per-node=9"});
  CHECK(result.out == "[1,2]|[]|{}|a b||--nproc-per-node=9|");
}

TEST_CASE("the launcher reaps children from before its exec and does not count them as workers") {
  const CommandResult result =
      run_command({"sh", "-c", "sleep 0.1 & exec \"$0\" -q sh -c '(sleep 0.2 &) ; sleep 0.4'", built("ddplaunch")});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("a successful job exits with 0, and --quiet prints nothing") {
  const CommandResult loud = launch(shell("3", "exit 0"));
  CHECK(loud.exit_code == 0);
  CHECK(loud.err.find("3 workers on node") != std::string::npos);
  const CommandResult quiet = launch({"-q", "--nproc-per-node=3", "true"});
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.err.empty());
}

TEST_CASE("each rank gets its own rank numbers and the same store address") {
  const CommandResult result = launch(shell("3", "echo $RANK/$WORLD_SIZE/$LOCAL_RANK $MASTER_ADDR:$MASTER_PORT"));
  std::istringstream lines(result.out);
  std::set<std::string> ranks;
  std::set<std::string> stores;
  for (std::string rank, store; lines >> rank >> store;) {
    ranks.insert(rank);
    stores.insert(store);
  }
  CHECK(ranks == std::set<std::string>{"0/3/0", "1/3/1", "2/3/2"});
  CHECK(stores.size() == 1);
}

TEST_CASE("mistakes on the command line exit with 2 and suggest what was meant") {
  const CommandResult unknown = launch({"--nproc-per-nod=2", "true"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("Did you mean --nproc-per-node?") != std::string::npos);
  CHECK(launch({}).exit_code == 2);
  CHECK(launch({"--nproc-per-node=none", "true"}).exit_code == 2);
}

TEST_CASE("the options --help and --version print to standard output and exit with 0") {
  CHECK(launch({"--help"}).exit_code == 0);
  CHECK(launch({"--help"}).out.find("Usage: ddplaunch [options] program") != std::string::npos);
  CHECK(launch({"--version"}).out.starts_with("ddplaunch 0."));
}

TEST_CASE("a program that cannot be started gives the exit code that a shell would give") {
  CHECK(launch({"./no-such-program"}).exit_code == 127);
  CHECK(launch({"/etc/passwd"}).exit_code == 126);
  CHECK(launch({"/tmp"}).exit_code == 126);
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/script") << "#!/no/such/interpreter\n";
  std::filesystem::permissions(directory.path() + "/script", std::filesystem::perms::owner_all);
  const CommandResult result = launch({"--nproc-per-node=2", directory.path() + "/script"});
  CHECK(result.exit_code == 127);
  CHECK(result.err.find("interpreter") != std::string::npos);
}

TEST_CASE("SIGINT and SIGTERM end the job with 130 and 143") {
  for (const int signal : {SIGINT, SIGTERM}) {
    Command command({built("ddplaunch"), "--nproc-per-node=2", "sh", "-c", "echo ready$RANK; exec sleep 1000"});
    command.start();
    REQUIRE(command.wait_for_output("ready0"));
    REQUIRE(command.wait_for_output("ready1"));
    ::kill(command.pid(), signal);
    const CommandResult result = command.wait();
    CHECK(result.exit_code == 128 + signal);
    CHECK(result.err.find(signal == SIGINT ? "terminated by SIGINT" : "terminated by SIGTERM") != std::string::npos);
  }
}

TEST_CASE("a second SIGINT kills the workers without waiting for the grace period") {
  Command command({built("ddplaunch"), "--grace=1000", "sh", "-c",
                   "trap 'echo asked' INT; echo ready; while :; do sleep 0.01; done"});
  command.start();
  REQUIRE(command.wait_for_output("ready"));
  ::kill(command.pid(), SIGINT);
  REQUIRE(command.wait_for_output("asked"));
  // Signals close together count as one, so the signal is repeated until it counts as a second request.
  std::thread impatient([pid = command.pid()] {
    for (int i = 0; i < 20 && ::kill(pid, SIGINT) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  const CommandResult result = command.wait();
  impatient.join();
  CHECK(result.exit_code == 130);
  CHECK(result.elapsed < std::chrono::seconds(60));
}

TEST_CASE("SIGUSR1 is passed on to the workers and the job continues") {
  Command command({built("ddplaunch"), "--nproc-per-node=1", "sh", "-c",
                   "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.01; done"});
  command.start();
  REQUIRE(command.wait_for_output("ready"));
  ::kill(command.pid(), SIGUSR1);
  const CommandResult result = command.wait();
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("got") != std::string::npos);
}

TEST_CASE("workers die when the launcher is killed") {
  Command command({built("ddplaunch"), "--nproc-per-node=2", "sh", "-c", "echo pid $$ .; exec sleep 1000"});
  command.start();
  REQUIRE(command.wait_for_output(".\n"));
  // Waits for both lines, because the second one may come a little later.
  REQUIRE(command.wait_for_output("."));
  ::kill(command.pid(), SIGKILL);
  const CommandResult result = command.wait();
  CHECK(result.exit_code == 137);
  std::istringstream words(result.out);
  std::string word;
  for (pid_t pid = 0; words >> word >> pid >> word;) CHECK(is_gone(pid));
}

TEST_CASE("a worker's error file is quoted and no temporary files remain") {
  const TemporaryDirectory directory;
  const CommandResult result =
      launch(shell("2",
                   "[ $RANK = 0 ] && sleep 1000; echo '{\"message\":{\"message\":\"ValueError: bad batch 17\"}}' > "
                   "$TORCHELASTIC_ERROR_FILE; exit 1"),
             {{"TMPDIR", directory.path()}});
  CHECK(result.exit_code == 1);
  CHECK(result.err.find("| ValueError: bad batch 17") != std::string::npos);
  CHECK(count_entries(directory.path()) == 0);
}

TEST_CASE("a child process that a worker left in its own session is killed when the job ends") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/pid";
  const CommandResult result =
      launch(shell("1", "setsid sh -c 'echo $$ > " + file + ".tmp; mv " + file + ".tmp " + file +
                            "; exec sleep 1000' & while [ ! -f " + file + " ]; do sleep 0.01; done; exit 0"));
  CHECK(result.exit_code == 0);
  pid_t orphan = 0;
  std::ifstream(file) >> orphan;
  REQUIRE(orphan > 1);
  CHECK(is_gone(orphan));
}

TEST_CASE("the option --dry-run prints the plan and starts nothing") {
  const CommandResult result = launch({"--dry-run", "--nproc-per-node=2", "touch", "/no/such/directory/file"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("workers      2") != std::string::npos);
  CHECK(result.err.empty());
}

TEST_CASE("thirty-two launches at once get different ports") {
  std::vector<std::unique_ptr<Command>> commands;
  for (int i = 0; i < 32; ++i) {
    commands.push_back(std::make_unique<Command>(
        std::vector<std::string>{built("ddplaunch"), "-q", "--nproc-per-node=2", "sh", "-c", "echo $MASTER_PORT"}));
    commands.back()->start();
  }
  for (const auto& command : commands) CHECK(command->wait().exit_code == 0);
}
