#include "launcher/run/output/output_followers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "launcher/limits.h"
#include "launcher/run/output/stream_tail.h"

namespace ddp::launcher {
namespace {

constexpr auto kFilePause = std::chrono::milliseconds(500);
constexpr std::size_t kFileChunk = std::size_t{64} << 10;  // most bytes of a file in one turn
constexpr std::size_t kAllLines = kFileChunk;

std::uint64_t size_of(const std::string& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

struct OutputFollowers::Follower {
  // Holds what is known of stdout or stderr.
  struct Stream {
    std::string unfinished;    // the beginning of a line
    std::uint64_t offset = 0;  // in its file, if the worker writes to a file directly
  };

  // Passes on the lines that are complete, and a line that is too long to be kept.
  void take(int which, std::string_view bytes) {
    std::string& text = streams.at(static_cast<std::size_t>(which)).unfinished;
    text += bytes;
    const std::size_t end = text.size() > limits::kLineBytes ? text.size() : text.rfind('\n') + 1;
    if (end == 0) return;
    const std::string complete = text.substr(0, end);
    text.erase(0, end);
    for (const std::string& line : last_lines_of(complete, false, kAllLines, limits::kViewRequestBytes)) {
      if (!is_over) sink(line);
    }
  }

  int local_rank = 0;
  Sink sink;
  bool is_over = false;  // the watch was destroyed
  std::array<Stream, 2> streams;
};

OutputFollowers::OutputFollowers(net::EventLoop& loop, OutputPump& pump) : loop_(loop), pump_(pump) {
  pump_.on_bytes = [this](int local_rank, int which, std::string_view bytes) { take(local_rank, which, bytes); };
}

OutputFollowers::~OutputFollowers() {
  pump_.on_bytes = nullptr;
}

std::unique_ptr<net::Watch> OutputFollowers::follow(int local_rank, Sink sink) {
  struct FollowingWatch : net::Watch {
    explicit FollowingWatch(std::shared_ptr<Follower> followed) : follower(std::move(followed)) {}
    ~FollowingWatch() override { follower->is_over = true; }
    const std::shared_ptr<Follower> follower;
  };
  auto follower = std::make_shared<Follower>();
  follower->local_rank = local_rank;
  follower->sink = std::move(sink);
  bool has_file = false;
  for (const int which : {kStdout, kStderr}) {
    const std::string file = pump_.direct_file(local_rank, which);
    if (file.empty()) continue;
    has_file = true;
    follower->streams.at(static_cast<std::size_t>(which)).offset = size_of(file);
  }
  for (const std::string& line : pump_.last_lines(local_rank)) follower->sink(line);
  followers_.push_back(follower);
  if (has_file && !timer_) arm();
  return std::make_unique<FollowingWatch>(std::move(follower));
}

void OutputFollowers::take(int local_rank, int which, std::string_view bytes) {
  if (followers_.empty()) return;
  std::erase_if(followers_, [](const auto& follower) { return follower.expired(); });
  for (const auto& each : std::vector(followers_)) {
    const auto follower = each.lock();
    if (follower && follower->local_rank == local_rank) follower->take(which, bytes);
  }
}

void OutputFollowers::arm() {
  timer_ = loop_.at(std::chrono::steady_clock::now() + kFilePause, [this] {
    const auto spent = std::move(timer_);
    std::erase_if(followers_, [](const auto& follower) { return follower.expired(); });
    if (followers_.empty()) return;
    read_files();
    arm();
  });
}

void OutputFollowers::read_files() {
  std::string bytes(kFileChunk, '\0');
  for (const auto& each : std::vector(followers_)) {
    const auto follower = each.lock();
    for (const int which : {kStdout, kStderr}) {
      const std::string file = follower ? pump_.direct_file(follower->local_rank, which) : "";
      if (file.empty()) continue;
      std::uint64_t& offset = follower->streams.at(static_cast<std::size_t>(which)).offset;
      const std::uint64_t size = size_of(file);
      if (size < offset) offset = 0;  // a new attempt has a new file
      if (size == offset) continue;
      const base::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      const ssize_t count = ::pread(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count <= 0) continue;
      offset += static_cast<std::uint64_t>(count);
      follower->take(which, {bytes.data(), static_cast<std::size_t>(count)});
    }
  }
}

}  // namespace ddp::launcher
