#include "net/event_loop.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/deadline.h"

using namespace std::chrono_literals;
using ddp::base::UniqueFd;
using ddp::net::EventLoop;
using ddp::net::Watch;
using std::chrono::steady_clock;

namespace {

class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  int fd() const { return read_.get(); }
  int write_fd() const { return write_.get(); }
  void stuff() {
    const std::string bytes(4096, 'x');
    while (::write(write_.get(), bytes.data(), bytes.size()) > 0) continue;
  }
  void empty() {
    std::string bytes(65536, 'x');
    while (::read(read_.get(), bytes.data(), bytes.size()) > 0) continue;
  }
  void fill() { REQUIRE(::write(write_.get(), "x", 1) == 1); }
  void drain() {
    char byte = 0;
    REQUIRE(::read(read_.get(), &byte, 1) == 1);
  }
  void close_write_end() { write_.reset(); }

 private:
  UniqueFd read_;
  UniqueFd write_;
};

// Runs a loop on this thread, and gives up after a while.
class Loop {
 public:
  EventLoop events;

  void runs_until_stopped() {
    const auto guard = events.at(ddp::test::soon(), [this] {
      gave_up_ = true;
      events.stop();
    });
    events.run();
    CHECK_FALSE(gave_up_);
  }
  // Stops the loop after `pause`. Everything that is ready now runs before that.
  std::unique_ptr<Watch> stop_after(std::chrono::milliseconds pause) {
    return events.at(steady_clock::now() + pause, [this] { events.stop(); });
  }

 private:
  bool gave_up_ = false;
};

}  // namespace

TEST_CASE("a readable descriptor is reported once") {
  Loop loop;
  Pipe pipe;
  int calls = 0;
  pipe.fill();
  const auto watch = loop.events.watch_readable(pipe.fd(), [&] { ++calls; });
  const auto stop = loop.stop_after(20ms);
  loop.runs_until_stopped();
  CHECK(calls == 1);
}

TEST_CASE("the end of a pipe counts as readable") {
  Loop loop;
  Pipe pipe;
  pipe.close_write_end();
  const auto watch = loop.events.watch_readable(pipe.fd(), [&] { loop.events.stop(); });
  loop.runs_until_stopped();
}

TEST_CASE("a full pipe is reported as writable once there is room") {
  Loop loop;
  Pipe pipe;
  pipe.stuff();
  bool emptied = false;
  const auto watch = loop.events.watch_writable(pipe.write_fd(), [&] {
    CHECK(emptied);
    loop.events.stop();
  });
  const auto later = loop.events.at(steady_clock::now() + 20ms, [&] {
    emptied = true;
    pipe.empty();
  });
  loop.runs_until_stopped();
  CHECK(emptied);
}

TEST_CASE("a destroyed write watch stays silent and leaves its descriptor open") {
  Loop loop;
  Pipe pipe;
  loop.events.watch_writable(pipe.write_fd(), [] { FAIL("called"); }).reset();
  const auto stop = loop.stop_after(20ms);
  loop.runs_until_stopped();
  pipe.fill();
}

TEST_CASE("a write watch does not change whether a descriptor blocks") {
  Loop loop;
  Pipe pipe;
  REQUIRE(::fcntl(pipe.write_fd(), F_SETFL, 0) == 0);
  const auto watch = loop.events.watch_writable(pipe.write_fd(), [&] {
    CHECK((::fcntl(pipe.write_fd(), F_GETFL) & O_NONBLOCK) == 0);
    loop.events.stop();
  });
  loop.runs_until_stopped();
}

TEST_CASE("a callback can watch the same descriptor again") {
  Loop loop;
  Pipe pipe;
  std::unique_ptr<Watch> watch;
  int calls = 0;
  const std::function<void()> arm = [&] {
    watch = loop.events.watch_readable(pipe.fd(), [&] {
      pipe.drain();
      if (++calls == 3) return loop.events.stop();
      pipe.fill();
      arm();
    });
  };
  pipe.fill();
  arm();
  loop.runs_until_stopped();
  CHECK(calls == 3);
}

TEST_CASE("a destroyed watch stays silent even if its descriptor was ready in the same turn") {
  Loop loop;
  Pipe first;
  Pipe second;
  std::unique_ptr<Watch> first_watch;
  std::unique_ptr<Watch> second_watch;
  int calls = 0;
  first.fill();
  second.fill();
  first_watch = loop.events.watch_readable(first.fd(), [&] {
    ++calls;
    second_watch.reset();
  });
  second_watch = loop.events.watch_readable(second.fd(), [&] {
    ++calls;
    first_watch.reset();
  });
  const auto stop = loop.stop_after(20ms);
  loop.runs_until_stopped();
  CHECK(calls == 1);
}

