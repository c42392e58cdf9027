// Plays what NCCL 2.28.9 reported on an H200 (version 5 of the interface). Two processes shared the GPU. The lines were
// written by a plug-in that asked for all events: time, thread, and the event with its members.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/run/ranks/launches.h"
#include "launcher/run/ranks/root_causes.h"
#include "support/nccl_worker.h"

using namespace ddp::launcher;
using namespace ddp::test;

namespace {

// Splits "start CollApi h=0x20 rank=0 AllReduce count=1024 ncclFloat32" into words without "=", and values by name.
struct Line {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;

  explicit Line(const std::string& text) {
    std::istringstream stream(text);
    for (std::string word; stream >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        words.push_back(word);
      } else {
        values[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
  }
  bool is(const std::string& event) const { return words.size() > 3 && words[2] == "start" && words[3] == event; }
  std::size_t number(const std::string& name) const { return std::stoul(values.at(name), nullptr, 0); }
};

std::vector<Line> lines_of(const std::string& name) {
  std::ifstream file(std::string(DDP_TEST_SOURCE_DIR) + "/tests/recorded/nccl_profiler/" + name);
  REQUIRE(file);
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) lines.emplace_back(text);
  return lines;
}

// Plays the lines of one rank, with other IDs of the communicators. Returns these IDs. A call belongs to the
// communicator that was made last, as it did in the program.
std::vector<std::uint64_t> play(const std::string& name) {
  NcclPlayer player = played(5);
  std::vector<std::uint64_t> ids;
  std::vector<NcclPlayer::Communicator> comms;
  const std::vector<Line> lines = lines_of(name);
  std::map<std::string, void*> handles;  // of the plug-in, by those that were recorded
  for (const Line& line : lines) {
    if (line.words.size() > 2 && line.words[2] == "init") {
      ids.push_back(new_id());
      comms.push_back(
          player.init(ids.back(), static_cast<int>(line.number("n")), static_cast<int>(line.number("rank"))));
    } else if (line.is("CollApi")) {
      const bool is_captured = line.values.at("captured").starts_with('1');
      const auto launch = std::ranges::find_if(
          lines, [&](const Line& one) { return one.is("Coll") && one.values.at("parent") == line.values.at("h"); });
      if (launch != lines.end()) player.channels = static_cast<std::uint8_t>(launch->number("ch"));
      void* const made =
          player.collective(comms.back(), line.words[4].c_str(), line.number("count"), line.words[5].c_str(),
                            static_cast<int>(line.number("root")), is_captured, /*runs=*/false);
      if (launch != lines.end()) handles[launch->values.at("h")] = made;
    } else if (line.is("KernelCh")) {
      handles[line.values.at("h")] = player.begin_kernel(comms.back(), handles[line.values.at("parent")]);
    } else if (line.words.size() > 3 && line.words[2] == "state" && line.words[3] == "22") {
      player.end_kernel(handles[line.values.at("h")]);
    } else if (line.is("P2p")) {
      player.transfer(comms.back(), line.words[4].c_str(), line.number("count"), static_cast<int>(line.number("peer")),
                      line.words[5].c_str());
    }
  }
  for (auto& comm : comms) player.finalize(comm);
  return ids;
}

}  // namespace

TEST_CASE("events recorded from NCCL on an H200 are on the page") {
  const auto ids = play("events.0.txt");
  REQUIRE(ids.size() == 3);
  const auto calls = worker().calls(ids[0]);
  REQUIRE(calls.size() == 4);
  CHECK(calls[0].what == "all_reduce f32[1024]");
  CHECK(calls[2].what == "broadcast root 1 f32[262144]");
  CHECK(calls[3].what == "all_gather f32[1024]");
  CHECK(worker().group(ids[0])->launches == LaunchView{true, 4, 3, 1, false});
  CHECK(worker().group(ids[1])->transfers_called == 1);
  CHECK(worker().group(ids[2])->called == 2);
  CHECK_FALSE(worker().group(ids[2])->launches->is_complete);  // the program captured a graph
}

TEST_CASE("kernel events recorded from NCCL on an H200 are on the page") {
  ::setenv("DDP_LAST_FAILURE", "[DDP-H07 transport]", 1);
  const auto ids = play("events.0.txt");
  ::unsetenv("DDP_LAST_FAILURE");
  REQUIRE(ids.size() == 3);
  const auto group = worker().group(ids[0]);
  CHECK(group->launches->kernels_from == 1);
  CHECK(group->gpu_started == 4);
  CHECK(group->gpu_finished == 4);
  CHECK(worker().group(ids[2])->gpu_finished > 0);
}

TEST_CASE("a hang on an H200 is named from NCCL's recorded events") {
  std::vector<RankView> ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto ids = play("skip." + std::to_string(rank) + ".txt");
    REQUIRE(ids.size() == 1);
    RankView& view = ranks[static_cast<std::size_t>(rank)];
    view.rank = rank;
    view.page.is_written = true;
    view.page.groups = {worker().group(ids[0]).value()};
    view.page.groups[0].identity = 1;
    view.page.groups[0].is_left = false;  // when the job hung, it still existed
    view.calls = {worker().calls(ids[0])};
  }
  CHECK(ranks[0].page.groups[0].called == 8);
  CHECK(ranks[1].page.groups[0].called == 6);
  complete_launches(ranks, differences_of(ranks, true, {}));
  const auto found = find_verdicts(ranks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::not_called);
  CHECK(found[0].culprits == std::vector{1});
  CHECK(found[0].sequence == 7);
  CHECK(found[0].group == "ranks 0, 1");
}
