#pragma once

#include <unistd.h>

#include <string>

namespace ddp::bench {

// Writes `lines` lines of about 40 bytes to stdout, as fast as the reader takes them. If `same`, the lines of all ranks
// are equal. Returns false if stdout takes no more.
inline bool write_lines(int rank, int lines, bool same) {
  const std::string start = same ? "all ranks " : "rank " + std::to_string(rank) + " step ";
  std::string block;
  for (int i = 0; i < lines; ++i) {
    block += start + std::to_string(1'000'000 + i) + " loss 0.693147 lr 0.001\n";
    if (block.size() < 65'536 && i + 1 < lines) continue;
    for (std::size_t at = 0; at < block.size();) {
      const ssize_t written = ::write(STDOUT_FILENO, block.data() + at, block.size() - at);
      if (written <= 0) return false;
      at += static_cast<std::size_t>(written);
    }
    block.clear();
  }
  return true;
}

}  // namespace ddp::bench
