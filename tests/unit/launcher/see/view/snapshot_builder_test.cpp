#include "launcher/see/view/snapshot_builder.h"

#include "support/catch.h"
#include "support/made_picture.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;

namespace {

constexpr auto kInterval = 50ms;
constexpr std::uint64_t kSecond = 1'000'000'000;

RankView view_of(int rank) {
  RankView view;
  view.rank = rank;
  view.pid = 100 + rank;
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.groups.push_back({.name = "world", .rank = rank, .size = 2, .identity = 7});
  view.arrivals.emplace_back();
  return view;
}

// Two ranks and the clock of the tests.
struct Job {
  std::uint64_t now = 5 * kSecond;
  SnapshotBuilder builder{{.version = "1.0",
                           .run_id = "run",
                           .program = "train.py",
                           .node = "node0",
                           .launcher_pid = 42,
                           .max_restarts = 3},
                          now};
  std::vector<RankView> ranks = {view_of(0), view_of(1)};
  std::vector<ProgressValue> values = {};

  Job() { builder.begin_attempt({.attempt = 1, .world_size = 2}, {{1, "3"}}, true, now); }

  void sample() {
    now += std::chrono::nanoseconds(kInterval).count();
    builder.add(made_picture(ranks, kInterval, now));
    builder.add(training_of(ranks, values), now);
  }
  void time_passes() {
    now += std::chrono::nanoseconds(kInterval).count();
    builder.add(unchanged_picture(kInterval, now));
  }
  void time_passes_for(std::chrono::nanoseconds time) {
    for (auto passed = 0ns; passed < time; passed += kInterval) time_passes();
  }
  void finish_collective(std::size_t rank) {
    GroupView& group = ranks[rank].page.groups[0];
    group.called = group.started = group.finished = group.called + 1;
    ranks[rank].arrivals[0] = {{group.called, now}};
  }
  JobSnapshot shot() const { return builder.snapshot(now); }
};

RankRecords records_of(int rank, std::vector<std::uint64_t> sizes) {
  RankRecords records{rank, "", 0, 0, {{}, {7, "world", 2}}, {"", "bucket 0"}, {}};
  std::uint32_t number = 0;
  for (const std::uint64_t bytes : sizes) {
    records.records.push_back({ddp::wire::RecordKind::collective, 0, 1, 1, ++number, 10, 20, bytes});
  }
  return records;
}

RankView view_with(std::uint64_t identity, std::uint64_t finished) {
  RankView view;
  view.pid = 100;
  view.page.groups.push_back({.name = "g", .size = 2, .called = finished, .finished = finished, .identity = identity});
  return view;
}

RankRecords record_of(std::uint64_t identity, std::uint64_t bytes) {
  RankRecords records;
  records.groups = {{}, {identity, "g", 2}};
  records.names = {""};
  records.records = {{ddp::wire::RecordKind::collective, 2, 1, 0, 1, 10, 20, bytes}};
  return records;
}

}  // namespace

TEST_CASE("a snapshot names the job, the attempt and the GPUs") {
  Job job;
  job.sample();
  job.now += kSecond;
  const JobSnapshot shot = job.shot();
  CHECK(shot.version == "1.0");
  CHECK(shot.run_id == "run");
  CHECK(shot.program == "train.py");
  CHECK(shot.node == "node0");
  CHECK(shot.launcher_pid == 42);
  CHECK(shot.attempt == 1);
  CHECK(shot.max_restarts == 3);
  CHECK(shot.uptime == Approx(1.05).epsilon(0.001));
  CHECK(shot.attempt_uptime == Approx(1.05).epsilon(0.001));
  CHECK(shot.world_size == 2);
  REQUIRE(shot.ranks.size() == 2);
  CHECK(shot.ranks[0].gpu.empty());
  CHECK(shot.ranks[1].gpu == "3");
  CHECK(shot.ranks[1].pid == 101);
}

