#include "launcher/run/output/console.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/output_reader.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using ddp::base::UniqueFd;
using ddp::test::PipeConsole;

namespace {

class Shown {
 public:
  explicit Shown(int fd, ConsoleBounds bounds = {}) : console(loop, fd, tag, bounds) { std::signal(SIGPIPE, SIG_IGN); }

  ddp::net::EventLoop loop;
  LineTag tag{"", {}, false};
  Console console;

  void line(const std::string& text) { console.show({{text, true, true}, 0, 0, 1, {}}); }
  void runs_until(const std::function<bool()>& done) {
    const auto give_up = ddp::test::soon();
    while (!done() && std::chrono::steady_clock::now() < give_up) {
      loop.poll();
      std::this_thread::yield();
    }
    CHECK(done());
  }
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::string kLine = std::string(999, 'x') + "\n";

}  // namespace

TEST_CASE("a console prints its text and leaves our descriptor unchanged") {
  PipeConsole pipe;
  {
    Shown shown(pipe.fd());
    shown.line("a\n");
    shown.console.show_own("ddplaunch: b");
    shown.console.flush();
    CHECK((::fcntl(pipe.fd(), F_GETFL) & O_NONBLOCK) == 0);
  }
  CHECK(pipe.text() == "a\nddplaunch: b\n");
}

TEST_CASE("two consoles on one file do not overwrite each other") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log";
  const UniqueFd out(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const UniqueFd err(::fcntl(out.get(), F_DUPFD_CLOEXEC, 0));
  CHECK(same_file(out.get(), err.get()));
  Shown first(out.get());
  Shown second(err.get());
  for (int i = 0; i < 3; ++i) {
    first.line("out\n");
    first.console.flush();
    second.line("err\n");
    second.console.flush();
  }
  CHECK(text_of(path) == "out\nerr\nout\nerr\nout\nerr\n");
}

TEST_CASE("writing to a socket as console never blocks") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  Shown shown(ours.get(), {100'000, 10ms, 10ms, false});
  for (int i = 0; i < 2000; ++i) shown.line(kLine);
  shown.console.flush();
  CHECK(shown.console.full());
  CHECK((::fcntl(ours.get(), F_GETFL) & O_NONBLOCK) == 0);
  theirs.reset();
  shown.console.flush();
  CHECK(shown.console.closed());
}

TEST_CASE("a console without a reader drops lines and reports their exact number") {
  PipeConsole pipe;
  int sent = 0;
  int rooms = 0;
  {
    Shown shown(pipe.fd(), {100'000, 20ms, 30s, false});
    shown.console.on_room = [&] { ++rooms; };
    const auto say = [&] {
      shown.line(kLine);
      shown.console.flush();
      ++sent;
    };
    while (!shown.console.full()) say();
    CHECK(sent < 250);
    CHECK(shown.console.lost() == 0);
    shown.runs_until([&] { return !shown.console.full(); });
    CHECK(rooms == 1);
    for (int i = 0; i < 1234; ++i) say();
    CHECK(shown.console.lost() == 1234);
    pipe.start_reading();
    shown.runs_until([&] { return pipe.seen() >= 100'000 && shown.console.waits_for() < 0; });
    shown.line("back\n");
    shown.console.say_goodbye({});
    CHECK(shown.console.lost() == 1234);
  }
  const std::string text = pipe.text();
  const std::string notice =
      "ddplaunch: warning: 1234 lines were not shown, because the console was too slow (--log-dir keeps them, "
      "--lossless "
      "waits)\n";
  CHECK_THAT(text, Catch::EndsWith(notice + "back\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == sent - 1234 + 2);
}

TEST_CASE("a partly shown line counts once as lost, and its rest is not shown") {
  PipeConsole pipe;
  {
    Shown shown(pipe.fd(), {1000, 0ms, 30s, false});
    while (!shown.console.full()) {
      shown.line(kLine);
      shown.console.flush();
    }
    shown.console.tick();
    shown.console.show({{"lost ", true, false}, 1, 1, 1, {}});
    pipe.start_reading();
    shown.runs_until([&] { return shown.console.waits_for() < 0; });
    shown.console.show({{"lost\n", false, true}, 1, 1, 1, {}});
    shown.console.show({{"seen\n", true, true}, 1, 1, 1, {}});
    CHECK(shown.console.lost() == 1);
    shown.console.say_goodbye({});
  }
  CHECK_THAT(pipe.text(), Catch::EndsWith("\nseen\n") && !Catch::Contains("lost"));
}

TEST_CASE("a lossless console stays full until it is read") {
  PipeConsole pipe;
  int sent = 0;
  {
    Shown shown(pipe.fd(), {100'000, 0ms, 0ms, true});
    while (!shown.console.full()) {
      shown.line(kLine);
      shown.console.flush();
      ++sent;
    }
    shown.console.tick();
    CHECK(shown.console.full());
    pipe.start_reading();
    shown.runs_until([&] { return !shown.console.full(); });
    shown.console.say_goodbye({});
    CHECK(shown.console.lost() == 0);
  }
  CHECK(pipe.text().size() == kLine.size() * static_cast<std::size_t>(sent));
}

TEST_CASE("closing a console without a reader finishes, and its content counts as lost") {
  PipeConsole pipe;
  std::int64_t lost = 0;
  {
    Shown shown(pipe.fd(), {10'000'000, 20ms, 10s, false});
    for (int i = 0; i < 500; ++i) shown.line(kLine);
    shown.console.show_own("ddplaunch: a line of ours");
    shown.console.say_goodbye({});
    lost = shown.console.lost();
    CHECK(lost > 0);
    CHECK(shown.console.untold() == lost);
  }
  const std::string text = pipe.text();
  CHECK(std::count(text.begin(), text.end(), '\n') + lost == 500);
}

TEST_CASE("closing a lossless console can be interrupted") {
  PipeConsole pipe;
  Shown shown(pipe.fd(), {10'000'000, 0ms, 0ms, true});
  for (int i = 0; i < 500; ++i) shown.line(kLine);
  int asked = 0;
  shown.console.say_goodbye([&] { return ++asked == 2; });
  CHECK(asked == 2);
  CHECK(shown.console.lost() > 0);
}

TEST_CASE("a closed console is reported once and accepts no more text") {
  PipeConsole pipe;
  Shown shown(pipe.fd());
  std::vector<int> errors;
  shown.console.on_closed = [&](int error) { errors.push_back(error); };
  pipe.close_reader();
  for (int i = 0; i < 3; ++i) {
    shown.line("a\n");
    shown.console.flush();
  }
  CHECK(errors == std::vector{EPIPE});
  CHECK(shown.console.closed());
  CHECK(shown.console.lost() == 0);
}

TEST_CASE("a console whose descriptor is not open counts as closed") {
  Shown shown(1'000'000);
  CHECK(shown.console.closed());
  shown.line("a\n");
  shown.console.flush();
}
