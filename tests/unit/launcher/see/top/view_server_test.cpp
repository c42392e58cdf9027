#include "launcher/see/top/view_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "launcher/limits.h"
#include "launcher/see/top/view_protocol.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/made_snapshot.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

struct Following : ddp::net::Watch {
  explicit Following(int& counter) : count(counter) { ++count; }
  ~Following() override { --count; }
  int& count;
};

// A job with four ranks whose server and clients run on one thread.
struct ShownJob {
  ShownJob() {
    server = std::make_unique<ViewServer>(
        loop, listen_in({directory.path()}, 7).value(),
        ViewServer::Job{[this] {
                          ++snapshots;
                          return snapshot;
                        },
                        [this](int rank, ViewServer::Reply reply) {
                          asked = rank;
                          pending = std::move(reply);
                        },
                        [this](int rank, ViewServer::Sink to) -> std::unique_ptr<ddp::net::Watch> {
                          if (rank > 3) return nullptr;
                          sink = std::move(to);
                          sink("last line");
                          return std::make_unique<Following>(following);
                        }});
  }

  // Runs the loop until the condition is true.
  template <typename Condition>
  void until(Condition condition) {
    REQUIRE(ddp::test::eventually([&] {
      loop.poll();
      return condition();
    }));
  }

  TemporaryDirectory directory;
  ddp::net::EventLoop loop;
  JobSnapshot snapshot = ddp::test::training_job(4);
  int snapshots = 0;
  int asked = -1;
  ViewServer::Reply pending;
  ViewServer::Sink sink;
  int following = 0;
  std::unique_ptr<ViewServer> server;
};

