// WorkerStream: what the pump knows of one stream of one worker. A value with descriptors; it decides nothing.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/output/line_collapse.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/log_file.h"
#include "launcher/output/stream_tail.h"
#include "launcher/plan/output_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

inline constexpr int kStdout = 0;
inline constexpr int kStderr = 1;

struct WorkerStream {
  int id = 0;
  int local_rank = 0;
  int which = kStdout;
  StreamPlan plan;
  base::UniqueFd fd;      // none: closed, or the worker writes to its file itself
  bool terminal = false;  // the descriptor is one
  bool waiting = false;   // for room on the console
  LogFile file;
  std::string direct_file;  // the worker writes to it itself
  LineSplitter splitter;
  StreamTail tail{0};
  std::uint64_t bytes = 0;                     // that were read from it
  bool filter_matches = false;                 // the current line
  std::optional<OutputTime> unfinished_since;  // of what has not been shown
  std::unique_ptr<net::Watch> watch;
};

// By the worker so far, also straight to its file.
inline std::uint64_t bytes_written(const WorkerStream& stream) {
  struct stat status {};
  const bool has_file = !stream.direct_file.empty() && ::stat(stream.direct_file.c_str(), &status) == 0;
  return stream.bytes + (has_file ? static_cast<std::uint64_t>(status.st_size) : 0);
}

struct StreamEnd {
  std::string text;
  bool is_cut = false;  // there was more before it
};

// Empty for a null pointer.
inline StreamEnd tail_of(const WorkerStream* stream) {
  if (stream == nullptr) return {};
  if (stream->direct_file.empty()) return {std::string(stream->tail.kept()), stream->tail.cut()};
  StreamEnd end;
  end.text = last_bytes_of_file(stream->direct_file, limits::kTailBytes, end.is_cut);
  return end;
}

}  // namespace ddp::launcher
