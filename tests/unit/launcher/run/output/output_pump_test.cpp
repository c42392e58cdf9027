#include "launcher/run/output/output_pump.h"

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "support/catch.h"
#include "support/output_job.h"
#include "support/random_seed.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using ddp::base::UniqueFd;
using ddp::test::PipeConsole;
using std::chrono::steady_clock;
using Job = OutputJob;
using Lines = std::vector<std::string>;

namespace {

constexpr StreamPlan kConsole{true, false};
constexpr StreamPlan kTee{true, true};
constexpr StreamPlan kRedirect{false, true};

OutputPlan plan_of(int workers, StreamPlan stream) {
  OutputPlan plan;
  plan.workers.assign(static_cast<std::size_t>(workers), {stream, stream});
  plan.tag = "[${rank}] ";
  return plan;
}

}  // namespace

TEST_CASE("workers' lines are shown on the right console stream with their tags") {
  Job job(plan_of(2, kConsole));
  for (int rank = 0; rank < 2; ++rank) {
    job.start(rank, [rank] {
      put(1, "out " + std::to_string(rank) + "\n");
      put(2, "err " + std::to_string(rank) + "\n");
    });
    job.ends();
  }
  CHECK(job.shown() == "[0] out 0\n[1] out 1\n");
  CHECK(job.shown_on_stderr() == "[0] err 0\n[1] err 1\n");
}

TEST_CASE("log files equal the output of eight workers, and console lines are never mixed") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  constexpr int kWorkers = 8;
  std::vector<std::string> written;
  for (int rank = 0; rank < kWorkers; ++rank) {
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    std::string text;
    for (int i = 0; i < 20'000; ++i) {
      // The text has the rank's own letter, and bytes that are not text.
      const auto size = std::uniform_int_distribution<std::size_t>(0, i % 1000 == 0 ? 9000 : 60)(random);
      text.append(size, static_cast<char>('A' + rank));
      if (size % 3 == 0) text += std::string("\0\xff\xc3", 3);
      text += '\n';
    }
    if (rank == 3) text += std::string(10'000'000, 'D');
    if (rank % 2 == 1) text += static_cast<char>('A' + rank);  // the text has no newline at its end
    written.push_back(text);
  }
  OutputPlan plan = plan_of(kWorkers, kTee);
  plan.collapse = true;
  plan.lossless = true;
  Job job(plan);
  job.out.start_reading();
  for (int rank = 0; rank < kWorkers; ++rank) {
    job.start(rank, [&, rank] {
      std::mt19937 random(seed + 99 + static_cast<unsigned>(rank));
      std::string_view rest = written[static_cast<std::size_t>(rank)];
      while (!rest.empty()) {
        const auto size = std::uniform_int_distribution<std::size_t>(1, 20'000)(random);
        put(1, rest.substr(0, size));
        rest.remove_prefix(std::min(size, rest.size()));
      }
    });
  }
  job.ends();
  CHECK(job.pump->lost_lines().all == 0);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const bool same = text_of(job.file(rank, ".out")) == written[static_cast<std::size_t>(rank)];
    CHECK(same);
  }
  std::istringstream shown(job.shown());
  std::vector<std::size_t> letters(kWorkers);
  std::size_t broken = 0;
  for (std::string line; std::getline(shown, line);) {
    const std::size_t tag_end = line.find("] ");
    REQUIRE(tag_end != std::string::npos);
    const std::string text = line.substr(tag_end + 2);
    for (int rank = 0; rank < kWorkers; ++rank) {
      const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), static_cast<char>('A' + rank)));
      letters[static_cast<std::size_t>(rank)] += count;
      if (count > 0 && line.substr(1, tag_end - 1) != std::to_string(rank)) ++broken;
    }
  }
  CHECK(broken == 0);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const std::string& text = written[static_cast<std::size_t>(rank)];
    const auto count = std::count(text.begin(), text.end(), static_cast<char>('A' + rank));
    CHECK(letters[static_cast<std::size_t>(rank)] == static_cast<std::size_t>(count));
  }
}

TEST_CASE("an identical line of all ranks is shown once") {
  OutputPlan plan = plan_of(3, kConsole);
  plan.collapse = true;
  Job job(plan);
  std::vector<WorkerStreams> workers;
  for (int rank = 0; rank < 3; ++rank) workers.push_back(job.open(rank));
  for (const WorkerStreams& worker : workers) put(worker.out.get(), "hello\n");
  put(workers[1].out.get(), "alone\n");
  workers.clear();
  job.ends();
  CHECK(job.shown() == "[0-2] hello\n[1] alone\n");
}

