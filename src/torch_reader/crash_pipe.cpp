#include "torch_reader/crash_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/uninterrupted.h"

namespace ddp::torch_reader {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOfText = std::size_t{256} << 10;  // a stack of 100 frames takes about 10 KiB
constexpr std::chrono::milliseconds kPause{20};              // between two words of one text
constexpr std::chrono::milliseconds kLongest{1000};

}  // namespace

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
