// explain_hang [WORLD_SIZE] FILE...: reads dumps of the flight recorder and logs, and prints what is decided as one
// line of JSON. A log's lines have PyTorch's own tags, or none.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/see/explain/flight_dump.h"
#include "launcher/see/explain/hang_records.h"
#include "launcher/see/explain/watchdog_lines.h"

namespace {

using namespace ddp::launcher;

std::string kind_name(HangKind kind) {
  constexpr const char* kNames[] = {"none",       "not_called",    "mismatch",
                                    "all_called", "circular_wait", "cannot_be_decided"};
  return kNames[static_cast<std::size_t>(kind)];
}

nlohmann::json described(const HangFinding& finding) {
  return {{"kind", kind_name(finding.kind)},
          {"group", finding.group},
          {"operation", finding.call.operation},
          {"number", finding.call.number},
          {"culprits", finding.culprits},
          {"waiting", finding.waiting},
          {"ranks_of_group", finding.has_ranks_of_group},
          {"missing", finding.missing},
          {"text", hang_text(finding)}};
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> files(words + 1, words + count);
  std::optional<int> world_size;
  if (!files.empty()) {
    if (const auto number = ddp::base::parse_integer(files.front(), 1, 1'000'000)) {
      world_size = static_cast<int>(*number);
      files.erase(files.begin());
    }
  }
  std::vector<CollectiveRecords> records;
  WatchdogLines lines;
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (may_be_flight_dump(bytes)) {
      auto dump = read_flight_dump(bytes, name);
      if (!dump) {
        std::fprintf(stderr, "%s\n", dump.error().message.c_str());
        return 1;
      }
      for (CollectiveRecords& one : dump.value()) records.push_back(std::move(one));
    } else {
      for (const std::string& line : ddp::base::split(bytes, '\n')) lines.add(std::nullopt, line);
    }
  }
  for (CollectiveRecords& one : lines.records()) records.push_back(std::move(one));
  std::printf("%s\n", described(judge_hang(records, world_size)).dump().c_str());
  return 0;
}
