// LineCollapse: the same line of several ranks becomes one line of all of them. Pure: the time is an argument.
//
// Lines wait in one order, in which every rank's lines have the order in which it said them. A rank that says a line
// which waits already joins it, if that line is behind the last one that it shares with others. What the rank has said
// alone in between moves in front of that line, which disturbs nobody else's order: so ranks that greet by their own
// names first still share what follows. Any other line goes to the end. A rank is in a line once, so its own
// repetitions stay. Lines leave from the front: when no rank that may still speak can join them, when they have waited
// for the window, or when too many wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/limits.h"
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
  bool gathered = false;  // of another node, which cannot be held back
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
  void enter(int local_rank) {
    if (speaker(local_rank).streams++ == 0) ++speaking_;
  }
  void leave(int local_rank);

  // Parts of lines are never joined, but keep their place.
  void say(int local_rank, int stream, const LinePiece& piece, OutputTime now);

  // When the oldest line has waited for the window; nothing if none waits.
  std::optional<OutputTime> due() const;
  void emit_due(OutputTime now);
  void emit_all() {
    if (back_ != 0) emit_through(back_);
  }

 private:
  using Sequence = std::uint64_t;  // of a line as it came, from 1 on; 0: none
  using Place = std::uint64_t;     // in the order; there is room between two places

  struct Entry {
    OutputTime came;
    std::uint64_t text_begin = 0;  // counted from the first byte ever
    std::uint64_t hash = 0;
    Place place = 0;
    Sequence before = 0;          // in the order
    Sequence behind = 0;          // in the order
    Sequence next_in_bucket = 0;  // as they came
    Sequence next_alone = 0;      // of the same rank
    std::uint32_t text_size = 0;
    int stream = 0;
    int local_rank = 0;
    int times = 0;
    bool whole = true;  // else a part
    bool begins = true;
    bool ends = true;
    bool gone = false;  // emitted, but an earlier one still waits
  };
  struct Bucket {
    Sequence first = 0;
    Sequence last = 0;
  };
  struct Speaker {
    Place shared_place = 0;    // of the last line that it shares, emitted or not
    Sequence shared = 0;       // that line
    Sequence alone_first = 0;  // what it alone has said since, and waits
    Sequence alone_last = 0;
    int streams = 0;
  };

  Entry& entry(Sequence line) { return entries_[line & mask_]; }
  Speaker& speaker(int local_rank) { return speakers_[static_cast<std::size_t>(local_rank)]; }
  std::uint64_t* bits(Sequence line) { return &bits_[(line & mask_) * words_]; }
  std::string_view text(const Entry& entry) const;
  bool waits(Sequence line) { return line >= head_ && line < end_ && !entry(line).gone; }

  // The waiting line that this rank may join; 0: none.
  Sequence find(int local_rank, std::uint64_t hash, std::string_view text);
  bool can_join(Sequence line, int local_rank, std::uint64_t hash, std::string_view text);
  // Moves what the rank alone has said in front of the line; false if there is too much of it, or no room.
  bool move_in_front(Sequence line, int local_rank);
  void join(Sequence line, int local_rank);
  void share(Sequence line, int local_rank);

  void append(int local_rank, int stream, const LinePiece& piece, std::uint64_t hash, OutputTime now);
  void make_room(std::size_t text_size);
  void grow();
  void link(Sequence line, Sequence before, Sequence behind);
  void unlink(Sequence line);
  void put_in_bucket(Sequence line, std::vector<Entry>& entries, std::uint64_t mask);

  // Emits the lines that no rank can join any more, if this line is one of them.
  void emit_if_final(Sequence line);
  // Emits this line and all in front of it.
  void emit_through(Sequence line);
  void emit(Sequence line);
  void forget_gone();

  Bounds bounds_;
  Emit emit_;
  std::size_t words_;  // of the bits of a line
  std::vector<Speaker> speakers_;
  int speaking_ = 0;
  Sequence head_ = 1;       // the first that came and waits
  Sequence end_ = 1;        // one behind the last that came
  Sequence front_ = 0;      // of the order
  Sequence back_ = 0;       // of the order
  Place emitted_ = 0;       // the last place that was emitted
  std::uint64_t mask_ = 0;  // capacity - 1; the capacity is a power of two
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> bits_;
  std::vector<Bucket> buckets_;
  std::string text_;              // of the waiting lines
  std::uint64_t text_begin_ = 0;  // the number of text_'s first byte
};

}  // namespace ddp::launcher
