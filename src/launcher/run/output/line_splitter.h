// LineSplitter turns the bytes of one stream into lines. It is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/output/line_splitter.h"

namespace ddp::launcher {

// Describes a line, or a part of one. All texts of a stream put together are the stream.
struct LinePiece {
  std::string_view text;  // includes its end: "\n", "\r\n", or "\r" (a progress bar); valid during the call only
  bool begins = true;     // false if it continues the line of the previous piece
  bool ends = true;       // false if the next piece continues it

  bool is_only_an_end() const { return text == "\n" || text == "\r\n"; }
  friend bool operator==(const LinePiece&, const LinePiece&) = default;
};

//   LineSplitter lines;
//   lines.feed(chunk, [&](const LinePiece& piece) { … });
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t longest = limits::kLineBytes) : longest_(longest) {}

  // Passes on every line that `bytes` completes. The rest, at most `longest` bytes, is kept; a longer line is passed on
  // in parts. A "\r" at the end of `bytes` is kept as well, because a "\n" may follow.
  template <typename Sink>
  void feed(std::string_view bytes, Sink&& sink);

  // Must be called when no more bytes are available for the moment. Passes on a line that ends with "\r". If a "\n"
  // follows later, it becomes a separate piece.
  template <typename Sink>
  void settle(Sink&& sink) {
    if (holds_return()) give_carry(true, sink);
  }

  // Passes on the part of the unfinished line that is kept.
  template <typename Sink>
  void show_unfinished(Sink&& sink) {
    if (!carry_.empty()) give_carry(holds_return(), sink);
  }

  // Ends the stream. An unfinished line gets a "\n", which is the only byte that was not in the stream.
  template <typename Sink>
  void finish(Sink&& sink) {
    settle(sink);
    if (carry_.empty() && !inside_) return;
    carry_ += '\n';
    give_carry(true, sink);
  }

  // Returns whether a part of the line is kept and was not passed on.
  bool unfinished() const { return !carry_.empty(); }

 private:
  bool holds_return() const { return !carry_.empty() && carry_.back() == '\r'; }

  template <typename Sink>
  void give(std::string_view text, bool ends, Sink& sink) {
    sink(LinePiece{text, !inside_, ends});
    inside_ = !ends;
  }
  template <typename Sink>
  void give_carry(bool ends, Sink& sink) {
    // The sink may not feed this splitter, so the carry stays unchanged meanwhile.
    after_return_ = ends && carry_.back() == '\r';
    give(carry_, ends, sink);
    carry_.clear();
  }
  template <typename Sink>
  void give_whole(std::string_view line, Sink& sink);
  template <typename Sink>
  void keep(std::string_view rest, Sink& sink);
  // Handles a "\n" at the front of `bytes` that belongs to a "\r" in the carry, or to one that was passed on. Returns
  // the number of bytes that were used.
  template <typename Sink>
  std::size_t resume_return(std::string_view bytes, Sink& sink);

  std::size_t longest_;
  std::string carry_;
  bool inside_ = false;        // a part of the current line was passed on
  bool after_return_ = false;  // the last piece ended with a "\r", and a "\n" may follow
};

template <typename Sink>
std::size_t LineSplitter::resume_return(std::string_view bytes, Sink& sink) {
  const bool newline = bytes.front() == '\n';
  if (holds_return()) {
    if (newline) carry_ += '\n';
    give_carry(true, sink);
    after_return_ = false;
    return newline ? 1 : 0;
  }
  const bool late = after_return_ && newline;
  after_return_ = false;
  if (!late) return 0;
  inside_ = true;
  give(bytes.substr(0, 1), true, sink);
  return 1;
}

template <typename Sink>
void LineSplitter::keep(std::string_view rest, Sink& sink) {
  while (carry_.size() + rest.size() > longest_) {
    const std::size_t fits = longest_ - carry_.size();
    carry_.append(rest.substr(0, fits));
    rest.remove_prefix(fits);
    give_carry(false, sink);
  }
  carry_.append(rest);
}

template <typename Sink>
void LineSplitter::give_whole(std::string_view line, Sink& sink) {
  if (carry_.empty() && line.size() <= longest_) return give(line, true, sink);
  keep(line, sink);
  give_carry(true, sink);
  after_return_ = false;
}

template <typename Sink>
void LineSplitter::feed(std::string_view bytes, Sink&& sink) {
  if (bytes.empty()) return;
  const char* const end = bytes.data() + bytes.size();
  const char* at = bytes.data() + resume_return(bytes, sink);
  const auto find = [&](const char* from, char what) {
    const void* found = from == end ? nullptr : std::memchr(from, what, static_cast<std::size_t>(end - from));
    return found == nullptr ? end : static_cast<const char*>(found);
  };
  // Most output has no "\r", so it is searched for once per chunk and not once per line.
  const char* next_return = find(at, '\r');
  while (at != end) {
    const char* const newline = find(at, '\n');
    while (next_return < newline && next_return + 1 != end && next_return + 1 != newline) {
      give_whole({at, static_cast<std::size_t>(next_return + 1 - at)}, sink);
      at = next_return + 1;
      next_return = find(at, '\r');
    }
    if (newline == end) break;
    give_whole({at, static_cast<std::size_t>(newline + 1 - at)}, sink);
    at = newline + 1;
    if (next_return < at) next_return = find(at, '\r');
  }
  keep({at, static_cast<std::size_t>(end - at)}, sink);
}

// GatheredLines turns the output of other nodes into whole lines. The output arrives in pieces, as it was read there.
// The class is pure.
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
