#include "launcher/run/remote/controller_link.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

struct Line {
  Line() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    link = std::make_unique<ControllerLink>(base::UniqueFd(ends[0]));
    writer.reset(ends[1]);
  }
  void say(const std::string& text) {
    REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  std::unique_ptr<ControllerLink> link;
  base::UniqueFd writer;
};

LaunchRequest request() {
  LaunchRequest request;
  request.nonce = "n";
  request.host = "there";
  request.words = {"ddplaunch", "true"};
  return request;
}

}  // namespace

TEST_CASE("a launch request, the start message and signals may arrive one by one or together") {
  Line line;
  line.say(encode(request()) + "\n" + encode(ControllerWord{true, 0}) + "\n" + encode(ControllerWord{false, 15}) +
           "\n");
  const auto got = line.link->wait_for_request();
  REQUIRE(got.ok());
  CHECK(got.value() == request());
  CHECK(line.link->wait_for_start());
  net::EventLoop loop;
  std::vector<int> signals;
  bool lost = false;
  line.link->watch(loop, {[&](int signal) { signals.push_back(signal); },
                          [&] {
                            lost = true;
                            loop.stop();
                          }});
  line.say(encode(ControllerWord{false, 10}) + "\n");
  line.writer.reset();
  loop.run();
  CHECK(signals == std::vector<int>{15, 10});
  CHECK(lost);
}

TEST_CASE("a missing launch request or start message is an error") {
  Line closed;
  closed.say("{\"protocol\":1");
  closed.writer.reset();
  CHECK_FALSE(closed.link->wait_for_request().ok());
  Line noise;
  noise.say("hello\n");
  CHECK_FALSE(noise.link->wait_for_request().ok());
  Line cut;
  cut.writer.reset();
  CHECK_FALSE(cut.link->wait_for_start());
  Line signal;
  signal.say(encode(ControllerWord{false, 15}) + "\n");
  CHECK_FALSE(signal.link->wait_for_start());
}

TEST_CASE("a launch request sets the folder and variables and removes option variables") {
  const std::string before = std::filesystem::current_path().string();
  const TemporaryDirectory folder;
  ::setenv("PET_GRACE", "3", 1);
  LaunchRequest some = request();
  some.directory = folder.path();
  some.environment = {"DDP_TEST_A=x=y", "DDP_TEST_B="};
  some.token = "a token of some length";
  CHECK_FALSE(carry_out(some));
  CHECK(std::filesystem::equivalent(std::filesystem::current_path(), folder.path()));
  CHECK(std::string(::getenv("DDP_TEST_A")) == "x=y");
  CHECK(std::string(::getenv("DDP_TEST_B")).empty());
  CHECK(std::string(::getenv("DDP_AUTH_TOKEN")) == some.token);
  CHECK(::getenv("PET_GRACE") == nullptr);
  for (const char* name : {"DDP_TEST_A", "DDP_TEST_B", "DDP_AUTH_TOKEN"}) ::unsetenv(name);
  std::filesystem::current_path(before);
}

TEST_CASE("a missing working directory is reported with the host") {
  LaunchRequest some = request();
  some.directory = "/not here";
  const auto failure = carry_out(some);
  REQUIRE(failure);
  CHECK(failure->message.starts_with("cannot change into the working directory /not here on host there: No such file"));
}
