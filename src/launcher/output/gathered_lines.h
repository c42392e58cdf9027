// GatheredLines: the output of other nodes, which comes in pieces as they were read there, as whole lines. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/output/line_splitter.h"

namespace ddp::launcher {

class GatheredLines {
 public:
  // A line with its end. A line of more than limits::kLineBytes comes in parts, each with an end of its own.
  using Sink = std::function<void(int which, std::string_view line)>;

  explicit GatheredLines(Sink sink) : sink_(std::move(sink)) {}

  // `node`: its connection. `which`: kStdout or kStderr. A progress bar is shown as it is when its line has ended.
  void feed(std::uint64_t node, int which, std::string_view bytes);
  // Nothing more comes from anybody: unfinished lines are ended.
  void finish();

 private:
  void pass_on(int which, std::string& line, const LinePiece& piece);

  struct Stream {
    LineSplitter splitter;
    std::string line;  // pieces of one that has no end yet
  };
  const Sink sink_;
  std::map<std::pair<std::uint64_t, int>, Stream> streams_;
};

}  // namespace ddp::launcher
