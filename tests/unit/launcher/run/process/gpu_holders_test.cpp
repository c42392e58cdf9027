#include "launcher/run/process/gpu_holders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Makes a folder that looks like /proc.
class Processes {
 public:
  Processes& has_open(pid_t pid, const std::string& file) {
    const std::filesystem::path folder = path() / std::to_string(pid) / "fd";
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(file, folder / std::to_string(next_++));
    return *this;
  }
  std::filesystem::path path() const { return directory_.path(); }
  OpenFileSearch search(const std::string& file) const {
    return find_processes_with(file, directory_.path(), ddp::test::soon());
  }

 private:
  TemporaryDirectory directory_;
  int next_ = 0;
};

std::string script(const TemporaryDirectory& folder, const std::string& text) {
  const std::string path = std::string(folder.path()) + "/program";
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  ::chmod(path.c_str(), 0755);
  return path;
}

}  // namespace

TEST_CASE("processes that have a device file open are found") {
  Processes processes;
  processes.has_open(12, "/dev/null").has_open(12, "/dev/nvidia1").has_open(7, "/dev/nvidia1");
  processes.has_open(8, "/dev/nvidia10").has_open(9, "/dev/nvidiactl");
  std::filesystem::create_directories(processes.path() / "13");  // it has ended meanwhile
  std::filesystem::create_directories(processes.path() / "self/fd");
  CHECK(processes.search("/dev/nvidia1").pids == std::vector<pid_t>{7, 12});
  CHECK_FALSE(processes.search("/dev/nvidia1").is_partial);
  CHECK(processes.search("/dev/nvidia2").pids.empty());
}

TEST_CASE("a search that runs out of time reports that it is incomplete") {
  Processes processes;
  processes.has_open(7, "/dev/nvidia1");
  const OpenFileSearch search =
      find_processes_with("/dev/nvidia1", processes.path(), std::chrono::steady_clock::now() - 1s);
  CHECK(search.pids.empty());
  CHECK(search.is_partial);
}

TEST_CASE("this process is found by a file that it has open") {
  const TemporaryDirectory folder;
  const std::string path = std::string(folder.path()) + "/device";
  const std::ofstream file(path);
  CHECK(find_processes_with(path, "/proc", ddp::test::soon()).pids == std::vector<pid_t>{::getpid()});
}

TEST_CASE("the first line of a program is returned without waiting for its exit") {
  const TemporaryDirectory folder;
  CHECK(first_line_of(script(folder, "echo one; echo two; sleep 1000"), ddp::test::soon()) == "one");
}

TEST_CASE("a program that prints no line in time is killed") {
  const TemporaryDirectory folder;
  const auto soon = std::chrono::steady_clock::now() + 300ms;
  CHECK_FALSE(first_line_of(script(folder, "printf half; exec sleep 1000"), soon).has_value());
  CHECK_FALSE(first_line_of(script(folder, "exit 1"), ddp::test::soon()).has_value());
  CHECK_FALSE(first_line_of(std::string(folder.path()) + "/nothing", ddp::test::soon()).has_value());
}
