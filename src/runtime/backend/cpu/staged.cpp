#include "runtime/backend/cpu/staged.h"

#include <ddp/error.h>

#include <algorithm>
#include <cstring>

#include "runtime/backend/backend_errors.h"
#include "runtime/limits.h"
#include "runtime/peers/mismatch_check.h"

namespace ddp::internal {
namespace {

// Pieces begin at multiples of a cache line, so that no two ranks write to the same line.
std::size_t whole_lines(std::size_t bytes) {
  return bytes / 64 * 64;
}

}  // namespace

Staged::Piece Staged::piece_of(std::size_t bytes, std::size_t step, std::size_t round) {
  const std::size_t first = std::min(bytes, step * round);
  return {first, std::min(step, bytes - first)};
}

void Staged::show_sizes(const TransferPlan& own) {
  auto* table = reinterpret_cast<std::uint64_t*>(rounds_.filling(0));
  for (std::size_t to = 0; to < node_->size(); ++to) table[to] = own.given_to(static_cast<int>(to)).bytes();
}

void Staged::require_size(const TransferPlan& own, std::size_t index) const {
  const auto* table = reinterpret_cast<const std::uint64_t*>(rounds_.filled(index, 0));
  const std::uint64_t given = table[node_->own()];
  const std::size_t taken = own.taken_from(static_cast<int>(index)).bytes();
  if (given != taken) throw sent_bytes_error(node_->rank_of(index), given, taken);
}

void Staged::move(const TransferPlan& own) {
  const std::size_t ranks = node_->size();
  std::uint64_t largest = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    const auto* table = reinterpret_cast<const std::uint64_t*>(rounds_.filled(from, 0));
    for (std::size_t to = 0; to < ranks; ++to) {
      if (to != from) largest = std::max(largest, table[to]);
    }
  }
  const std::size_t step = own.shared() ? limits::kNodeStageBytes : whole_lines(limits::kNodeStageBytes / ranks);
  for (std::size_t round = 0; round * step < largest; ++round) {
    fill(own, step, round);
    rounds_.meet(own.call);
    if (own.reduces()) {
      drain_reduced(own, step, round);
    } else {
      drain(own, step, round);
    }
  }
  if (!own.reduces()) own.keep_own();
}

void Staged::fill(const TransferPlan& own, std::size_t step, std::size_t round) {
  std::byte* stage = rounds_.filling(0);
  for (std::size_t to = 0; to < node_->size(); ++to) {
    if (to == node_->own()) continue;
    const ConstBuffer given = own.given_to(static_cast<int>(to));
    const Piece piece = piece_of(given.bytes(), step, round);
    if (piece.bytes > 0) {
      std::memcpy(stage + (own.shared() ? 0 : to * step), static_cast<const std::byte*>(given.data) + piece.first,
                  piece.bytes);
      if (own.shared()) return;
    }
  }
}

void Staged::drain(const TransferPlan& own, std::size_t step, std::size_t round) {
  for (std::size_t turn = 1; turn < node_->size(); ++turn) {
    const std::size_t from = (node_->own() + turn) % node_->size();
    const Buffer taken = own.taken_from(static_cast<int>(from));
    const Piece piece = piece_of(taken.bytes(), step, round);
    if (piece.bytes == 0) continue;
    std::memcpy(static_cast<std::byte*>(taken.data) + piece.first,
                rounds_.filled(from, 0) + (own.shared() ? 0 : node_->own() * step), piece.bytes);
  }
}

// Reduces this rank's part. Its own data are read in place, the other ranks' data from their staging buffers.
void Staged::drain_reduced(const TransferPlan& own, std::size_t step, std::size_t round) {
  const Buffer& output = own.call.output;
  const Piece piece = piece_of(output.bytes(), step, round);
  if (piece.bytes == 0) return;
  sources_.clear();
  for (std::size_t from = 0; from < node_->size(); ++from) {
    const CallRecord& record = shown_call(*node_, from, own.call);
    const auto* mine = static_cast<const std::byte*>(own.given_to(static_cast<int>(from)).data);
    const std::byte* source = from == node_->own() ? mine + piece.first : rounds_.filled(from, 0) + node_->own() * step;
    sources_.push_back({source, record.factor});
  }
  void* destination = static_cast<std::byte*>(output.data) + piece.first;
  internal::reduce(output.type, own.call.op, sources_, {&destination, 1}, piece.bytes / size_of(output.type));
}

// In round k, each rank stages piece k of every other rank's share, and the result of its own share of piece k - 1. So
// one round per piece is enough. A share is a rank's part of one piece.
void Staged::reduce(const Call& call) {
  const Buffer& buffer = call.output;
  const bool takes = call.operation == Operation::all_reduce || static_cast<int>(node_->own()) == call.peer;
  const std::size_t step = whole_lines(limits::kNodeStageBytes / node_->size()) * node_->size() / size_of(buffer.type);
  const std::size_t pieces = (buffer.count + step - 1) / step;
  const auto piece_of = [&](std::size_t number) {
    return buffer.slice(number * step, std::min(step, buffer.count - number * step));
  };
  const auto offset_in = [](const Buffer& whole, const Buffer& part) {
    return static_cast<std::size_t>(static_cast<std::byte*>(part.data) - static_cast<std::byte*>(whole.data));
  };
  for (std::size_t round = 0; round <= pieces; ++round) {
    if (round > 0) {
      const Buffer piece = piece_of(round - 1);
      const Buffer share = share_of(piece, node_->own(), node_->size());
      const std::size_t offset = offset_in(piece, share);
      sources_.clear();
      for (std::size_t from = 0; from < node_->size(); ++from) {
        sources_.push_back(
            {from == node_->own() ? static_cast<const std::byte*>(share.data) : rounds_.filled(from, 0) + offset,
             shown_call(*node_, from, call).factor});
      }
      const std::array<void*, 2> targets = {rounds_.filling(1) + offset, share.data};
      internal::reduce(buffer.type, call.op, sources_, std::span(targets).first(takes ? 2 : 1), share.count);
    }
    if (round < pieces) {
      const Buffer piece = piece_of(round);
      for (std::size_t to = 0; to < node_->size(); ++to) {
        const Buffer share = share_of(piece, to, node_->size());
        if (to == node_->own() || share.count == 0) continue;
        std::memcpy(rounds_.filling(0) + offset_in(piece, share), share.data, share.bytes());
      }
    }
    rounds_.meet(call);
    if (round == 0 || !takes) continue;
    const Buffer piece = piece_of(round - 1);
    for (std::size_t turn = 1; turn < node_->size(); ++turn) {
      const std::size_t from = (node_->own() + turn) % node_->size();
      const Buffer share = share_of(piece, from, node_->size());
      if (share.count > 0) std::memcpy(share.data, rounds_.filled(from, 1) + offset_in(piece, share), share.bytes());
    }
  }
}

}  // namespace ddp::internal
