// GatheredLines turns the output of other nodes into whole lines. The output arrives in pieces, as it was read there.
// The class is pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/run/output/line_splitter.h"

namespace ddp::launcher {

class GatheredLines {
 public:
  // Receives a line with its end. A line of more than limits::kLineBytes comes in parts, each with an end.
  using Sink = std::function<void(int which, std::string_view line)>;

  explicit GatheredLines(Sink sink) : sink_(std::move(sink)) {}

  // `node` is the connection of a node, and `which` is kStdout or kStderr. A progress bar is shown in its last state,
  // when its line has ended.
  void feed(std::uint64_t node, int which, std::string_view bytes);
  // Ends unfinished lines. No node may send output after this.
  void finish();

 private:
  void pass_on(int which, std::string& line, const LinePiece& piece);

  struct Stream {
    LineSplitter splitter;
    std::string line;  // pieces of a line that has not ended yet
  };
  const Sink sink_;
  std::map<std::pair<std::uint64_t, int>, Stream> streams_;
};

}  // namespace ddp::launcher