TEST_CASE("a console without a reader does not block a worker, and lost lines are counted exactly") {
  Job job(plan_of(1, kTee), {100'000, 50ms, 10s, false});
  constexpr int kLines = 100'000;
  job.start(0, [] {
    for (int i = 0; i < kLines; ++i) put(1, "a line of about forty bytes, number " + std::to_string(i) + "\n");
  });
  const auto draining = job.ends();
  CHECK(draining < 10s);  // a console may take this long
  const std::int64_t lost = job.pump->lost_lines().all;
  CHECK(lost > 0);
  const std::string file = text_of(job.file(0, ".out"));
  CHECK(std::count(file.begin(), file.end(), '\n') == kLines);
  const std::string shown = job.shown();
  std::int64_t lines = 0;
  std::istringstream text(shown);
  for (std::string line; std::getline(text, line) && !text.eof();) lines += line.starts_with("[0] ") ? 1 : 0;
  CHECK(lines + lost == kLines);
}

TEST_CASE("a closed console is reported once, and log files continue") {
  Job job(plan_of(1, kTee));
  int closed = 0;
  job.pump->on_console_closed = [&] { ++closed; };
  job.out.close_reader();
  job.err.close_reader();
  job.start(0, [] {
    for (int i = 0; i < 1000; ++i) put(1, "line\n"), put(2, "line\n");
  });
  job.ends();
  CHECK(closed == 1);
  CHECK(text_of(job.file(0, ".out")).size() == 5000);
  CHECK(text_of(job.file(0, ".err")).size() == 5000);
  CHECK(job.pump->lost_lines().all == 0);
}

TEST_CASE("a full disk under a log file is reported once, and the console shows all output") {
  Job job(plan_of(1, {true, true}));
  auto streams = job.pump->open({0, 0}, {"/dev/full", job.file(0, ".err"), "", ""});
  REQUIRE(streams.ok());
  put(streams.value().out.get(), "a\n");
  job.runs_until([&] { return !job.notices.empty(); });
  put(streams.value().out.get(), "b\n");
  streams = WorkerStreams{};
  job.ends();
  CHECK(job.notices.size() == 1);
  CHECK(job.shown() == "[0] a\n[0] b\n");
}

TEST_CASE("a log file that cannot be created is an error that names it") {
  Job job(plan_of(1, kTee));
  const auto streams = job.pump->open({0, 0}, {"/no/such/folder/x.log", "/no/such/folder/y.log", "", ""});
  REQUIRE_FALSE(streams.ok());
  CHECK_THAT(streams.error().message, Catch::Contains("/no/such/folder/x.log"));
}

TEST_CASE("a worker whose output goes only to a file writes it directly, and its last lines are known") {
  Job job(plan_of(1, kRedirect));
  job.start(0, [] {
    put(1, "out\n");
    put(2, "first\nlast");
  });
  job.ends();
  CHECK(text_of(job.file(0, ".err")) == "first\nlast");
  CHECK(job.pump->last_lines(0) == Lines{"out", "first", "last"});
  CHECK(job.shown().empty());
}

TEST_CASE("the last lines of a worker are those of stderr, preceded by those of stdout") {
  Job job(plan_of(2, kConsole));
  job.start(0, [] {
    for (int i = 0; i < 30; ++i) put(1, "out " + std::to_string(i) + "\n");
    for (int i = 0; i < 18; ++i) put(2, "err " + std::to_string(i) + "\n");
    put(2, "\x1b[1mboom");
  });
  job.ends();
  const Lines lines = job.pump->last_lines(0);
  REQUIRE(lines.size() == 20);
  CHECK(lines[0] == "out 29");
  CHECK(lines[1] == "err 0");
  CHECK(lines[19] == "boom");
  CHECK(job.pump->last_lines(1).empty());
}

TEST_CASE("lines that match the filter of all workers go to one file") {
  OutputPlan plan = plan_of(2, kConsole);
  plan.stdout_filters = {"loss"};
  Job job(plan);
  for (int rank = 0; rank < 2; ++rank) {
    job.start(rank, [] { put(1, "noise\nloss 0.5\n"); });
    job.ends();
  }
  CHECK(text_of(job.logs.path() + "/filtered_stdout.log") == "[0] loss 0.5\n[1] loss 0.5\n");
  CHECK(job.shown() == "[0] noise\n[0] loss 0.5\n[1] noise\n[1] loss 0.5\n");
}

TEST_CASE("an unfinished line is shown after a pause, and later text continues it") {
  Job job(plan_of(2, kConsole));
  job.out.start_reading();
  WorkerStreams worker = job.open(0);
  put(worker.out.get(), "Name? ");
  job.runs_until([&] { return job.out.seen() == 10; });
  put(worker.out.get(), "Ada\n");
  job.runs_until([&] { return job.out.seen() == 14; });
  worker = {};
  job.ends();
  CHECK(job.shown() == "[0] Name? Ada\n");
}

TEST_CASE("an unfinished last line is shown with a newline") {
  Job job(plan_of(2, kConsole));
  job.start(0, [] { put(1, "whole\nhalf"); });
  job.ends();
  CHECK(job.shown() == "[0] whole\n[0] half\n");
}

TEST_CASE("a grandchild that holds the pipe open does not delay the end") {
  Job job(plan_of(1, kConsole));
  job.start(0, [] {
    put(1, "last words");
    if (::fork() == 0) ::sleep(60);
  });
  const auto draining = job.ends();
  CHECK(draining >= ddp::limits::kDrainQuiet);
  CHECK(draining < 30s);  // this is half of the grandchild's lifetime
  CHECK(job.shown() == "[0] last words\n");
}

TEST_CASE("a grandchild that keeps printing does not delay the end") {
  Job job(plan_of(1, kConsole));
  job.out.start_reading();
  job.start(0, [] {
    if (::fork() != 0) return;
    while (::write(1, "x\n", 2) == 2) ::usleep(1000);
  });
  for (const pid_t pid : job.pids) ::waitpid(pid, nullptr, 0);
  const auto begin = steady_clock::now();
  job.pump->drain(400ms);
  CHECK(steady_clock::now() - begin < 30s);
  job.pids.clear();
}

TEST_CASE("a worker's output is a terminal if the launcher's is") {
  int master_fd = -1;
  int slave_fd = -1;
  REQUIRE(::openpty(&master_fd, &slave_fd, nullptr, nullptr, nullptr) == 0);
  const UniqueFd master(master_fd);
  UniqueFd slave(slave_fd);
  {
    Job job(plan_of(1, kConsole), {}, slave.get());
    job.start(0, [] {
      put(1, ::isatty(1) == 1 && ::isatty(2) == 1 ? "terminal\n" : "no terminal\n");
      put(1, "10%\r");
    });
    job.ends();
  }
  slave.reset();
  std::string shown;  // it arrives in pieces
  std::array<char, 256> piece{};
  for (ssize_t got = 0; (got = ::read(master.get(), piece.data(), piece.size())) > 0;) {
    shown.append(piece.data(), static_cast<std::size_t>(got));
  }
  CHECK(shown == "[0] terminal\r\n[0] 10%\r\r\n");
}

TEST_CASE("lines of the launcher follow earlier worker output and never split a line") {
  PipeConsole both;
  {
    Job job(plan_of(2, kConsole), {}, both.fd());
    const WorkerStreams worker = job.open(0);
    put(worker.out.get(), "10%\r");
    put(worker.err.get(), "error\n");
    job.pump->before_own_line();
    put(both.fd(), "ddplaunch: rank 0 failed\n");
    put(worker.out.get(), "20%\r");
    job.pump->before_own_line();
    put(both.fd(), "other\n");
    put(worker.out.get(), "30%\n");
    job.pump->drain(1s);
  }
  CHECK(both.text() == "[0] 10%\r\n[0] error\nddplaunch: rank 0 failed\n[0] 20%\r\nother\n[0] 30%\n");
}

TEST_CASE("OutputPump opens a rank a second time and appends its output to the log file") {
  Job job(plan_of(1, kTee));
  WorkerStreams first = job.open(0);
  put(first.out.get(), "first");
  const WorkerStreams second = job.open(0);
  put(second.out.get(), "second\n");
  job.pump->drain(1s);
  CHECK(text_of(job.file(0, ".out")) == "firstsecond\n");
  CHECK(job.pump->last_lines(0) == Lines{"second"});
  CHECK(job.shown() == "[0] first\n[0] second\n");
}

TEST_CASE("one noisy worker does not starve other workers or the event loop") {
  OutputPlan plan = plan_of(2, kTee);
  Job job(plan);
  job.out.start_reading();
  const pid_t noisy = job.start(0, [] {
    const std::string block(65'536, 'x');
    while (true) put(1, block + "\n");
  });
  const WorkerStreams quiet = job.open(1);
  put(quiet.out.get(), "here\n");
  job.runs_until([&] { return text_of(job.file(1, ".out")) == "here\n"; });
  bool timer = false;
  const auto watch = job.loop.at(steady_clock::now(), [&] { timer = true; });
  job.loop.poll();
  ::kill(noisy, SIGKILL);
  job.runs_until([&] { return timer; });
}
