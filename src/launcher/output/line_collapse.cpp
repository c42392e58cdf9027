#include "launcher/output/line_collapse.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kFirstCapacity = 256;
constexpr std::size_t kBitWords = 262'144;  // for many ranks fewer lines wait, so that their bits stay small

// A multiply-and-fold over eight bytes at a time: it runs once a line, and a collision costs one comparison.
std::uint64_t hash_of(std::string_view text) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
  std::uint64_t state = text.size() * kFactor;
  const auto mix = [&state](std::uint64_t word) {
    state = (state ^ word) * kFactor;
    state ^= state >> 32;
  };
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, at, left);
  mix(word);
  return state;
}

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
    Entry& moved = entries[line & mask] = entry(line);
    if (!moved.begins || !moved.ends) continue;
    moved.next = 0;
    Bucket& bucket = buckets_[moved.hash & mask];
    (bucket.first == 0 ? bucket.first : entries[bucket.last & mask].next) = line;
    bucket.last = line;
  }
  entries_ = std::move(entries);
  bits_ = std::move(all_bits);
  mask_ = mask;
}

void LineCollapse::enter(int local_rank) {
  if (speakers_[static_cast<std::size_t>(local_rank)].streams++ == 0) ++speaking_;
}

void LineCollapse::leave(int local_rank) {
  Speaker& speaker = speakers_[static_cast<std::size_t>(local_rank)];
  DDP_CHECK(speaker.streams > 0, local_rank);
  if (--speaker.streams > 0) return;
  --speaking_;
  // The others may have waited for this one.
  Sequence said_by_all = end_ - 1;
  for (const Speaker& other : speakers_) {
    if (other.streams > 0) said_by_all = std::min(said_by_all, other.last);
  }
  emit_to(said_by_all);
}

std::string_view LineCollapse::text(const Entry& entry) const {
  return std::string_view(text_).substr(entry.text_begin - text_begin_, entry.text_size);
}

bool LineCollapse::matches(Sequence line, std::uint64_t hash, std::string_view wanted) {
  const Entry& candidate = entry(line);
  return candidate.hash == hash && candidate.begins && candidate.ends && text(candidate) == wanted;
}

LineCollapse::Sequence LineCollapse::find(Sequence after, std::uint64_t hash, std::string_view wanted) {
  // Ranks mostly say the same lines in the same order.
  const Sequence next = std::max(after + 1, head_);
  if (next < end_ && matches(next, hash, wanted)) return next;
  Sequence line = buckets_[hash & mask_].first;
  for (int looks = 0; line != 0 && looks < limits::kCollapseLooks; ++looks, line = entry(line).next) {
    if (line > after && matches(line, hash, wanted)) return line;
  }
  return 0;
}

void LineCollapse::say(int local_rank, int stream, const LinePiece& piece, OutputTime now) {
  if (head_ == end_ && speaking_ <= 1) return emit_({piece, stream, local_rank, 1, {}});
  const bool whole = piece.begins && piece.ends;
  const std::uint64_t hash = whole ? hash_of(piece.text) : 0;
  if (whole) {
    const Sequence line = find(speakers_[static_cast<std::size_t>(local_rank)].last, hash, piece.text);
    if (line != 0) return join(line, local_rank);
  }
  append(local_rank, stream, piece, hash, now);
}

void LineCollapse::append(int local_rank, int stream, const LinePiece& piece, std::uint64_t hash, OutputTime now) {
  while (head_ != end_ && (end_ - head_ >= bounds_.lines ||
                           text_begin_ + text_.size() + piece.text.size() > entry(head_).text_begin + bounds_.bytes)) {
    emit_head();
  }
  if (end_ - head_ == entries_.size()) grow();
  const Sequence line = end_++;
  const auto size = static_cast<std::uint32_t>(piece.text.size());
  entry(line) = {now, text_begin_ + text_.size(), 0, hash, size, stream, local_rank, 0, piece.begins, piece.ends};
  text_.append(piece.text);
  std::fill_n(bits(line), words_, 0);
  if (piece.begins && piece.ends) {
    Bucket& bucket = buckets_[hash & mask_];
    (bucket.first == 0 ? bucket.first : entry(bucket.last).next) = line;
    bucket.last = line;
  }
  join(line, local_rank);
}

void LineCollapse::join(Sequence line, int local_rank) {
  const auto rank = static_cast<std::size_t>(local_rank);
  bits(line)[rank / 64] |= std::uint64_t{1} << (rank % 64);
  speakers_[rank].last = line;
  if (++entry(line).times >= speaking_) emit_if_final(line);
}

void LineCollapse::emit_if_final(Sequence line) {
  // Ranks that are gone may be among those that have said it.
  for (const Speaker& speaker : speakers_) {
    if (speaker.streams > 0 && speaker.last < line) return;
  }
  emit_to(line);
}

void LineCollapse::emit_to(Sequence line) {
  while (head_ != end_ && head_ <= line) emit_head();
}

void LineCollapse::emit_head() {
  const Entry& head = entry(head_);
  if (head.begins && head.ends) {
    Bucket& bucket = buckets_[head.hash & mask_];
    bucket.first = head.next;
    if (bucket.first == 0) bucket.last = 0;
  }
  emit_({{text(head), head.begins, head.ends},
         head.stream,
         head.local_rank,
         head.times,
         head.times > 1 ? RankBits(bits(head_), words_) : RankBits()});
  const std::size_t used = head.text_begin - text_begin_ + head.text_size;
  ++head_;
  if (head_ == end_) {
    text_begin_ += text_.size();
    text_.clear();
  } else if (used > bounds_.bytes) {
    text_.erase(0, used);
    text_begin_ += used;
  }
}

std::optional<OutputTime> LineCollapse::due() const {
  if (head_ == end_) return std::nullopt;
  return entries_[head_ & mask_].came + bounds_.window;
}

void LineCollapse::emit_due(OutputTime now) {
  while (head_ != end_ && entry(head_).came + bounds_.window <= now) emit_head();
}

void LineCollapse::emit_all() {
  emit_to(end_ - 1);
}

}  // namespace ddp::launcher