TEST_CASE("shares of states cover the last 10 s") {
  Job job;
  job.ranks[0].page.groups[0].called = 1;  // rank 0 waits for rank 1
  job.ranks[0].page.waiting_threads = 1;
  job.sample();
  job.time_passes_for(20s);
  CHECK(job.shot().ranks[0].waiting == Approx(1).margin(0.01));
  CHECK(job.shot().ranks[1].waited_for == Approx(1).margin(0.01));
  CHECK(job.shot().ranks[1].computing == Approx(1).margin(0.01));
  CHECK(job.shot().ranks[0].state == RankState::waiting);

  job.ranks[0].page.groups[0].finished = 1;
  job.ranks[0].page.waiting_threads = 0;
  job.ranks[1].page.groups[0].called = job.ranks[1].page.groups[0].finished = 1;
  job.sample();
  job.time_passes_for(5s);
  CHECK(job.shot().ranks[0].waiting == Approx(0.47).margin(0.08));
  CHECK(job.shot().ranks[0].computing == Approx(0.53).margin(0.08));
  job.time_passes_for(6s);
  CHECK(job.shot().ranks[0].waiting == Approx(0).margin(0.01));
  CHECK(job.shot().ranks[1].waited_for == Approx(0).margin(0.01));
}

TEST_CASE("a gap of minutes without samples discards the time before it") {
  Job job;
  job.ranks[0].page.phase = RankPhase::data_loading;
  job.ranks[0].page.phase_name = "shard 3";
  job.sample();
  job.time_passes_for(5s);
  CHECK(job.shot().ranks[0].phase == "data loading (shard 3)");
  CHECK(job.shot().ranks[0].in_phase == Approx(1).margin(0.01));
  job.now += 300 * kSecond;
  job.ranks[0].page.phase = RankPhase::training;
  job.sample();
  CHECK(job.shot().ranks[0].in_phase == 0);
  CHECK(job.shot().ranks[0].phase.empty());
}

TEST_CASE("the job's step is the synchronised one until the program reports its own") {
  Job job;
  for (int i = 0; i < 100; ++i) {
    for (RankView& rank : job.ranks) ++rank.page.steps;
    job.sample();
  }
  CHECK(job.shot().step == 100);
  CHECK(job.shot().steps_per_second == Approx(20.0).epsilon(0.05));
  CHECK(job.shot().ranks[1].steps_per_second == Approx(20.0).epsilon(0.05));
  CHECK(job.shot().total_steps == std::nullopt);
  CHECK(job.shot().eta == std::nullopt);
  CHECK_FALSE(job.builder.reports_progress());

  job.ranks[1].page.progress_total = 1000;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    job.ranks[1].page.progress_done = 500 + i;
    job.sample();
  }
  CHECK(job.builder.reports_progress());
  CHECK(job.shot().step == 600);
  CHECK(job.shot().total_steps == 1000);
  CHECK(job.shot().eta.value() == Approx(20.0).epsilon(0.05));
  job.ranks[0].page.progress_done = 3;  // the lowest rank counts
  job.sample();
  CHECK(job.shot().step == 3);
}

TEST_CASE("the remaining time is not estimated during the first steps or after the last one") {
  Job job;
  job.ranks[0].page.progress_total = 10;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    job.ranks[0].page.progress_done = i;
    job.sample();
  }
  CHECK(job.shot().eta == std::nullopt);
  job.time_passes_for(4s);
  job.ranks[0].page.progress_done = 10;
  job.sample();
  CHECK(job.shot().eta == std::nullopt);
}

TEST_CASE("heartbeats of a program without collectives do not count as synchronised steps") {
  Job job;
  for (RankView& rank : job.ranks) {
    rank.page.steps = 8;
    rank.page.groups.clear();
    rank.arrivals.clear();
  }
  job.sample();
  CHECK(job.shot().step == 0);
  CHECK(job.shot().ranks[0].steps == 8);
}