TEST_CASE("a new watch is not called for an event of a destroyed one") {
  Loop loop;
  std::array<Pipe, 2> ready;
  std::array<std::unique_ptr<Watch>, 2> watches;
  Pipe empty;
  std::unique_ptr<Watch> once;
  bool is_full = false;
  const auto replace = [&](std::size_t other) {
    watches[other].reset();
    if (once) return;
    once = loop.events.watch_readable(empty.fd(), [&] {
      CHECK(std::exchange(is_full, false));
      loop.events.stop();
    });
  };
  for (const std::size_t i : {0, 1}) {
    ready[i].fill();
    watches[i] = loop.events.watch_readable(ready[i].fd(), [&, i] { replace(1 - i); });
  }
  const auto later = loop.events.at(steady_clock::now() + 10ms, [&] {
    is_full = true;
    empty.fill();
  });
  loop.runs_until_stopped();
  CHECK(once != nullptr);
  CHECK_FALSE(is_full);  // the watch still worked after that
}

TEST_CASE("a destroyed watch leaves its descriptor open") {
  Loop loop;
  Pipe pipe;
  loop.events.watch_readable(pipe.fd(), [] {}).reset();
  pipe.fill();
  pipe.drain();
}

TEST_CASE("timers fire in the order of their times") {
  Loop loop;
  std::string order;
  const auto now = steady_clock::now();
  const auto late = loop.events.at(now + 20ms, [&] {
    order += "c";
    loop.events.stop();
  });
  const auto soon = loop.events.at(now + 10ms, [&] { order += "b"; });
  const auto past = loop.events.at(now - 1h, [&] { order += "a"; });
  loop.runs_until_stopped();
  CHECK(order == "abc");
}

TEST_CASE("a timer does not fire before its time") {
  Loop loop;
  const auto when = steady_clock::now() + 15ms;
  const auto timer = loop.events.at(when, [&] { loop.events.stop(); });
  loop.runs_until_stopped();
  CHECK(steady_clock::now() >= when);
}

TEST_CASE("a destroyed timer stays silent even if it was due in the same turn") {
  Loop loop;
  std::unique_ptr<Watch> first;
  std::unique_ptr<Watch> second;
  int calls = 0;
  const auto past = steady_clock::now() - 1ms;
  first = loop.events.at(past, [&] {
    ++calls;
    second.reset();
  });
  second = loop.events.at(past, [&] {
    ++calls;
    first.reset();
  });
  const auto stop = loop.stop_after(20ms);
  loop.runs_until_stopped();
  CHECK(calls == 1);
}

TEST_CASE("a timer callback may destroy its own watch") {
  Loop loop;
  std::unique_ptr<Watch> timer;
  std::string text = "still here, and longer than a small string";
  timer = loop.events.at(steady_clock::now(), [&, copy = text] {
    timer.reset();
    CHECK(copy == text);
    loop.events.stop();
  });
  loop.runs_until_stopped();
}

TEST_CASE("each arrival of a watched signal is reported") {
  Loop loop;
  std::string arrived;
  const std::array signals = {SIGUSR1, SIGUSR2};
  const auto watch = loop.events.on_signals(signals, [&](int signal) {
    arrived += signal == SIGUSR1 ? "1" : "2";
    if (arrived.size() == 3) return loop.events.stop();
    ::raise(arrived.size() == 1 ? SIGUSR2 : SIGUSR1);
  });
  ::raise(SIGUSR1);
  loop.runs_until_stopped();
  CHECK(arrived == "121");
}

TEST_CASE("a destroyed signal watch is not called for an earlier signal") {
  Loop loop;
  const std::array signals = {SIGUSR1};
  int calls = 0;
  auto watch = loop.events.on_signals(signals, [&](int) { ++calls; });
  ::raise(SIGUSR1);
  watch.reset();
  const auto stop = loop.stop_after(20ms);
  loop.runs_until_stopped();
  CHECK(calls == 0);
}

TEST_CASE("a signal callback may destroy its own watch") {
  Loop loop;
  const std::array signals = {SIGUSR1};
  std::unique_ptr<Watch> watch;
  std::string text = "still here, and longer than a small string";
  watch = loop.events.on_signals(signals, [&, copy = text](int) {
    watch.reset();
    CHECK(copy == text);
    loop.events.stop();
  });
  ::raise(SIGUSR1);
  loop.runs_until_stopped();
}
