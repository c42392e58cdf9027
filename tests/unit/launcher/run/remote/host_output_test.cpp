#include "launcher/run/remote/host_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  int end() const { return write_.get(); }
  std::string text() {
    std::string all;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(read_.get(), buffer.data(), buffer.size())) > 0;) {
      all.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  base::UniqueFd read_;
  base::UniqueFd write_;
};

HostPlan plan_of(const std::vector<std::string>& hosts) {
  HostPlan plan;
  for (const std::string& host : hosts) plan.starts.push_back({host, {}, "", {.nonce = "nonce"}});
  return plan;
}

struct Screen {
  explicit Screen(const std::vector<std::string>& hosts) : output(loop, plan_of(hosts), out.end(), err.end()) {
    output.on_reply = [this](std::size_t host, const LaunchReply& reply) {
      replies.push_back(std::to_string(host) + " " + encode(reply));
    };
  }
  void say_ready(std::size_t host) { output.take(host, 0, reply_mark("nonce") + "ready\n"); }
  void finish() {
    for (std::size_t host = 0; host < 2; ++host) output.finish(host);
    output.end({});
  }

  net::EventLoop loop;
  Pipe out;
  Pipe err;
  std::vector<std::string> replies;
  HostOutput output;
};

}  // namespace

TEST_CASE("the workers' lines are passed on unchanged to the same stream") {
  Screen screen({"a", "b"});
  screen.say_ready(0);
  screen.say_ready(1);
  screen.output.take(0, 0, "[0] one\n[0] t");
  screen.output.take(1, 0, "[1] other\n");
  screen.output.take(0, 0, "wo\n");
  screen.output.take(0, 1, "[0] error\n");
  screen.finish();
  CHECK(screen.out.text() == "[0] one\n[1] other\n[0] two\n");
  CHECK(screen.err.text() == "[0] error\n");
  CHECK(screen.replies == std::vector<std::string>{"0 ready", "1 ready"});
}

TEST_CASE("lines of the launchers are tagged with their hosts, and equal lines with all of them") {
  Screen screen({"a", "b"});
  screen.say_ready(0);
  screen.say_ready(1);
  screen.output.take(0, 1, "ddplaunch: 2 nodes\nddplaunch: rank 0 failed\n");
  screen.output.take(1, 1, "ddplaunch: 2 nodes\n");
  screen.finish();
  CHECK(screen.err.text() == "ddplaunch: [a, b] 2 nodes\nddplaunch: [a] rank 0 failed\n");
}

TEST_CASE("output before the launcher's first message belongs to ssh or a shell") {
  Screen screen({"a", "b"});
  screen.output.take(1, 1, "ssh: no route\r\n");
  screen.output.take(1, 0, "a login script greets\n");
  screen.finish();
  CHECK(screen.err.text() == "ddplaunch: [b] ssh: no route\r\nddplaunch: [b] a login script greets\n");
  CHECK(screen.out.text().empty());
}

TEST_CASE("a reply is removed from the output without losing an unfinished worker line") {
  Screen screen({"a"});
  screen.say_ready(0);
  screen.output.take(0, 0, "no end" + reply_mark("nonce") + "ended 3\n");
  screen.output.take(0, 0, reply_mark("other") + "ended 4\n");
  screen.output.finish(0);
  screen.output.end({});
  CHECK(screen.replies == std::vector<std::string>{"0 ready", "0 ended 3"});
  CHECK(screen.out.text().starts_with("no end"));
}

TEST_CASE("control characters in lines of launchers, ssh and banners are escaped") {
  Screen screen({"a", "b"});
  screen.output.take(0, 1, "Welcome \x1b]0;title\x07\r\nddplaunch: forged \xc2\x9b\n");
  screen.say_ready(1);
  screen.output.take(1, 1, "ddplaunch: \xe2\x80\xae\n");
  screen.finish();
  CHECK(screen.err.text() ==
        "ddplaunch: [a] Welcome \\x1b]0;title\\x07\r\nddplaunch: [a] forged \\xc2\\x9b\n"
        "ddplaunch: [b] \\xe2\\x80\\xae\n");
}

TEST_CASE("endless output before a launcher starts is cut, and later output is shown") {
  Screen screen({"a", "b"});
  for (int i = 0; i < 300; ++i) screen.output.take(0, 1, "noise " + std::to_string(i) + "\n");
  screen.output.take(1, 0, std::string(200'000, 'x'));
  screen.say_ready(0);
  screen.output.take(0, 1, "[0] worker\n");
  screen.finish();
  const std::string text = screen.err.text();
  CHECK_THAT(
      text, Catch::Contains("[a] noise 199\nddplaunch: [a] further output before its launcher starts is not shown\n") &&
                !Catch::Contains("noise 200") && Catch::Contains("[0] worker\n"));
  CHECK(text.size() < 80'000);
}