TEST_CASE("reported values have curves that restart with each attempt") {
  Job job;
  job.values = {{"loss", 2}};
  job.sample();
  CHECK(job.builder.reports_progress());
  CHECK(job.shot().values == std::vector<ProgressValue>{{"loss", 2}});
  REQUIRE(job.shot().curves.size() == 1);
  CHECK(job.shot().curves[0].mean == Curve::Points{2});
  job.builder.begin_attempt({.attempt = 2, .world_size = 2}, {}, true, job.now);
  CHECK(job.shot().values.empty());
  CHECK(job.shot().curves.empty());
}

TEST_CASE("bytes per second follow from finished collectives and their recorded mean size") {
  Job job;
  job.sample();
  job.builder.add_records(records_of(0, {100, 300}));
  job.builder.add_records(records_of(1, {200}));
  for (int i = 0; i < 100; ++i) {
    job.finish_collective(0);
    job.finish_collective(1);
    job.sample();
  }
  // Each rank finishes 20 collectives of 200 bytes per second.
  CHECK(job.shot().bytes_per_second == Approx(8000.0).epsilon(0.05));
  job.time_passes_for(11s);
  CHECK(job.shot().bytes_per_second == 0);
}

TEST_CASE("a row shows the last collective and when it was called") {
  Job job;
  job.sample();
  CHECK(job.shot().ranks[0].collective_age == std::nullopt);
  job.finish_collective(0);
  job.builder.add_records(records_of(0, {100}));
  job.sample();
  job.time_passes_for(2s);
  CHECK(job.shot().ranks[0].collective_number == 1);
  CHECK(job.shot().ranks[0].collective_name == "all_reduce ('bucket 0')");
  CHECK(job.shot().ranks[0].collective_age.value() == Approx(2.05).margin(0.001));

  job.ranks[0].calls = {{{1, 0, job.now, "all_reduce sum f32[25]", "bucket 0", ""}}};
  job.sample();
  CHECK(job.shot().ranks[0].collective_name == "all_reduce sum f32[25] ('bucket 0')");
  job.builder.add_records(records_of(0, {100}));
  CHECK(job.shot().ranks[0].collective_name == "all_reduce sum f32[25] ('bucket 0')");
}

TEST_CASE("the age of another node's collective counts from the change of its number") {
  Job job;
  job.ranks[1].arrivals.clear();
  job.sample();
  job.ranks[1].page.groups[0].called = 1;
  job.sample();
  job.time_passes_for(3s);
  CHECK(job.shot().ranks[1].collective_age.value() == Approx(3).margin(0.001));
}

TEST_CASE("a stall is shown until it is over and is counted once") {
  Job job;
  const auto add = [&](Kind kind, std::vector<int> culprits, std::chrono::nanoseconds age) {
    HangNews news;
    news.kind = kind;
    news.verdict.kind = VerdictKind::not_called;
    news.verdict.call = "all_reduce";
    news.verdict.culprits = std::move(culprits);
    news.age = age;
    job.builder.add(news, job.now);
  };
  add(Kind::stalled, {1}, 5s);
  job.time_passes_for(2s);
  add(Kind::warned, {1}, 7s);
  job.time_passes_for(1s);
  CHECK(job.shot().stall.starts_with("rank 1 has not called all_reduce"));
  CHECK(job.shot().stall_seconds == Approx(8));
  CHECK(job.shot().culprits == std::vector{1});
  CHECK(job.shot().stalls == 1);
  add(Kind::asked, {0}, 0s);
  CHECK(job.shot().culprits == std::vector{1});
  add(Kind::goes_on, {}, 0s);
  CHECK(job.shot().stall.empty());
  CHECK(job.shot().stall_seconds == 0);
  CHECK(job.shot().culprits.empty());
  add(Kind::hung, {0}, 1s);
  CHECK(job.shot().stalls == 2);
}

TEST_CASE("a row shows the resource usage of a rank's processes") {
  Job job;
  job.sample();
  CHECK(job.shot().ranks[0].rss_bytes == std::nullopt);
  CHECK(job.shot().ranks[0].output_age == std::nullopt);
  job.ranks[0].usage = RankUsage{1.5, 4096, 0.25, 1024, 7, job.now};
  job.sample();
  job.ranks[0].usage.reset();  // samples in between keep what is known
  job.sample();
  const RankRow row = job.shot().ranks[0];
  CHECK(row.cpus == 1.5);
  CHECK(row.rss_bytes == 4096);
  CHECK(row.gpu_use == 0.25);
  CHECK(row.gpu_memory_bytes == 1024);
  CHECK(row.output_age.value() == Approx(0.1).margin(0.001));
}

