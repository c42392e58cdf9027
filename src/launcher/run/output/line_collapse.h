// LineCollapse turns the same line of several ranks into one line of all of them. It is pure: the time is an argument.
//
// Lines wait in one order, in which every rank's lines keep the order in which the rank printed them. If a rank prints
// a line that already waits, it joins that line. The line must be behind the last line that the rank shares with
// others. Lines that the rank alone has printed in between move in front of that line, which changes no other rank's
// order. Therefore ranks that first print different greetings still share the lines that follow. Any other line goes to
// the end. A rank is in a line only once, so its own repetitions stay. Lines leave from the front. A line leaves when
// no rank that may still print can join it, when it has waited for the window, or when too many lines wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/limits.h"
#include "launcher/run/output/line_splitter.h"
#include "launcher/run/output/line_tag.h"

namespace ddp::launcher {

using OutputTime = std::chrono::steady_clock::time_point;

// Describes what goes to a console: a piece of a stream, or a whole line that several ranks have printed.
struct OutputLine {
  LinePiece piece;
  int stream = 0;      // stream of the first rank that printed it; all pieces of a line have the same one
  int local_rank = 0;  // the first rank that printed it
  int times = 1;       // number of ranks that printed it
  RankBits ranks;      // all of these ranks, if times > 1
  bool tagged = true;
  bool gathered = false;  // printed on another node, which cannot be held back
};

class LineCollapse {
 public:
  struct Bounds {
    std::size_t lines = limits::kCollapseLines;
    std::size_t bytes = limits::kCollapseBytes;
    std::chrono::milliseconds window = limits::kCollapseWindow;
  };
  using Emit = std::function<void(const OutputLine&)>;

  // Handles local ranks below `ranks`. `emit` must not call this object.
  LineCollapse(int ranks, Bounds bounds, Emit emit);

  // enter() and leave() are called once for each stream of a rank. The rank may print until it has left with all of
  // them.
  void enter(int local_rank) {
    if (speaker(local_rank).streams++ == 0) ++speaking_;
  }
  void leave(int local_rank);

  // Parts of lines are never joined, but they keep their place.
  void say(int local_rank, int stream, const LinePiece& piece, OutputTime now);

  // Returns when the oldest line has waited for the window, or std::nullopt if no line waits.
  std::optional<OutputTime> due() const;
  void emit_due(OutputTime now);
  void emit_all() {
    if (back_ != 0) emit_through(back_);
  }

 private:
  using Sequence = std::uint64_t;  // number of a line by arrival, from 1 on; 0 means no line
  using Place = std::uint64_t;     // place in the order; there are free numbers between two places

  struct Entry {
    OutputTime came;
    std::uint64_t text_begin = 0;  // offset from the first byte of the output
    std::uint64_t hash = 0;
    Place place = 0;
    Sequence before = 0;          // previous line in the order
    Sequence behind = 0;          // next line in the order
    Sequence next_in_bucket = 0;  // next line in the bucket, by arrival
    Sequence next_alone = 0;      // next line that only the same rank has printed
    std::uint32_t text_size = 0;
    int stream = 0;
    int local_rank = 0;
    int times = 0;
    bool begins = true;
    bool ends = true;
    bool gone = false;  // emitted while an earlier line still waits

    bool whole() const { return begins && ends; }  // false for a part of a line
  };
  struct Bucket {
    Sequence first = 0;
    Sequence last = 0;
  };
  struct Speaker {
    Place shared_place = 0;    // place of the last line that the rank shares, emitted or not
    Sequence shared = 0;       // the last line that the rank shares
    Sequence alone_first = 0;  // first waiting line that only this rank has printed since then
    Sequence alone_last = 0;
    int streams = 0;
  };

  Entry& entry(Sequence line) { return entries_[line & mask_]; }
  Speaker& speaker(int local_rank) { return speakers_[static_cast<std::size_t>(local_rank)]; }
  std::uint64_t* bits(Sequence line) { return &bits_[(line & mask_) * words_]; }
  std::string_view text(const Entry& entry) const;
  bool waits(Sequence line) { return line >= head_ && line < end_ && !entry(line).gone; }

  // Returns the waiting line that this rank may join, or 0 if there is none.
  Sequence find(int local_rank, std::uint64_t hash, std::string_view text);
  bool can_join(Sequence line, int local_rank, std::uint64_t hash, std::string_view text);
  // Moves the lines that only this rank has printed in front of `line`. Returns false if there are too many of them, or
  // if there are not enough free places.
  bool move_in_front(Sequence line, int local_rank);
  void join(Sequence line, int local_rank);
  void share(Sequence line, int local_rank);

  void append(int local_rank, int stream, const LinePiece& piece, std::uint64_t hash, OutputTime now);
  void make_room(std::size_t text_size);
  void grow();
  void link(Sequence line, Sequence before, Sequence behind);
  void unlink(Sequence line);
  void put_in_bucket(Sequence line, std::vector<Entry>& entries, std::uint64_t mask);

  // Emits the lines that no rank can join anymore, if this line is one of them.
  void emit_if_final(Sequence line);
  // Emits this line and all lines in front of it.
  void emit_through(Sequence line);
  void emit(Sequence line);
  void forget_gone();

  Bounds bounds_;
  Emit emit_;
  std::size_t words_;  // number of words for the bits of a line
  std::vector<Speaker> speakers_;
  int speaking_ = 0;
  Sequence head_ = 1;       // first line by arrival that waits
  Sequence end_ = 1;        // one behind the last line by arrival
  Sequence front_ = 0;      // first line in the order
  Sequence back_ = 0;       // last line in the order
  Place emitted_ = 0;       // the last place that was emitted
  std::uint64_t mask_ = 0;  // capacity - 1; the capacity is a power of two
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> bits_;
  std::vector<Bucket> buckets_;
  std::string text_;              // texts of the waiting lines
  std::uint64_t text_begin_ = 0;  // position of the first byte of `text_`
};

}  // namespace ddp::launcher
