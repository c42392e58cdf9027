#include "torch_reader/worker_ends.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/uninterrupted.h"

namespace ddp::torch_reader {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOfText = std::size_t{256} << 10;  // a stack of 100 frames takes about 10 KiB
constexpr std::chrono::milliseconds kPause{20};              // between two words of one text
constexpr std::chrono::milliseconds kLongest{1000};

}  // namespace

void WorkerEnds::follow(pid_t pid) {
  if (processes_.contains(pid)) return;
  processes_[pid] = base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool WorkerEnds::wait_until(std::chrono::steady_clock::time_point time, std::span<const int> descriptors) {
  std::vector<pollfd> observed;
  for (const auto& [pid, process] : processes_) {
    if (process) observed.push_back({process.get(), POLLIN, 0});
  }
  for (const int descriptor : descriptors) observed.push_back({descriptor, POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - std::chrono::steady_clock::now());
  const int timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  if (::poll(observed.data(), observed.size(), timeout) <= 0) return false;
  bool one_has_ended = false;
  for (auto& [pid, process] : processes_) {
    const bool has_ended =
        std::ranges::any_of(observed, [&](const pollfd& one) { return one.fd == process.get() && one.revents != 0; });
    if (has_ended) process.reset();
    one_has_ended = one_has_ended || has_ended;
  }
  return one_has_ended;
}

CrashPipe::CrashPipe(const std::string& path, std::string copy)
    // Without a writer, poll() would report the pipe's end without a pause.
    : pipe_(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)), copy_(std::move(copy)), room_(kMostOfText) {}

void CrashPipe::take() {
  const auto until = Clock::now() + kLongest;
  std::array<char, 4096> bytes;
  while (Clock::now() < until && base::poll_until(pipe_.get(), POLLIN, Clock::now() + kPause) > 0) {
    const ssize_t size = ::read(pipe_.get(), bytes.data(), bytes.size());
    if (size <= 0) return;
    write_copy(bytes.data(), static_cast<std::size_t>(size));
  }
}

// The text is read even if there is no place for the copy: the worker waits for that.
void CrashPipe::write_copy(const char* bytes, std::size_t size) {
  if (!file_) file_.reset(::open(copy_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  size = std::min(size, room_);
  room_ -= size;
  if (file_ && ::write(file_.get(), bytes, size) < 0) room_ = 0;
}

}  // namespace ddp::torch_reader
