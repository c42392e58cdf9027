// ddp_torch_reader FILE PAGE RING [FILE PAGE RING...] reads PyTorch's flight recorders in each worker of this node
// about once per second, and more often for a moment after a worker has ended. It writes the recorded calls to the
// worker's status page and to its record ring. It is a separate program, because it reads data of the workers, which
// may contain anything. Data that make it fail or hang do not harm the job.
//
// FILE.groups is written by code in the worker's Python, and FILE.sock is the server there. Both may appear later. When
// the worker's program ends, it writes the last answers to FILE.gloo and FILE.nccl. When it crashes, Python writes its
// stacks to the pipe FILE.crash; this program then reads the last calls before it reads the stacks, which it writes to
// FILE.stacks. The page can be opened at PAGE, and the ring at RING, which is empty if there is none. The program runs
// until it is killed.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"
#include "torch_reader/call_times.h"
#include "torch_reader/nccl_recorder.h"
#include "torch_reader/page_writer.h"
#include "torch_reader/recording.h"
#include "torch_reader/ring_writer.h"
#include "torch_reader/worker_ends.h"

namespace {

using Clock = std::chrono::steady_clock;
using ddp::torch_reader::RecordedGroup;
using ddp::torch_reader::Recorder;
using ddp::torch_reader::WorkerLines;
using ddp::wire::StatusPageLayout;

// The interval is at most doubled if an answer takes long, because samples older than limits::kLatestSample are
// ignored.
constexpr std::chrono::milliseconds kInterval{1000};
constexpr std::chrono::milliseconds kLongestInterval{2000};
constexpr int kShare = 50;
// What the library in a worker has noted is in memory, and costs next to nothing.
constexpr std::chrono::milliseconds kTimesInterval{20};
// When a worker has ended, the launcher may wait for two seconds whether others show why.
constexpr std::chrono::milliseconds kMoment{2000};
constexpr std::chrono::milliseconds kIntervalInMoment{100};
constexpr std::chrono::milliseconds kLatest{2000};

StatusPageLayout* map_page(const char* path) {
  const ddp::base::UniqueFd file(::open(path, O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || status.st_size != sizeof(StatusPageLayout)) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* page = static_cast<StatusPageLayout*>(memory);
  return page->magic == ddp::wire::kPageMagic && page->version == ddp::wire::kPageVersion ? page : nullptr;
}

// Another program may run between the readings of the two clocks, so the closest of a few pairs counts.
ddp::torch_reader::Moment now() {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  const auto count = [](auto time) {
    return static_cast<std::uint64_t>(duration_cast<nanoseconds>(time.time_since_epoch()).count());
  };
  constexpr int kPairs = 5;
  constexpr std::uint64_t kClose = 2'000;  // nanoseconds
  ddp::torch_reader::Moment best;
  std::uint64_t least = UINT64_MAX;
  for (int i = 0; i < kPairs && least > kClose; ++i) {
    const std::uint64_t before = count(Clock::now());
    const std::uint64_t realtime = count(std::chrono::system_clock::now());
    const std::uint64_t after = count(Clock::now());
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, realtime};
  }
  return best;
}

// These functions query the server that PyTorch runs in a worker (torch._C._distributed_c10d._WorkerServer), on a Unix
// socket.

struct Answer {
  int status = 0;  // of HTTP; 404 if this PyTorch has no such handler
  std::string body;
};

// For comparison, 2000 calls take one million bytes.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// The server ends an answer by closing the connection.
std::optional<Answer> answer_of(std::string text) {
  constexpr std::string_view kHttp = "HTTP/1.1 ";
  const std::size_t end = text.find("\r\n\r\n");
  Answer answer;
  const char* const number = text.data() + std::min(kHttp.size(), text.size());
  std::from_chars(number, text.data() + text.size(), answer.status);
  if (end == std::string::npos || answer.status == 0) return std::nullopt;
  text.erase(0, end + 4);
  answer.body = std::move(text);
  return answer;
}

// Returns the answer to a POST. `handler` is the name of a handler, which may be followed by parameters
// ("name?key=value"). Returns std::nullopt if there is no answer within `time`. The call blocks.
std::optional<Answer> post(const std::string& socket_path, const std::string& handler, std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  const ddp::base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return std::nullopt;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return std::nullopt;
  }
  const std::string request =
      "POST /handler/" + handler + " HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    return std::nullopt;
  }
  std::string answer;
  std::array<char, 65536> bytes;
  while (answer.size() < kMostBytes) {
    if (ddp::base::poll_until(socket.get(), POLLIN, until) <= 0) return std::nullopt;
    const ssize_t length = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (length == 0) return answer_of(std::move(answer));
    if (length < 0 && errno != EAGAIN && errno != EINTR) return std::nullopt;
    if (length > 0) answer.append(bytes.data(), static_cast<std::size_t>(length));
  }
  return std::nullopt;
}

