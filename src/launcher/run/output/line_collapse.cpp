#include "launcher/run/output/line_collapse.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kFirstCapacity = 256;
constexpr std::uint64_t kRoom = std::uint64_t{1} << 20;  // distance between two places at the end of the order
constexpr std::uint64_t kStep = 16;                      // distance between the places of lines that were moved
constexpr int kMoves = 64;                               // most lines that move when a rank joins a line
constexpr std::size_t kBitWords = 262'144;  // with many ranks, fewer lines wait, so that their bits stay small

}  // namespace

LineCollapse::LineCollapse(int ranks, Bounds bounds, Emit emit)
    : bounds_(bounds),
      emit_(std::move(emit)),
      words_((static_cast<std::size_t>(ranks) + 63) / 64),
      speakers_(static_cast<std::size_t>(ranks)) {
  DDP_CHECK(ranks > 0 && bounds.lines > 0, ranks, bounds.lines);
  bounds_.lines = std::min(bounds_.lines, kBitWords / words_);
  grow();
}

void LineCollapse::grow() {
  const std::size_t old = entries_.size();
  const std::size_t capacity = old == 0 ? std::min(kFirstCapacity, std::bit_ceil(bounds_.lines)) : old * 2;
  std::vector<Entry> entries(capacity);
  std::vector<std::uint64_t> all_bits(capacity * words_);
  const std::uint64_t mask = capacity - 1;
  buckets_.assign(capacity, {});
  for (Sequence line = head_; line != end_; ++line) {
    std::copy_n(bits(line), words_, &all_bits[(line & mask) * words_]);
    entries[line & mask] = entry(line);
    put_in_bucket(line, entries, mask);
  }
  entries_ = std::move(entries);
  bits_ = std::move(all_bits);
  mask_ = mask;
}

void LineCollapse::put_in_bucket(Sequence line, std::vector<Entry>& entries, std::uint64_t mask) {
  Entry& one = entries[line & mask];
  one.next_in_bucket = 0;
  if (!one.whole()) return;
  Bucket& bucket = buckets_[one.hash & mask];
  (bucket.first == 0 ? bucket.first : entries[bucket.last & mask].next_in_bucket) = line;
  bucket.last = line;
}

void LineCollapse::leave(int local_rank) {
  DDP_CHECK(speaker(local_rank).streams > 0, local_rank);
  if (--speaker(local_rank).streams > 0) return;
  --speaking_;
  if (speaking_ == 0) return emit_all();
  // The other ranks may have waited for this one.
  Place shared_by_all = ~Place{0};
  for (const Speaker& other : speakers_) {
    if (other.streams > 0) shared_by_all = std::min(shared_by_all, other.shared_place);
  }
  while (front_ != 0 && entry(front_).place <= shared_by_all) emit(front_);
  forget_gone();
}

std::string_view LineCollapse::text(const Entry& entry) const {
  return std::string_view(text_).substr(entry.text_begin - text_begin_, entry.text_size);
}

void LineCollapse::say(int local_rank, int stream, const LinePiece& piece, OutputTime now) {
  if (front_ == 0 && speaking_ <= 1) return emit_({piece, stream, local_rank, 1, {}});
  const bool whole = piece.begins && piece.ends;
  const std::uint64_t hash = whole ? std::hash<std::string_view>()(piece.text) : 0;
  const Sequence line = whole ? find(local_rank, hash, piece.text) : 0;
  if (line != 0 && move_in_front(line, local_rank)) {
    join(line, local_rank);
  } else {
    append(local_rank, stream, piece, hash, now);
  }
}

bool LineCollapse::can_join(Sequence line, int local_rank, std::uint64_t hash, std::string_view wanted) {
  const Entry& candidate = entry(line);
  const auto rank = static_cast<std::size_t>(local_rank);
  return candidate.hash == hash && candidate.whole() && !candidate.gone &&
         candidate.place > speaker(local_rank).shared_place && (bits(line)[rank / 64] >> (rank % 64) & 1) == 0 &&
         text(candidate) == wanted;
}

LineCollapse::Sequence LineCollapse::find(int local_rank, std::uint64_t hash, std::string_view wanted) {
  // Ranks mostly print the same lines in the same order.
  const Sequence shared = speaker(local_rank).shared;
  const Sequence next = waits(shared) ? entry(shared).behind : front_;
  if (next != 0 && can_join(next, local_rank, hash, wanted)) return next;
  Sequence line = buckets_[hash & mask_].first;
  for (int compared = 0; line != 0 && compared < limits::kCollapseComparisons;
       ++compared, line = entry(line).next_in_bucket) {
    if (can_join(line, local_rank, hash, wanted)) return line;
  }
  return 0;
}

bool LineCollapse::move_in_front(Sequence line, int local_rank) {
  Sequence first = speaker(local_rank).alone_first;
  while (first != 0 && entry(first).place < entry(line).place) first = entry(first).next_alone;
  std::uint64_t count = 0;
  for (Sequence one = first; one != 0; one = entry(one).next_alone) {
    if (++count > kMoves) return false;
  }
  const Sequence before = entry(line).before;
  Place place = before != 0 ? entry(before).place : emitted_;
  if (place + kStep * count >= entry(line).place) return false;
  for (Sequence one = first; one != 0; one = entry(one).next_alone) {
    unlink(one);
    entry(one).place = place += kStep;
    link(one, entry(line).before, line);
  }
  return true;
}

