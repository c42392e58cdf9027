#include "launcher/see/view/rank_track.h"

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

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

TEST_CASE("records with numbers out of range give at most a strange name") {
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
