// Provides a console for tests: a pipe whose other end is read by a thread or is not read.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace ddp::test {

class PipeConsole {
 public:
  PipeConsole() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  ~PipeConsole() {
    write_.reset();
    if (reader_.joinable()) reader_.join();
  }
  PipeConsole(const PipeConsole&) = delete;
  PipeConsole& operator=(const PipeConsole&) = delete;

  int fd() const { return write_.get(); }
  void start_reading() {
    reader_ = std::thread([this] {
      std::array<char, 65536> bytes{};
      for (ssize_t got = 1; got > 0;) {
        got = ::read(read_.get(), bytes.data(), bytes.size());
        if (got > 0) text_.append(bytes.data(), static_cast<std::size_t>(got));
        seen_ += got > 0 ? got : 0;
      }
    });
  }
  void close_reader() { read_.reset(); }
  // Returns the number of bytes read so far.
  std::int64_t seen() const { return seen_; }
  // Returns everything, once all writers have closed the pipe. By then no pump may have its descriptor.
  const std::string& text() {
    if (!reader_.joinable()) start_reading();
    write_.reset();
    reader_.join();
    return text_;
  }

 private:
  base::UniqueFd read_;
  base::UniqueFd write_;
  std::string text_;
  std::atomic<std::int64_t> seen_ = 0;
  std::thread reader_;
};

}  // namespace ddp::test