void LineCollapse::join(Sequence line, int local_rank) {
  Entry& joined = entry(line);
  if (joined.times == 1 && joined.place > speaker(joined.local_rank).shared_place) share(line, joined.local_rank);
  share(line, local_rank);
  const auto rank = static_cast<std::size_t>(local_rank);
  bits(line)[rank / 64] |= std::uint64_t{1} << (rank % 64);
  if (++joined.times >= speaking_) emit_if_final(line);
}

void LineCollapse::share(Sequence line, int local_rank) {
  Speaker& one = speaker(local_rank);
  one.shared = line;
  one.shared_place = entry(line).place;
  while (one.alone_first != 0 && entry(one.alone_first).place <= one.shared_place) {
    one.alone_first = entry(one.alone_first).next_alone;
  }
}

void LineCollapse::make_room(std::size_t text_size) {
  const std::uint64_t text_end = text_begin_ + text_.size() + text_size;
  while (head_ != end_ && (end_ - head_ >= bounds_.lines || text_end > entry(head_).text_begin + bounds_.bytes)) {
    emit_through(head_);
  }
  if (end_ - head_ == entries_.size()) grow();
}

void LineCollapse::append(int local_rank, int stream, const LinePiece& piece, std::uint64_t hash, OutputTime now) {
  make_room(piece.text.size());
  const Sequence line = end_++;
  Entry& added = entry(line) = Entry{};
  added.came = now;
  added.text_begin = text_begin_ + text_.size();
  added.text_size = static_cast<std::uint32_t>(piece.text.size());
  added.hash = hash;
  added.place = (back_ != 0 ? entry(back_).place : emitted_) + kRoom;
  added.stream = stream;
  added.local_rank = local_rank;
  added.times = 1;
  added.begins = piece.begins;
  added.ends = piece.ends;
  text_.append(piece.text);
  const auto rank = static_cast<std::size_t>(local_rank);
  std::fill_n(bits(line), words_, 0);
  bits(line)[rank / 64] = std::uint64_t{1} << (rank % 64);
  put_in_bucket(line, entries_, mask_);
  link(line, back_, 0);
  Speaker& one = speaker(local_rank);
  (one.alone_first == 0 ? one.alone_first : entry(one.alone_last).next_alone) = line;
  one.alone_last = line;
  if (speaking_ <= 1) emit_through(line);
}

void LineCollapse::link(Sequence line, Sequence before, Sequence behind) {
  entry(line).before = before;
  entry(line).behind = behind;
  (before != 0 ? entry(before).behind : front_) = line;
  (behind != 0 ? entry(behind).before : back_) = line;
}

void LineCollapse::unlink(Sequence line) {
  const Entry& one = entry(line);
  (one.before != 0 ? entry(one.before).behind : front_) = one.behind;
  (one.behind != 0 ? entry(one.behind).before : back_) = one.before;
}

void LineCollapse::emit_if_final(Sequence line) {
  // Ranks that have left may be among those that have printed it.
  for (const Speaker& one : speakers_) {
    if (one.streams > 0 && one.shared_place < entry(line).place) return;
  }
  emit_through(line);
}

void LineCollapse::emit_through(Sequence line) {
  while (front_ != line) emit(front_);
  emit(line);
  forget_gone();
}

void LineCollapse::emit(Sequence line) {
  Entry& one = entry(line);
  unlink(line);
  one.gone = true;
  emitted_ = one.place;
  Speaker& owner = speaker(one.local_rank);
  if (owner.alone_first == line) owner.alone_first = one.next_alone;
  const RankBits ranks = one.times > 1 ? RankBits(bits(line), words_) : RankBits();
  emit_({{text(one), one.begins, one.ends}, one.stream, one.local_rank, one.times, ranks});
}

void LineCollapse::forget_gone() {
  for (; head_ != end_ && entry(head_).gone; ++head_) {
    const Entry& one = entry(head_);
    if (!one.whole()) continue;
    Bucket& bucket = buckets_[one.hash & mask_];
    bucket.first = one.next_in_bucket;
    if (bucket.first == 0) bucket.last = 0;
  }
  const std::size_t used = (head_ == end_ ? text_begin_ + text_.size() : entry(head_).text_begin) - text_begin_;
  if (head_ != end_ && used <= bounds_.bytes) return;
  text_.erase(0, used);
  text_begin_ += used;
}

std::optional<OutputTime> LineCollapse::due() const {
  if (head_ == end_) return std::nullopt;
  return entries_[head_ & mask_].came + bounds_.window;
}

void LineCollapse::emit_due(OutputTime now) {
  while (head_ != end_ && entry(head_).came + bounds_.window <= now) emit_through(head_);
}

}  // namespace ddp::launcher
