#include "launcher/start/log/file_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/signalled_thread.h"

using namespace ddp::launcher;
using namespace ddp::test;
using ddp::base::UniqueFd;

namespace {

struct FullPipe {
  FullPipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
    const std::string block(4096, 'x');
    while (::write(in.get(), block.data(), block.size()) > 0) ++blocks;
  }
  std::string read() const {
    std::string text(blocks * 4096, '\0');
    text.resize(static_cast<std::size_t>(::read(out.get(), text.data(), text.size())));
    return text;
  }

  UniqueFd out;
  UniqueFd in;
  std::size_t blocks = 0;
};

}  // namespace

TEST_CASE("signals do not make a slow reader of a log file count as stuck") {
  const FullPipe pipe;
  bool is_written = false;
  int error = 0;
  run_with_signals(
      [&] {
        is_written = write_all(pipe.in.get(), "the last line", kPatience);
        error = errno;
      },
      [&] { pipe.read(); });
  CAPTURE(error);
  REQUIRE(is_written);
  CHECK(pipe.read() == "the last line");
}

TEST_CASE("a reader of a log FIFO that reads nothing is given up") {
  const FullPipe pipe;
  CHECK_FALSE(write_all(pipe.in.get(), "a line", std::chrono::milliseconds(1)));
  CHECK_THAT(write_failure("--event-log=pipe").message,
             Catch::Equals("cannot write --event-log=pipe: its reader is too slow."));
}
