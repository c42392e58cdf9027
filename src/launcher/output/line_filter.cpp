#include "launcher/output/line_filter.h"

#include <algorithm>

namespace ddp::launcher {

std::string LineFilter::open(const std::string& path) {
  if (!wanted() || path.empty() || path == file_.path()) return "";
  auto fd = open_log_file(path);
  if (!fd) return fd.error().message;
  file_ = LogFile(path, std::move(fd).value());
  return "";
}

void LineFilter::take(const LinePiece& piece, const std::function<std::string()>& tag, bool& matches,
                      const LogFile::Failed& failed) {
  const bool goes_on = matches && !piece.begins;
  const auto is_in = [&](const std::string& word) { return piece.text.find(word) != std::string_view::npos; };
  if (goes_on || std::any_of(words_.begin(), words_.end(), is_in)) {
    file_.write((goes_on ? std::string() : tag()) + std::string(piece.text), failed);
    matches = !piece.ends;
  } else {
    matches = false;
  }
}

}  // namespace ddp::launcher
