#include <algorithm>
#include <cstring>

#include "support/fake_gpu/ptx_module.h"
#include "support/fake_gpu/ptx_thread.h"

namespace fake_gpu {
namespace {

void run_to_barrier(PtxThread& thread) {
  thread.state = PtxThread::State::runs;
  while (thread.state == PtxThread::State::runs) {
    const PtxInstruction& instruction = *thread.next++;
    if (instruction.guard >= 0 && (thread.registers[instruction.guard] != 0) == instruction.is_negated) continue;
    instruction.run(thread, instruction);
  }
}

// Chooses the ascending or the descending order as if at random, so that a missing barrier shows.
unsigned in_order(unsigned round, unsigned index, unsigned count) {
  const bool is_ascending = (round * 2654435761U >> 16) % 2 == 0;
  return is_ascending ? index : count - 1 - index;
}

// Runs the threads of one block. `registers` has room for each thread, or for one if the kernel has no barrier.
class Block {
 public:
  Block(const PtxLaunch& launch, std::vector<std::uint32_t>& hints)
      : launch_(launch), size_(launch.kernel->registers.size()), hints_(hints) {
    const std::size_t kept = launch.kernel->has_barrier ? launch.threads : 1;
    registers_.resize(kept * size_);
    shared_.resize(launch.kernel->shared_bytes);
  }

  int run(unsigned block) {
    // The language does not say what shared memory holds at first, so it is not 0 here.
    std::fill(shared_.begin(), shared_.end(), std::byte{0x5a});
    if (!launch_.kernel->has_barrier) {
      for (unsigned index = 0; index < launch_.threads; ++index) {
        PtxThread thread = begin(block, in_order(launch_.number, index, launch_.threads), registers_.data());
        run_to_barrier(thread);
        if (thread.error != 0) return thread.error;
      }
      return 0;
    }
    std::vector<PtxThread> threads;
    for (unsigned index = 0; index < launch_.threads; ++index) {
      threads.push_back(begin(block, index, registers_.data() + index * size_));
    }
    bool is_any_left = true;
    for (unsigned round = launch_.number; is_any_left; ++round) {
      is_any_left = false;
      for (unsigned index = 0; index < launch_.threads; ++index) {
        PtxThread& thread = threads[in_order(round, index, launch_.threads)];
        if (thread.state == PtxThread::State::has_ended) continue;
        run_to_barrier(thread);
        if (thread.error != 0) return thread.error;
        is_any_left = is_any_left || thread.state == PtxThread::State::waits_for_block;
      }
    }
    return 0;
  }

 private:
  PtxThread begin(unsigned block, unsigned index, std::uint64_t* registers) {
    const PtxKernel& kernel = *launch_.kernel;
    std::memcpy(registers, kernel.registers.data(), size_ * sizeof *registers);
    registers[kThreadIndex] = index;
    registers[kThreads] = launch_.threads;
    registers[kBlockIndex] = block;
    registers[kBlocks] = launch_.blocks;
    return {launch_, registers, shared_.data(), hints_.data(), kernel.code.data()};
  }

  const PtxLaunch& launch_;
  const std::size_t size_;
  std::vector<std::uint32_t>& hints_;
  std::vector<std::uint64_t> registers_;
  std::vector<std::byte> shared_;
};

}  // namespace

int run_ptx(const PtxLaunch& launch) {
  std::vector<std::uint32_t> hints(launch.kernel->code.size());
  Block block(launch, hints);
  for (unsigned index = 0; index < launch.blocks; ++index) {
    if (const int error = block.run(in_order(launch.number, index, launch.blocks)); error != 0) return error;
  }
  return 0;
}

}  // namespace fake_gpu
