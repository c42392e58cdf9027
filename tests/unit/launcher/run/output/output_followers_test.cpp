#include "launcher/run/output/output_followers.h"

#include "support/catch.h"
#include "support/deadline.h"
#include "support/output_job.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

OutputPlan plan_with(bool to_console, bool to_file) {
  OutputPlan plan;
  plan.workers.resize(2);
  for (WorkerOutputPlan& worker : plan.workers) {
    for (StreamPlan* stream : {&worker.out, &worker.err}) {
      stream->to_console = to_console;
      stream->to_file = to_file;
    }
  }
  return plan;
}

}  // namespace

TEST_CASE("a follower gets the last lines of a worker and then each completed line") {
  OutputJob job(plan_with(true, false));
  OutputFollowers followers(job.loop, *job.pump);
  const WorkerStreams first = job.open(0);
  const WorkerStreams second = job.open(1);
  const auto until = [&](const auto& condition) {
    REQUIRE(ddp::test::eventually([&] {
      job.loop.poll();
      return condition();
    }));
  };
  put(first.out.get(), "before\n");
  until([&] { return job.pump->bytes_of(0) == 7; });

  Lines lines;
  auto watch = followers.follow(0, [&](std::string_view line) { lines.emplace_back(line); });
  CHECK(lines == Lines{"before"});
  put(second.out.get(), "of another rank\n");
  put(first.out.get(), "one\ntw");
  put(first.err.get(), "\x1b[31merror\x1b[0m\r\n");
  until([&] { return lines.size() == 3; });
  std::ranges::sort(lines);
  CHECK(lines == Lines{"before", "error", "one"});
  put(first.out.get(), "o\n");
  until([&] { return lines.size() == 4; });
  CHECK(lines.back() == "two");

  // A line without an end is passed on when it is too long to be kept.
  put(first.out.get(), std::string(ddp::limits::kLineBytes + 10, 'x'));
  until([&] { return lines.size() == 5; });
  CHECK(lines.back().size() <= ddp::limits::kViewRequestBytes);

  watch.reset();
  put(first.out.get(), "\nafter\n");
  until([&] { return job.pump->bytes_of(0) > ddp::limits::kLineBytes + 25; });
  CHECK(lines.size() == 5);
}

TEST_CASE("a worker that writes to its own file is followed through that file") {
  OutputJob job(plan_with(false, true));
  OutputFollowers followers(job.loop, *job.pump);
  WorkerStreams streams = job.open(0);
  put(streams.out.get(), "before\n");
  Lines lines;
  const auto watch = followers.follow(0, [&](std::string_view line) { lines.emplace_back(line); });
  CHECK(lines == Lines{"before"});
  put(streams.out.get(), "one\n");
  put(streams.err.get(), "two\n");
  REQUIRE(ddp::test::eventually([&] {
    job.loop.poll();
    return lines.size() == 3;
  }));
  CHECK(lines == Lines{"before", "one", "two"});
}

TEST_CASE("a follower may leave while it receives a line or after the followers were destroyed") {
  OutputJob job(plan_with(true, false));
  auto followers = std::make_unique<OutputFollowers>(job.loop, *job.pump);
  const WorkerStreams streams = job.open(0);
  std::unique_ptr<ddp::net::Watch> watch;
  int count = 0;
  watch = followers->follow(0, [&](std::string_view) {
    ++count;
    watch.reset();
  });
  auto other = followers->follow(0, [&](std::string_view) { ++count; });
  put(streams.out.get(), "one\n");
  REQUIRE(ddp::test::eventually([&] {
    job.loop.poll();
    return count == 2;
  }));
  followers.reset();
  other.reset();
  put(streams.out.get(), "two\n");
  REQUIRE(ddp::test::eventually([&] {
    job.loop.poll();
    return job.pump->bytes_of(0) == 8;
  }));
  CHECK(count == 2);
}
