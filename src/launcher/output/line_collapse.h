// LineCollapse: the same line of several ranks becomes one line of all of them. Pure: the time is an argument.
//
// Lines wait in one queue, in the order in which they came. A rank that says a line which waits already, after
// everything that the rank itself has said before, joins it; else the line goes to the end of the queue. Lines leave at
// the queue's head only, so the lines of a rank keep their order, and a rank is in a line once, so its own repetitions
// stay. A line leaves when no rank can join it any more (every rank that may still speak has said it, or something
// behind it), when it has waited for the window, or when the queue is full.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/line_tag.h"

namespace ddp::launcher {

using OutputTime = std::chrono::steady_clock::time_point;

// What goes to a console: a piece of a stream, or a whole line that several ranks have said.
struct OutputLine {
  LinePiece piece;
  int stream = 0;      // of the first who said it; pieces of a line have the same
  int local_rank = 0;  // of the first who said it
  int times = 1;       // ranks that said it
  RankBits ranks;      // all of them, if times > 1
  bool tagged = true;
};

class LineCollapse {
 public:
  struct Bounds {
    std::size_t lines = limits::kCollapseLines;
    std::size_t bytes = limits::kCollapseBytes;
    std::chrono::milliseconds window = limits::kCollapseWindow;
  };
  using Emit = std::function<void(const OutputLine&)>;

  // For local ranks below `ranks`. `emit` must not call back.
  LineCollapse(int ranks, Bounds bounds, Emit emit);

  // A rank may speak from enter() until as many leave(); its other streams may still do so.
  void enter(int local_rank);
  void leave(int local_rank);

  // Parts of lines are never joined, but keep their place.
  void say(int local_rank, int stream, const LinePiece& piece, OutputTime now);

  // When the oldest line has waited for the window; nothing if none waits.
  std::optional<OutputTime> due() const;
  void emit_due(OutputTime now);
  void emit_all();

 private:
  using Sequence = std::uint64_t;  // of a line, from 1 on; 0: none

  struct Entry {
    OutputTime came;
    std::uint64_t text_begin = 0;  // counted from the first byte ever
    Sequence next = 0;             // in its bucket
    std::uint64_t hash = 0;
    std::uint32_t text_size = 0;
    int stream = 0;
    int local_rank = 0;
    int times = 0;
    bool begins = true;
    bool ends = true;
  };
  struct Bucket {
    Sequence first = 0;
    Sequence last = 0;
  };
  struct Speaker {
    Sequence last = 0;  // the last line that it has said
    int streams = 0;
  };

  Entry& entry(Sequence line) { return entries_[line & mask_]; }
  std::uint64_t* bits(Sequence line) { return &bits_[(line & mask_) * words_]; }
  std::string_view text(const Entry& entry) const;
  // The waiting line that this rank may join; 0: none.
  Sequence find(Sequence after, std::uint64_t hash, std::string_view text);
  bool matches(Sequence line, std::uint64_t hash, std::string_view text);
  void append(int local_rank, int stream, const LinePiece& piece, std::uint64_t hash, OutputTime now);
  void join(Sequence line, int local_rank);
  // Emits the lines that no rank can join any more, if this line is one of them.
  void emit_if_final(Sequence line);
  void emit_to(Sequence line);
  void emit_head();
  void grow();

  Bounds bounds_;
  Emit emit_;
  std::size_t words_;  // of the bits of a line
  std::vector<Speaker> speakers_;
  int speaking_ = 0;
  Sequence head_ = 1;
  Sequence end_ = 1;        // one behind the last
  std::uint64_t mask_ = 0;  // capacity - 1; the capacity is a power of two
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> bits_;
  std::vector<Bucket> buckets_;
  std::string text_;              // of the waiting lines
  std::uint64_t text_begin_ = 0;  // the number of text_'s first byte
};

}  // namespace ddp::launcher
