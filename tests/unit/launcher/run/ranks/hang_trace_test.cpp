#include "launcher/run/ranks/hang_trace.h"

#include <chrono>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "support/catch.h"
#include "support/hang_trace_reader.h"
#include "support/made_picture.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

RankView some_rank() {
  RankView view;
  view.rank = 3;
  view.pid = 17;
  view.seen_at = 5;
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.groups.push_back({"world", 3, 4, 0, 7, 6, 6, 0, 0});
  view.process = ProcessSample{'S', 4, 2, "futex_do_wait"};
  view.activity = RankActivity{};
  view.activity->still_for = 3s;
  view.calls = {{CallView{7, 99, 4, "barrier", "", "train.cpp:3"}}};
  return view;
}

}  // namespace

TEST_CASE("a hang trace can be read back in the same order") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/trace";
  const std::vector<RankView> ranks = {some_rank()};
  HangTrace trace(path, [](const std::string& sentence) { FAIL(sentence); });
  trace.add(unchanged_picture(50ms, 0));
  trace.add(unchanged_picture(60ms, 0));
  trace.sample(3, ActivitySample{{{17, 3, 4, 5, 6, 7, true}}, {{8, 0, 0, 9}}, {}, 10, GpuSample{11, 12}, true, 13}, 1s);
  trace.sample(3, ActivitySample{{}, {}, {}, 10, GpuSample{11, {}}, true}, 2s);
  trace.add(made_picture(ranks, 55ms, 1'000));
  trace.explain("rank 1 is awaited");
  trace.add(made_picture(ranks, 5ms, 2'000));
  std::vector<TracedRanks> shown;
  std::vector<TracedSample> samples;
  std::string explained;
  for (const std::string& line : base::split(base::read_file(path), '\n')) {
    if (line.empty()) continue;
    const auto parsed = parse_traced_line(line);
    REQUIRE(parsed);
    if (const auto* sample = std::get_if<TracedRanks>(&*parsed)) shown.push_back(*sample);
    if (const auto* sample = std::get_if<TracedSample>(&*parsed)) samples.push_back(*sample);
    if (const auto* explanation = std::get_if<TracedExplanation>(&*parsed)) explained += explanation->text;
  }
  CHECK(explained == "rank 1 is awaited");
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].rank == 3);
  CHECK(samples[0].now == 1s);
  CHECK(samples[0].sample.processes == std::vector<ProcessCounters>{{17, 3, 4, 5, 6, 7, true}});
  CHECK(samples[0].sample.connections.at(0).bytes == 9);
  CHECK(samples[0].sample.output_bytes == 10);
  CHECK(samples[0].sample.is_complete);
  CHECK(samples[0].sample.gpu == GpuSample{11, 12});
  CHECK(samples[0].sample.handed_on == 13);
  CHECK(samples[1].sample.gpu == GpuSample{11, std::nullopt});
  REQUIRE(shown.size() == 3);
  CHECK_FALSE(shown[0].has_news());
  CHECK(shown[0].samples == 2);
  CHECK(shown[0].elapsed == 110ms);
  CHECK(shown[1].elapsed == 55ms);
  CHECK(shown[1].now == 1'000);
  REQUIRE(shown[2].ranks.size() == 1);
  const RankView& seen = shown[2].ranks[0];
  CHECK(seen.page == ranks[0].page);
  CHECK(seen.process == ranks[0].process);
  CHECK(seen.activity == ranks[0].activity);
  CHECK(seen.calls == ranks[0].calls);
}

TEST_CASE("an unwritable hang trace is reported once, and a missing path gives no trace") {
  std::vector<std::string> messages;
  const auto tell = [&](const std::string& sentence) { messages.push_back(sentence); };
  HangTrace unwanted("", tell);
  unwanted.add(made_picture({}, 1s, 1));
  CHECK(messages.empty());
  HangTrace nowhere("/no/such/folder/trace", tell);
  nowhere.add(made_picture({}, 1s, 1));
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].find("DDP_HANG_TRACE=/no/such/folder/trace: No such file or directory") != std::string::npos);
  HangTrace full("/dev/full", tell);
  full.add(made_picture({}, 1s, 1));
  full.add(made_picture({}, 1s, 1));
  CHECK(messages.size() == 2);
}

TEST_CASE("text that is not a line of a hang trace is ignored") {
  for (const char* line :
       {"", "{}", "[1]", "{\"elapsed\":\"long\"}", "{\"elapsed\":1,\"now\":2}", "{\"elapsed\":1,", "{\"sample\":[]}"}) {
    CHECK_FALSE(parse_traced_line(line));
  }
}
