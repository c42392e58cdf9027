#include "launcher/run/job/control_link.h"

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "net/event_loop.h"
#include "store/server/store_server.h"
#include "support/catch.h"
#include "support/deadline.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

std::string text_of(const wire::ControlMessage& message) {
  const auto* shows = std::get_if<wire::NodeShows>(&message);
  return shows != nullptr ? shows->text : std::get<wire::CoordinatorWaits>(message).text;
}

// Connects a link to a coordinator on one loop, which echoes what it receives. "bye" ends the connection.
class LinkToEcho {
 public:
  LinkToEcho() {
    store::StoreServerOptions options;
    options.on_control = [this](store::ConnectionId from, const std::string&, const std::string& bytes) {
      server_->send_control(from, bytes);
      const auto message = wire::decode_control(bytes);
      if (message && text_of(*message) == "bye") server_->close_control(from);
    };
    auto server = store::StoreServer::listen("127.0.0.1", 0, options);
    REQUIRE(server);
    server_ = std::move(server).value();
    watch_ = loop_.keep_watching(server_->fd(), [this] { server_->serve(); });
    auto opened = std::async(std::launch::async, [port = server_->port()] {
      return store::StoreVisit::open("127.0.0.1", port, nullptr, std::chrono::steady_clock::now() + test::kPatience);
    });
    until([&] { return opened.wait_for(0s) == std::future_status::ready; });
    auto visit = opened.get();
    REQUIRE(visit);
    link.emplace(
        loop_, std::move(visit).value(),
        ControlLink::Callbacks{[this](const wire::ControlMessage& message) { heard.push_back(text_of(message)); },
                               [this](const std::string& why, LinkEnd how) {
                                 lost = why;
                                 end = how;
                                 link.reset();
                               },
                               [this] { ++times_sent; }});
  }

  template <typename Condition>
  void until(const Condition& condition) {
    const auto last = std::chrono::steady_clock::now() + test::kPatience;
    while (!condition() && std::chrono::steady_clock::now() < last) {
      loop_.poll();
      std::this_thread::sleep_for(1ms);
    }
    REQUIRE(condition());
  }

  std::vector<std::string> heard;
  std::string lost;
  LinkEnd end = LinkEnd::misused;
  int times_sent = 0;

 private:
  net::EventLoop loop_;  // outlives the objects that use it
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;

 public:
  std::optional<ControlLink> link;
};

}  // namespace

TEST_CASE("messages between a launcher and its coordinator arrive complete and in order") {
  LinkToEcho echo;
  std::vector<std::string> said;
  for (int i = 0; i < 100; ++i) said.push_back(std::string(static_cast<std::size_t>(i) * 37, 'x'));
  for (const std::string& text : said) echo.link->send(wire::CoordinatorWaits{text});
  echo.until([&] { return echo.heard.size() == said.size(); });
  CHECK(echo.heard == said);
}

TEST_CASE("messages that the coordinator does not accept yet are queued without blocking") {
  LinkToEcho echo;
  const std::string large(6 << 20, 'y');
  echo.link->send(wire::NodeShows{0, wire::Subject::output, large});
  CHECK(echo.link->unsent() > 0);
  echo.until([&] { return echo.heard.size() == 1; });
  CHECK(echo.heard[0] == large);
  CHECK(echo.link->unsent() == 0);
  CHECK(echo.times_sent > 0);
}

TEST_CASE("the end of the connection is reported once, and later messages are dropped") {
  LinkToEcho echo;
  echo.link->send(wire::CoordinatorWaits{"bye"});
  echo.until([&] { return !echo.lost.empty(); });
  CHECK(echo.heard == std::vector<std::string>{"bye"});
  CHECK(echo.lost == "it has closed the connection");
  CHECK(echo.end == LinkEnd::closed);
  CHECK_FALSE(echo.link);
}
