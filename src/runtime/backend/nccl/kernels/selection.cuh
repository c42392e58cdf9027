// These kernels select the elements with the largest magnitudes.
#pragma once

#include "runtime/backend/nccl/kernels/support.cuh"

// The selection finds the smallest magnitude that is taken digit by digit, from the highest one. `smallest` has the
// digits that are known. `remaining` elements of those that share these digits are taken.
struct Selection {
  u64 counts[256];  // elements with the known digits, by their next digit
  u64 remaining;
  u32 smallest;
};

// Positive floats are in the order of their bits. A NaN counts as infinite.
DEVICE u32 magnitude(f32 value) {
  const u32 bits = __builtin_bit_cast(u32, value) & 0x7fffffffU;
  return bits < 0x7f800000U ? bits : 0x7f800000U;
}

KERNEL ddp_select_begin(Selection* selection, u64 taken) {
  selection->counts[thread()] = 0;
  if (thread() != 0) return;
  selection->remaining = taken;
  selection->smallest = 0;
}

KERNEL ddp_select_count(const f32* values, u64 count, Selection* selection, u32 shift) {
  SHARED static u32 counts[256];
  counts[thread()] = 0;
  wait_for_block();
  const u64 known = static_cast<u64>(selection->smallest) >> (shift + 8);
  for_each(count, is_aligned(values), [&](auto width, u64 i) {
    const auto numbers = load(width, values, i);
    UNROLLED for (int k = 0; k < width.value; ++k) {
      const u64 bits = magnitude(numbers.at[k]);
      if (bits >> (shift + 8) == known) atomic_add(counts[(bits >> shift) & 255], 1U);
    }
  });
  wait_for_block();
  if (counts[thread()] != 0) atomic_add(selection->counts[thread()], static_cast<u64>(counts[thread()]));
}

// Runs in one block. Chooses the next digit and clears the counts.
KERNEL ddp_select_digit(Selection* selection, u32 shift) {
  if (thread() == 0) {
    u64 remaining = selection->remaining;
    u32 digit = 255;
    ROLLED while (digit > 0 && selection->counts[digit] < remaining) {
      remaining -= selection->counts[digit];
      --digit;
    }
    selection->remaining = remaining;
    selection->smallest |= digit << shift;
  }
  wait_for_block();
  selection->counts[thread()] = 0;
}

// A block takes elements from a range of its own.
struct Range {
  u64 begin;
  u64 end;
};
constexpr u64 kTile = kThreads * kPack;

DEVICE Range range_of_block(u64 count) {
  const u64 tiles = (count + kTile - 1) / kTile;
  const u64 size = (tiles + blocks() - 1) / blocks() * kTile;
  const u64 begin = size * block();
  const u64 end = begin + size;
  return {begin < count ? begin : count, end < count ? end : count};
}

// `counts` gets two numbers per block: how many elements of its range are larger than the smallest magnitude, and how
// many are equal to it.
KERNEL ddp_select_count_blocks(const f32* values, u64 count, const Selection* selection, u64* counts) {
  SHARED static u64 shared[kThreads];
  const Range range = range_of_block(count);
  const u32 smallest = selection->smallest;
  u64 larger = 0;
  u64 equal = 0;
  ROLLED for (u64 i = range.begin + thread(); i < range.end; i += kThreads) {
    const u32 bits = magnitude(values[i]);
    larger += bits > smallest ? 1 : 0;
    equal += bits == smallest ? 1 : 0;
  }
  larger = block_sum(larger, shared);
  equal = block_sum(equal, shared);
  if (thread() != 0) return;
  counts[2 * block()] = larger;
  counts[2 * block() + 1] = equal;
}

// Runs in one block. Replaces the counts of each block by their sums over all earlier blocks. There are at most
// kThreads blocks.
KERNEL ddp_select_offsets(u64* counts, u32 counted) {
  SHARED static u64 shared[kThreads];
  ROLLED for (u32 which = 0; which < 2; ++which) {
    const u64 own = thread() < counted ? counts[2 * thread() + which] : 0;
    const u64 earlier = sum_of_earlier(own, shared);
    if (thread() < counted) counts[2 * thread() + which] = earlier;
  }
}

// Takes all larger elements, and the first `remaining` equal ones. The place of an element is the number of elements
// taken before it. A thread handles kPack elements that follow each other. Both counts of a tile fit into one number.
KERNEL ddp_select_take(f32* values, u64 count, const Selection* selection, const u64* counts, u32* indices,
                       f32* picked) {
  SHARED static u32 shared[kThreads];
  SHARED static u32 tile_counts;
  const Range range = range_of_block(count);
  const u32 smallest = selection->smallest;
  const u64 remaining = selection->remaining;
  u64 larger = counts[2 * block()];
  u64 equal = counts[2 * block() + 1];
  ROLLED for (u64 first = range.begin; first < range.end; first += kTile) {
    const u64 own = first + thread() * kPack;
    u32 found = 0;
    u32 bits[kPack];
    UNROLLED for (int k = 0; k < kPack; ++k) {
      const u64 i = own + k;
      bits[k] = i < range.end ? magnitude(values[i]) : 0;
      found += i >= range.end ? 0 : bits[k] > smallest ? 1 : bits[k] == smallest ? 1U << 16 : 0;
    }
    const u32 earlier = sum_of_earlier(found, shared);
    u64 larger_before = larger + (earlier & 0xffffU);
    u64 equal_before = equal + (earlier >> 16);
    UNROLLED for (int k = 0; k < kPack; ++k) {
      const u64 i = own + k;
      if (i >= range.end || bits[k] < smallest) continue;
      const bool is_larger = bits[k] > smallest;
      if (is_larger || equal_before < remaining) {
        const u64 place = larger_before + (equal_before < remaining ? equal_before : remaining);
        indices[place] = static_cast<u32>(i);
        picked[place] = values[i];
        values[i] = 0;
      }
      larger_before += is_larger ? 1 : 0;
      equal_before += is_larger ? 0 : 1;
    }
    if (thread() == kThreads - 1) tile_counts = earlier + found;
    wait_for_block();
    larger += tile_counts & 0xffffU;
    equal += tile_counts >> 16;
  }
}

KERNEL ddp_scatter_add(const u32* indices, const f32* values, u64 count, f64 factor, f32* to) {
  const auto number = static_cast<f32>(factor);
  ROLLED for (u64 i = thread_of_all(); i < count; i += threads_of_all()) to[indices[i]] += values[i] * number;
}
