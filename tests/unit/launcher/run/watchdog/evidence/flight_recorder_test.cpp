#include "launcher/run/watchdog/evidence/flight_recorder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void make_pipe(const std::string& path) {
  REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
}

// Simulates a rank of PyTorch. It makes its pipe, and calls the action once the pipe is written to.
class Rank {
 public:
  using Action = std::function<void(const std::atomic<bool>& is_over)>;

  Rank(const std::string& pipe, Action action) {
    make_pipe(pipe);
    pipe_ = base::UniqueFd(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    REQUIRE(pipe_);
    thread_ = std::thread([this, action = std::move(action)] { listen(action); });
  }
  ~Rank() {
    is_over_ = true;
    thread_.join();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

 private:
  void listen(const Action& action) {
    std::array<char, 128> buffer;
    while (!is_over_) {
      pollfd entry{pipe_.get(), POLLIN, 0};
      ::poll(&entry, 1, 5);
      if (::read(pipe_.get(), buffer.data(), buffer.size()) > 0) return action(is_over_);
    }
  }

  std::atomic<bool> is_over_ = false;
  base::UniqueFd pipe_;
  std::thread thread_;
};

struct Job {
  TemporaryDirectory directory;
  std::string pipes = directory.path() + "/pipe_";
  std::string stem = directory.path() + "/trace_";
  FlightRecorders recorders{pipes, {stem}};
  std::vector<std::unique_ptr<Rank>> ranks;

  std::string pipe(int rank) const { return pipes + std::to_string(rank) + ".pipe"; }
  std::string file(int rank) const { return stem + std::to_string(rank); }
  void starts(int rank, Rank::Action action) { ranks.push_back(std::make_unique<Rank>(pipe(rank), std::move(action))); }
  void starts_writer(int rank, const std::string& text) {
    starts(rank, [path = file(rank), text](const std::atomic<bool>&) { write_file(path, text); });
  }
  EvidenceSource is_asked(const std::vector<int>& who, net::Deadline deadline,
                          const std::function<void()>& pause = {}) const {
    return ask_flight_recorders(recorders, who, deadline, pause);
  }
};

net::Deadline after(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

}  // namespace

TEST_CASE("the flight recorder of each rank is triggered, and its file is awaited") {
  Job job;
  for (int rank = 0; rank < 4; ++rank) job.starts_writer(rank, std::string(static_cast<std::size_t>(rank) + 1, 'x'));
  const EvidenceSource source = job.is_asked({3, 0, 2, 1, 0}, test::soon());
  CHECK(source.name == "flight recorder");
  CHECK(source.text == "rank 0: " + job.file(0) + " (1 B)\nrank 1: " + job.file(1) + " (2 B)\nrank 2: " + job.file(2) +
                           " (3 B)\nrank 3: " + job.file(3) + " (4 B)\n");
  CHECK(source.essence == Lines{"files of ranks 0-3: " + job.stem + "<rank>"});
  CHECK(source.missing.empty());
}

TEST_CASE("ranks without a flight recorder are reported once together") {
  Job job;
  job.starts_writer(0, "record");
  make_pipe(job.pipe(3));  // no process reads this pipe
  const EvidenceSource source = job.is_asked({0, 1, 2, 3}, test::soon());
  CHECK(source.text == "rank 0: " + job.file(0) + " (6 B)\n");
  CHECK(source.essence == Lines{"files of rank 0: " + job.stem + "<rank>"});
  CHECK(source.missing ==
        Lines{"ranks 1, 2: no pipe " + job.pipes +
                  "<rank>.pipe (TORCH_NCCL_TRACE_BUFFER_SIZE is 0, no NCCL group yet, or the worker has exited)",
              "rank 3: no process reads " + job.pipes + "<rank>.pipe: the worker has exited or no longer records"});
  CHECK_FALSE(std::filesystem::exists(job.pipe(1)));
}

TEST_CASE("a file that is not a pipe is never written to") {
  Job job;
  write_file(job.pipe(0), "a file");
  std::filesystem::create_symlink(job.pipe(0), job.pipe(1));
  job.starts(2, [](const std::atomic<bool>&) {});
  std::filesystem::create_symlink(job.pipe(2), job.pipe(3));
  std::filesystem::create_directory(job.pipe(4));
  const EvidenceSource source = job.is_asked({0, 1, 3, 4}, test::soon());
  const std::string pipe = job.pipes + "<rank>.pipe";
  CHECK(source.missing == Lines{"rank 0: " + pipe + " is not a pipe",
                                "ranks 1, 3: " + pipe + " is a symbolic link, not a pipe",
                                "rank 4: cannot open the pipe " + pipe + ": Is a directory"});
  CHECK(base::read_file(job.pipe(0)) == "a file");
  CHECK(source.text.empty());
  CHECK(source.essence.empty());
}

TEST_CASE("a full pipe does not block the launcher") {
  Job job;
  make_pipe(job.pipe(0));
  const base::UniqueFd both(::open(job.pipe(0).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(both);
  std::array<char, 4096> bytes{};
  while (::write(both.get(), bytes.data(), bytes.size()) > 0) {
  }
  const EvidenceSource source = job.is_asked({0}, test::soon());
  CHECK(source.missing ==
        Lines{"rank 0: cannot write to the pipe " + job.pipes + "<rank>.pipe: Resource temporarily unavailable"});
}

TEST_CASE("a flight recorder that does not answer is given up at the deadline") {
  Job job;
  job.starts(0, [](const std::atomic<bool>&) {});
  job.starts(1, [path = job.file(1)](const std::atomic<bool>&) { write_file(path, ""); });
  job.starts(2, [path = job.file(2)](const std::atomic<bool>&) { std::filesystem::create_directory(path); });
  const EvidenceSource source = job.is_asked({0, 1, 2}, after(300ms));
  REQUIRE(source.missing.size() == 1);
  CHECK(source.missing[0].starts_with("ranks 0-2: was asked, but wrote no file in time ("));
  CHECK(source.essence.empty());
}

TEST_CASE("an expired deadline does not prevent the triggers") {
  Job job;
  job.starts_writer(0, "record");
  CHECK(job.is_asked({0}, after(-1s)).missing.size() == 1);
  CHECK(test::eventually([&] { return base::read_file(job.file(0)) == "record"; }));
}

TEST_CASE("a flight recorder file from before the trigger is ignored") {
  Job job;
  write_file(job.file(0), "old");
  write_file(job.file(1), "old");
  job.starts(0, [](const std::atomic<bool>&) {});
  job.starts_writer(1, "new record");
  CHECK(job.is_asked({1}, test::soon()).text == "rank 1: " + job.file(1) + " (10 B)\n");
  const EvidenceSource source = job.is_asked({0}, after(100ms));
  REQUIRE(source.missing.size() == 1);
  CHECK(source.missing[0].starts_with("rank 0: was asked, but wrote no file in time ("));
}

TEST_CASE("a flight recorder file with the same length as before is accepted") {
  Job job;
  write_file(job.file(0), "old record");
  std::filesystem::last_write_time(job.file(0), std::filesystem::file_time_type::clock::now() - 1h);
  job.starts_writer(0, "new record");
  const EvidenceSource source = job.is_asked({0}, test::soon());
  CHECK(source.missing.empty());
}

TEST_CASE("a flight recorder file that still grows at the deadline is ignored") {
  Job job;
  job.starts(0, [](const std::atomic<bool>&) {});
  const auto grow = [&] { std::ofstream(job.file(0), std::ios::binary | std::ios::app) << 'x'; };
  const EvidenceSource source = job.is_asked({0}, after(400ms), grow);
  CHECK(source.missing == Lines{"rank 0: did not finish writing " + job.stem + "<rank> in time"});
  CHECK(source.text.empty());
}

TEST_CASE("flight recorder files are found wherever PyTorch versions write them") {
  Job job;
  const std::string other = job.directory.path() + "/older_";
  job.recorders.stems.push_back(other);
  job.starts_writer(0, "record");
  job.starts(1, [path = other + "1"](const std::atomic<bool>&) { write_file(path, "record"); });
  const EvidenceSource source = job.is_asked({0, 1}, test::soon());
  CHECK(source.text == "rank 0: " + job.file(0) + " (6 B)\nrank 1: " + other + "1 (6 B)\n");
  CHECK(source.essence == Lines{"files of rank 0: " + job.stem + "<rank>, of rank 1: " + other + "<rank>"});
  CHECK(source.missing.empty());
}

TEST_CASE("a job without ranks has no missing flight recorders") {
  const Job job;
  CHECK(job.is_asked({}, test::soon()) == EvidenceSource{"flight recorder", "", {}, {}});
}

TEST_CASE("names of flight recorder files are escaped") {
  Job job;
  job.recorders.pipes = job.directory.path() + "/\x1b[2J";
  const EvidenceSource source = job.is_asked({0}, test::soon());
  REQUIRE(source.missing.size() == 1);
  CHECK(source.missing[0].starts_with("rank 0: no pipe " + job.directory.path() + "/\\x1b[2J<rank>.pipe ("));
}

TEST_CASE("a job without trigger pipes has no flight recorders") {
  CHECK_FALSE(find_flight_recorders({}));
  CHECK_FALSE(find_flight_recorders(Lines{"TORCH_FR_BUFFER_SIZE=2000", "TORCH_NCCL_DEBUG_INFO_PIPE_FILES=/tmp/p"}));
  CHECK_FALSE(find_flight_recorders(Lines{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE="}));
  CHECK_FALSE(find_flight_recorders(Lines{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "", "=", "HOME=/root"}));
}

TEST_CASE("flight recorder files are in the directory that the job's environment names") {
  const std::string pipe = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/p";
  const auto stems = [&](Lines environment) {
    environment.insert(environment.begin(), pipe);
    const auto found = find_flight_recorders(environment);
    REQUIRE(found);
    CHECK(found->pipes == "/tmp/p");
    return found->stems;
  };
  const std::string first = "TORCH_FR_DUMP_TEMP_FILE=";
  const std::string second = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=";
  const std::string old_default = "/tmp/nccl_trace_rank_";
  CHECK(stems({first + "/x/a_", "HOME=/root"}) == Lines{"/x/a_"});
  CHECK(stems({second + "/x/b_", "HOME=/root"}) == Lines{"/x/b_"});
  CHECK(stems({second + "/x/b_", first + "/x/a_"}) == Lines{"/x/a_", "/x/b_"});
  CHECK(stems({second + "/x/a_", first + "/x/a_"}) == Lines{"/x/a_"});
  CHECK(stems({"HOME=/root"}) == Lines{"/root/.cache/torch/comm_lib_trace_rank_", old_default});
  CHECK(stems({"XDG_CACHE_HOME=/c", "HOME=/root"}) ==
        Lines{"/c/torch/comm_lib_trace_rank_", "/root/.cache/torch/comm_lib_trace_rank_", old_default});
  CHECK(stems({}) == Lines{"/tmp/.cache/torch/comm_lib_trace_rank_", old_default});
}

TEST_CASE("the later of two equal variables says where flight recorder files are") {
  const auto found =
      find_flight_recorders(Lines{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/old", "TORCH_FR_DUMP_TEMP_FILE=/x/old_",
                                  "TORCH_FR_DUMP_TEMP_FILE=/x/new_=", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/new"});
  REQUIRE(found);
  CHECK(*found == FlightRecorders{"/tmp/new", {"/x/new_="}});
  CHECK_FALSE(
      find_flight_recorders(Lines{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/old", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE="}));
}