struct View {
  explicit View(ShownJob& shown) : job(shown) {
    auto connected = connect_to(job.server->path());
    REQUIRE(connected);
    fd = std::move(connected).value();
  }
  void says(std::string_view bytes) const {
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  // Returns the next line, or "" if the connection was closed.
  std::string hears() {
    bool is_closed = false;
    job.until([&] {
      std::array<char, 65'536> bytes;
      ssize_t count = 0;
      while ((count = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0) {
        received.append(bytes.data(), static_cast<std::size_t>(count));
      }
      is_closed = count == 0 || errno == ECONNRESET;
      return is_closed || received.find('\n') != std::string::npos;
    });
    const std::size_t end = received.find('\n');
    if (end == std::string::npos) return "";
    const std::string line = received.substr(0, end);
    received.erase(0, end + 1);
    return line;
  }
  ViewAnswer answer() {
    auto read = read_answer(hears());
    REQUIRE(read);
    return std::move(read).value();
  }

  ShownJob& job;
  ddp::base::UniqueFd fd;
  std::string received;
};

}  // namespace

TEST_CASE("a view gets snapshots, and several views share each one") {
  ShownJob job;
  CHECK_FALSE(job.server->has_clients());
  View first(job);
  View second(job);
  first.says(request_line({ViewWish::snapshot, 0}));
  second.says(request_line({ViewWish::snapshot, 0}));
  CHECK(first.answer().snapshot == job.snapshot);
  CHECK(second.answer().snapshot == job.snapshot);
  CHECK(job.snapshots <= 2);
  CHECK(job.server->has_clients());
  first.fd.reset();
  second.fd.reset();
  job.until([&] { return !job.server->has_clients(); });
}

TEST_CASE("requests may arrive in pieces or several at once") {
  ShownJob job;
  View view(job);
  view.says("{\"want\":");
  job.loop.poll();
  view.says("\"snapshot\"}\n{\"want\":\"x\"}\n{\"want\":\"snapshot\"}\n");
  CHECK(view.answer().kind == ViewAnswer::Kind::snapshot);
  CHECK(view.answer().kind == ViewAnswer::Kind::error);
  CHECK(view.answer().kind == ViewAnswer::Kind::snapshot);
}

TEST_CASE("stacks are sent when they were taken, if the view is still connected") {
  ShownJob job;
  {
    View view(job);
    view.says(request_line({ViewWish::stacks, 3}));
    job.until([&] { return job.asked == 3; });
    view.says(request_line({ViewWish::stacks, 2}));
    CHECK_THAT(view.answer().lines.front(), Catch::Contains("already"));
    job.pending({"main", "all_reduce"});
    const ViewAnswer answer = view.answer();
    CHECK(answer.kind == ViewAnswer::Kind::stacks);
    CHECK(answer.rank == 3);
    CHECK(answer.lines == std::vector<std::string>{"main", "all_reduce"});
    view.says(request_line({ViewWish::stacks, 1}));
    job.until([&] { return job.asked == 1; });
  }
  job.until([&] { return !job.server->has_clients(); });
  job.pending({"too late"});
  job.server.reset();
  job.pending({"much too late"});
}

TEST_CASE("a rank's output is followed until the view selects another rank or leaves") {
  ShownJob job;
  View view(job);
  view.says(request_line({ViewWish::output, 2}));
  CHECK(view.answer().lines == std::vector<std::string>{"last line"});
  CHECK(job.following == 1);
  job.sink("one");
  job.sink("two");
  CHECK(view.answer().lines == std::vector<std::string>{"one", "two"});
  view.says(request_line({ViewWish::no_output, 0}));
  job.until([&] { return job.following == 0; });
  view.says(request_line({ViewWish::output, 9}));
  CHECK_THAT(view.answer().lines.front(), Catch::Contains("rank 9 is not on this node"));
  view.says(request_line({ViewWish::output, 1}));
  CHECK(view.answer().rank == 1);
  view.fd.reset();
  job.until([&] { return job.following == 0; });
}

TEST_CASE("a view that does not read loses lines of output and gets their number") {
  ShownJob job;
  View view(job);
  view.says(request_line({ViewWish::output, 0}));
  CHECK(view.answer().lines.size() == 1);
  const std::string line(1000, 'x');
  constexpr int kLines = 5000;
  for (int i = 0; i < kLines; ++i) {
    job.sink(line);
    job.loop.poll();
  }
  int shown = 0;
  int lost = 0;
  while (shown + lost < kLines) {
    for (const std::string& each : view.answer().lines) {
      if (each == line) ++shown;
      if (each.starts_with('(')) lost += std::stoi(each.substr(1));
    }
  }
  CHECK(shown + lost == kLines);
  CHECK(lost > 0);
}

TEST_CASE("garbage from a view gives an error or disconnects it, and other views continue") {
  ShownJob job;
  View good(job);
  for (const std::string& garbage : {std::string("\0\xff\n", 3), std::string("GET / HTTP/1.1\n"), std::string("\n")}) {
    View bad(job);
    bad.says(garbage);
    CHECK(bad.answer().kind == ViewAnswer::Kind::error);
  }
  View endless(job);
  endless.says(std::string(ddp::limits::kViewRequestBytes + 100, 'x'));
  CHECK(endless.hears().empty());
  good.says(request_line({ViewWish::snapshot, 0}));
  CHECK(good.answer().snapshot == job.snapshot);
}

TEST_CASE("the number of views served at a time is limited") {
  ShownJob job;
  std::vector<std::unique_ptr<View>> views;
  for (int i = 0; i < ddp::limits::kViewClients; ++i) views.push_back(std::make_unique<View>(job));
  job.until([&] { return job.server->has_clients(); });
  {
    View one_more(job);
    CHECK_THAT(one_more.answer().lines.front(), Catch::Contains("no place for another view"));
    CHECK(one_more.hears().empty());
  }
  views.pop_back();
  job.until([&] {
    View next(job);
    next.says(request_line({ViewWish::snapshot, 0}));
    return next.answer().kind == ViewAnswer::Kind::snapshot;
  });
}

TEST_CASE("a view that never reads does not block other views") {
  ShownJob job;
  job.snapshot = ddp::test::training_job(500);
  View lazy(job);
  for (int i = 0; i < 20; ++i) lazy.says(request_line({ViewWish::snapshot, 0}));
  View view(job);
  view.says(request_line({ViewWish::snapshot, 0}));
  CHECK(view.answer().snapshot.ranks.size() == 500);
  for (int i = 0; i < 20; ++i) CHECK(lazy.answer().snapshot.ranks.size() == 500);
}

TEST_CASE("the socket is removed with the server") {
  ShownJob job;
  View view(job);
  view.says(request_line({ViewWish::output, 0}));
  CHECK(view.answer().lines.size() == 1);
  CHECK(std::filesystem::exists(job.server->path()));
  const std::string path = job.server->path();
  job.server.reset();
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(job.following == 0);
  CHECK(view.hears().empty());
}