class Worker {
 public:
  Worker(std::string file, StatusPageLayout* page, const char* ring)
      : file_(std::move(file)), page_(page), ring_(ring), crash_(file_ + ".crash", file_ + ".stacks") {}

  Clock::time_point next() const { return next_; }
  int pid() const { return pid_; }  // 0 if it is not known yet
  int crash_descriptor() const { return crash_.descriptor(); }

  // The worker ends when its stacks have been read, so it is asked before that. It may also be a child of the worker
  // that crashes.
  void read_crash() {
    update();
    crash_.take();
  }

  // Looks no later than then, unless the worker has ended.
  void update_by(Clock::time_point time) {
    if (!has_ended_) next_ = std::min(next_, time);
  }

  void update() {
    const auto begun = Clock::now();
    next_ = begun + kInterval;
    const auto lines = ddp::torch_reader::read_lines(ddp::base::read_file(file_ + ".groups"));
    pid_ = lines.pid;
    if (lines.pid == 0 || lines.groups.empty()) return;
    if (lines.times >= 0) times_.open("/proc/" + std::to_string(lines.pid) + "/fd/" + std::to_string(lines.times));
    has_ended_ = lines.has_ended;
    // The time is taken before the query; the next query reports later events.
    const auto moment = now();
    std::vector<RecordedGroup> groups = merge(groups_of_gloo(lines), groups_of_nccl(lines));
    next_ = begun + std::clamp<Clock::duration>(kShare * (Clock::now() - begun), kInterval, kLongestInterval);
    if (has_ended_) next_ = Clock::time_point::max();
    if (groups.empty()) return;
    if (!write_to_page(*page_, lines.pid, groups, moment, has_ended_)) return;
    shown_.clear();
    for (const RecordedGroup& group : groups) shown_.push_back(group.identity);
    page_->other_progress.store(nccl_.completions(), ddp::wire::kRelaxed);
    ring_.write(*page_, lines.pid, groups, moment);
  }

  // Shows what the library in the worker has noted since then. Returns whether it can note anything.
  bool read_times() {
    if (has_ended_ || shown_.empty() || !times_.read()) return false;
    const auto moment = now();
    for (const std::uint64_t identity : shown_) {
      const auto counters = times_.counters_of(identity);
      if (!counters) continue;
      const ddp::torch_reader::RecordedCall call{.sequence = counters->called, .made_at = counters->called_at};
      write_counters(*page_, identity, call, counters->finished, moment);
    }
    return true;
  }

 private:
  // Returns null if the worker holds a lock on the file. A file system may have no locks.
  ddp::base::UniqueFd lock(const char* ending, int kind) const {
    ddp::base::UniqueFd file(::open((file_ + ending).c_str(), O_RDONLY | O_CLOEXEC));
    if (file && ::flock(file.get(), kind | LOCK_NB) != 0 && errno == EWOULDBLOCK) file.reset();
    return file;
  }

  // Returns an empty string if there is no answer. A handler that this PyTorch does not have, or not with these
  // parameters, is not asked again.
  std::string ask(const std::string& handler, bool& is_there) const {
    // A process that ends holds this lock, and must not be asked any more.
    const ddp::base::UniqueFd held = lock(".groups", LOCK_SH);
    if (!held) return "";
    auto answer = post(file_ + ".sock", handler, kLatest);
    if (!answer) return "";
    is_there = answer->status != 404 && answer->status != 400;
    return answer->status == 200 ? std::move(answer->body) : "";
  }

  // The answer queries the GPU. A process that captures a CUDA graph holds this lock, because a query would spoil the
  // capture.
  std::string ask_for_calls_of_nccl() {
    const ddp::base::UniqueFd held = lock(".captures", LOCK_EX);
    return held ? ask("dump_nccl_trace_json?includecollectives=true", has_nccl_) : "";
  }

