#include "launcher/see/top/frame_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <random>

#include "base/unique_fd.h"
#include "launcher/see/view/top_frame.h"
#include "support/catch.h"
#include "support/made_snapshot.h"
#include "support/random_seed.h"
#include "support/screen.h"

using namespace ddp::launcher;
using ddp::test::Screen;
using Frame = std::vector<std::string>;

namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  std::string read() const {
    std::string text;
    std::array<char, 4096> bytes;
    for (ssize_t count = 0; (count = ::read(out.get(), bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
  ddp::base::UniqueFd out;
  ddp::base::UniqueFd in;
};

}  // namespace

TEST_CASE("only changed lines are written, and the screen shows the frame") {
  Screen screen(10, 3);
  const Frame first = {"abc", "", "1234567890"};
  screen.show(frame_change({}, first));
  CHECK(screen.lines() == first);
  const Frame second = {"abc", "训练", "12"};
  const std::string change = frame_change(first, second);
  CHECK(change.find("abc") == std::string::npos);
  screen.show(change);
  CHECK(screen.lines() == second);
  CHECK_FALSE(screen.is_updating());
  CHECK(frame_change(second, second).empty());
  const Frame shorter = {"x"};
  screen.show(frame_change(second, shorter));
  CHECK(screen.lines() == Frame{"x", "", ""});
}

TEST_CASE("the screen shows the last of a random series of frames") {
  const unsigned seed = ddp::test::random_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Screen screen(80, 24);
  Frame shown;
  for (int i = 0; i < 300; ++i) {
    JobSnapshot job = ddp::test::training_job(1 + static_cast<int>(random() % 100));
    if (random() % 2 == 0) ddp::test::stall(job, static_cast<int>(random() % job.ranks.size()));
    for (RankRow& row : job.ranks) row.state = static_cast<RankState>(random() % kRankStates);
    TopView view;
    view.is_help_open = random() % 8 == 0;
    const Frame frame = top_frame(job, view, {80, 24}, {random() % 2 == 0, true});
    screen.show(frame_change(shown, frame));
    shown = frame;
    Screen fresh(80, 24);
    fresh.show(frame_change({}, frame));
    REQUIRE(screen.lines() == fresh.lines());
  }
}

TEST_CASE("frames are dropped while the terminal is blocked, and the last one is shown later") {
  ddp::net::EventLoop loop;
  Pipe pipe;
  REQUIRE(::fcntl(pipe.in.get(), F_SETPIPE_SZ, 4096) == 4096);
  bool failed = false;
  FrameWriter writer(loop, pipe.in.get(), [&] { failed = true; });
  const auto frame = [](char c) { return Frame(40, std::string(200, c)); };
  for (const char c : {'a', 'b', 'c', 'd'}) writer.show(frame(c));
  CHECK(writer.dropped() == 2);
  Screen screen(200, 40);
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    bytes += pipe.read();
    loop.poll();
  }
  screen.show(bytes);
  CHECK(screen.lines() == frame('d'));
  CHECK_FALSE(failed);
  writer.show(frame('e'));
  bytes.clear();
  for (int i = 0; i < 100; ++i) {
    bytes += pipe.read();
    loop.poll();
  }
  screen.show(bytes);
  CHECK(screen.lines() == frame('e'));
}

TEST_CASE("a closed terminal is reported once") {
  ddp::net::EventLoop loop;
  Pipe pipe;
  pipe.out.reset();
  auto* const before = std::signal(SIGPIPE, SIG_IGN);  // as in ddplaunch
  int failures = 0;
  FrameWriter writer(loop, pipe.in.get(), [&] { ++failures; });
  writer.show({"a"});
  writer.show({"b"});
  CHECK(failures == 1);
  std::signal(SIGPIPE, before);
}

TEST_CASE("after other output the next frame is written completely") {
  ddp::net::EventLoop loop;
  Pipe pipe;
  FrameWriter writer(loop, pipe.in.get(), nullptr);
  writer.show({"a", "b"});
  static_cast<void>(pipe.read());
  writer.forget();
  writer.show({"a", "b"});
  CHECK_THAT(pipe.read(), Catch::Contains("\x1b[2J") && Catch::Contains("a") && Catch::Contains("b"));
}
