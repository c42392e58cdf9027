// A PtxThread is a thread of a kernel while it runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/ptx_module.h"

namespace fake_gpu {

struct PtxThread {
  enum class State { runs, waits_for_block, has_ended };

  const PtxLaunch& launch;
  std::uint64_t* registers;
  std::byte* shared;
  std::uint32_t* hints;  // per instruction, the block of memory that it accessed last
  const PtxInstruction* next;
  State state = State::runs;
  int error = 0;

  // Returns the address of `bytes` bytes, or null after an error.
  std::byte* global(const PtxInstruction& instruction, std::size_t bytes) {
    const std::uintptr_t begin = registers[instruction.address] + static_cast<std::uint64_t>(instruction.offset);
    if (begin % bytes != 0) return stop(kMisalignedAddress);
    const std::vector<DeviceBlock>& blocks = launch.memory;
    std::uint32_t& hint = hints[&instruction - launch.kernel->code.data()];
    const auto holds = [&](std::uint32_t block) {
      return block < blocks.size() && begin >= blocks[block].begin && begin + bytes <= blocks[block].end;
    };
    if (!holds(hint)) {
      const auto later = std::upper_bound(blocks.begin(), blocks.end(), begin,
                                          [](std::uintptr_t at, const DeviceBlock& block) { return at < block.begin; });
      hint = static_cast<std::uint32_t>(later - blocks.begin()) - 1;
      if (!holds(hint)) return stop(kIllegalAddress);
    }
    if (blocks[hint].is_of_peer) return through_window(blocks[hint], begin);
    return reinterpret_cast<std::byte*>(begin);  // NOLINT(performance-no-int-to-ptr)
  }

  std::byte* in_shared(const PtxInstruction& instruction, std::size_t bytes) {
    const std::uint64_t begin = registers[instruction.address] + static_cast<std::uint64_t>(instruction.offset);
    if (begin % bytes != 0) return stop(kMisalignedAddress);
    if (begin + bytes > launch.kernel->shared_bytes) return stop(kIllegalAddress);
    return shared + begin;
  }

 private:
  std::byte* stop(int reason) {
    error = reason;
    state = State::has_ended;
    return nullptr;
  }
};

}  // namespace fake_gpu
