// WorkerStream holds what the pump knows about one stream of one worker. It is a value with descriptors, and makes no
// decisions.
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
  base::UniqueFd fd;      // empty if it is closed, or if the worker writes to its file directly
  bool terminal = false;  // whether the descriptor is a terminal
  bool waiting = false;   // waits for space on the console
  LogFile file;
  std::string direct_file;  // file to which the worker writes directly
  LineSplitter splitter;
  StreamTail tail{0};
  std::uint64_t bytes = 0;                     // number of bytes that were read from it
  bool filter_matches = false;                 // whether the current line matches the filter
  std::optional<OutputTime> unfinished_since;  // since when there is text that was not shown
  std::unique_ptr<net::Watch> watch;
};

// Returns how many bytes the worker has written so far, including bytes that go straight to its file.
inline std::uint64_t bytes_written(const WorkerStream& stream) {
  struct stat status {};
  const bool has_file = !stream.direct_file.empty() && ::stat(stream.direct_file.c_str(), &status) == 0;
  return stream.bytes + (has_file ? static_cast<std::uint64_t>(status.st_size) : 0);
}

struct StreamEnd {
  std::string text;
  bool is_cut = false;  // there was more before it
};

// Returns an empty value for a null pointer.
inline StreamEnd tail_of(const WorkerStream* stream) {
  if (stream == nullptr) return {};
  if (stream->direct_file.empty()) return {std::string(stream->tail.kept()), stream->tail.cut()};
  StreamEnd end;
  end.text = last_bytes_of_file(stream->direct_file, limits::kTailBytes, end.is_cut);
  return end;
}

}  // namespace ddp::launcher