  std::string last_answer(const char* ending) const { return ddp::base::read_file(file_ + ending); }

  std::vector<RecordedGroup> groups_of_gloo(const WorkerLines& lines) {
    const bool concerns =
        std::ranges::any_of(lines.groups, [](const auto& line) { return may_use(line, Recorder::gloo); });
    if (!concerns || !lines.has_gloo || !has_gloo_) return {};
    const std::string text = has_ended_ ? last_answer(".gloo") : ask("fr_trace_json", has_gloo_);
    auto groups = read_recording(text, lines, Recorder::gloo);
    if (!groups) return {};
    times_.add_to(groups.value());
    return std::move(groups).value();
  }

  std::vector<RecordedGroup> groups_of_nccl(const WorkerLines& lines) {
    const bool concerns =
        std::ranges::any_of(lines.groups, [](const auto& line) { return may_use(line, Recorder::nccl); });
    if (!concerns || !lines.has_nccl || !has_nccl_) return {};
    const std::string status =
        has_ended_ ? last_answer(".nccl") : ask("dump_nccl_trace_json?includecollectives=false", has_nccl_);
    const auto statuses = ddp::torch_reader::read_statuses(status);
    if (!statuses) return {};
    const bool is_due = nccl_.add_status(statuses.value(), lines, Clock::now());
    if (has_ended_ || is_due) {
      const std::string text = has_ended_ ? status : ask_for_calls_of_nccl();
      const auto groups = read_recording(text, lines, Recorder::nccl);
      const auto then = ddp::torch_reader::read_statuses(text);
      if (!groups || !then) return nccl_.groups(lines);
      // The last status may be without calls. Then the older ones are used.
      const bool has_calls = std::ranges::any_of(groups.value(), [](const auto& one) { return one.called > 0; });
      if (has_calls || !has_ended_) nccl_.add_entries(groups.value(), then.value(), lines, Clock::now());
    }
    return nccl_.groups(lines);
  }

  std::string file_;
  StatusPageLayout* page_;
  ddp::torch_reader::RingWriter ring_;
  ddp::torch_reader::CallTimes times_;
  ddp::torch_reader::NcclRecorder nccl_;
  ddp::torch_reader::CrashPipe crash_;
  std::vector<std::uint64_t> shown_;  // identities of the groups on the page
  bool has_gloo_ = true;
  bool has_nccl_ = true;
  bool has_ended_ = false;  // the worker's program has ended
  int pid_ = 0;
  Clock::time_point next_{};
};

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  std::vector<Worker> workers;
  for (std::size_t i = 1; i + 2 < arguments.size(); i += 3) {
    StatusPageLayout* page = map_page(arguments[i + 1]);
    if (page != nullptr) workers.emplace_back(arguments[i], page, arguments[i + 2]);
  }
  if (workers.empty()) {
    std::cerr << "ddp_torch_reader: cannot open a status page\n";
    return EXIT_FAILURE;
  }
  std::vector<int> crashes;
  std::ranges::transform(workers, std::back_inserter(crashes), &Worker::crash_descriptor);
  ddp::torch_reader::WorkerEnds ends;
  Clock::time_point moment_ends{};
  while (true) {
    for (Worker& worker : workers) {
      if (Clock::now() < worker.next()) continue;
      worker.update();
      if (worker.pid() != 0) ends.follow(worker.pid());
      if (Clock::now() < moment_ends) worker.update_by(Clock::now() + kIntervalInMoment);
    }
    auto next = std::min(std::ranges::min_element(workers, {}, &Worker::next)->next(), Clock::now() + kInterval);
    for (Worker& worker : workers) {
      if (worker.read_times()) next = std::min(next, Clock::now() + kTimesInterval);
    }
    const bool one_has_ended = ends.wait_until(next, crashes);
    for (Worker& worker : workers) {
      if (ddp::base::poll_until(worker.crash_descriptor(), POLLIN, Clock::now()) > 0) worker.read_crash();
    }
    if (!one_has_ended) continue;
    moment_ends = Clock::now() + kMoment;
    for (Worker& worker : workers) worker.update_by(Clock::now());
  }
}
