#include "launcher/run/output/line_splitter.h"

namespace ddp::launcher {

void GatheredLines::feed(std::uint64_t node, int which, std::string_view bytes) {
  Stream& stream = streams_[{node, which}];
  stream.splitter.feed(bytes, [&](const LinePiece& piece) { pass_on(which, stream.line, piece); });
}

void GatheredLines::finish() {
  for (auto& [key, stream] : streams_) {
    const int which = key.second;
    std::string& line = stream.line;
    stream.splitter.finish([&](const LinePiece& piece) { pass_on(which, line, piece); });
    if (!line.empty()) sink_(which, line + "\n");
  }
  streams_.clear();
}

// Only the last state of a progress bar is kept, because it has overwritten the earlier ones.
void GatheredLines::pass_on(int which, std::string& line, const LinePiece& piece) {
  if (piece.text.ends_with('\r')) {
    line = piece.text.substr(0, piece.text.size() - 1);
    return;
  }
  if (!piece.ends) {
    sink_(which, std::string(piece.text) + "\n");
    return;
  }
  if (!piece.is_only_an_end() || line.empty()) line = piece.text.substr(0, piece.text.size() - 1);
  if (line.ends_with('\r')) line.pop_back();
  sink_(which, line + "\n");
  line.clear();
}

}  // namespace ddp::launcher