TEST_CASE("a rank outside of the world is ignored, and an exited one has no rate") {
  Job job;
  job.ranks.push_back(view_of(2));
  job.ranks.push_back(view_of(-1));
  for (int i = 0; i < 20; ++i) {
    ++job.ranks[0].page.steps;
    job.sample();
  }
  job.ranks[0].has_ended = true;
  job.sample();
  CHECK(job.shot().ranks.size() == 2);
  CHECK(job.shot().ranks[0].state == RankState::ended);
  CHECK(job.shot().ranks[0].steps_per_second == 0);
  job.builder.add_records(records_of(99, {1}));
}

TEST_CASE("collectives that finished before the first view are not counted") {
  RankTrack track;
  CHECK(track.add_view(view_with(7, 1000), {RankState::computing, false}, 1) == 0);
  track.add_records(record_of(7, 100));
  CHECK(track.add_view(view_with(7, 1003), {RankState::computing, false}, 2) == 300);
}

TEST_CASE("each group has its own mean size") {
  RankTrack track;
  track.add_view(view_with(7, 0), {RankState::computing, false}, 1);
  track.add_records(record_of(7, 100));
  track.add_records(record_of(8, 5000));
  CHECK(track.add_view(view_with(7, 2), {RankState::computing, false}, 2) == 200);
  CHECK(track.add_view(view_with(8, 2), {RankState::computing, false}, 3) == 0);  // a new group in the same place
  CHECK(track.add_view(view_with(8, 3), {RankState::computing, false}, 4) == 5000);
}

TEST_CASE("newer records have more weight than older ones") {
  RankTrack track;
  track.add_view(view_with(7, 0), {RankState::computing, false}, 1);
  for (int i = 0; i < 5000; ++i) track.add_records(record_of(7, 100));
  for (int i = 0; i < 5000; ++i) track.add_records(record_of(7, 300));
  CHECK(track.add_view(view_with(7, 1), {RankState::computing, false}, 2) > 299);
}

TEST_CASE("a record with an unknown group, name and operation is shown as a collective named ?") {
  RankTrack track;
  RankRecords records = record_of(7, 100);
  records.records[0].group = 9;
  records.records[0].name = 9;
  records.records[0].operation = 200;
  track.add_records(records);
  track.add_view(view_with(7, 1), {RankState::computing, false}, 1);
  CHECK(track.row(1).collective_name == "?");
}

TEST_CASE("a program that only reports progress is shown with the steps that it reports") {
  RankTrack track;
  RankView view = view_with(7, 0);
  const auto step_at_second = [&](std::uint64_t second) {
    track.add_view(view, {RankState::computing, false}, second * 1'000'000'000);
    return track.row(second * 1'000'000'000);
  };
  step_at_second(1);
  view.page.progress_done = 5000;  // it continues from a checkpoint
  CHECK(step_at_second(2).steps == 5000);
  CHECK(step_at_second(2).steps_per_second == 0);
  view.page.progress_done = 5002;
  CHECK(step_at_second(3).steps_per_second == Approx(2));
  view.page.steps = 3;  // it sends heartbeats, too
  CHECK(step_at_second(4).steps == 3);
}

TEST_CASE("a new process of a rank starts with empty counters") {
  RankTrack track;
  RankView view = view_with(7, 10);
  view.page.steps = 5;
  track.add_view(view, {RankState::waiting, true}, 1);
  track.add_time(0, 1);
  view.pid = 101;
  track.add_view(view, {RankState::computing, false}, 2);
  track.add_time(0, 1);
  CHECK(track.row(2).waiting == 0);
  CHECK(track.row(2).waited_for == 0);
  CHECK(track.row(2).computing == 1);
}
