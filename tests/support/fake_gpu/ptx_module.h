// A PtxModule is a module of kernels that cuModuleLoadData has read from text in NVIDIA's PTX language, ready to run.
// The subset of the language is what the runtime's kernels use: see ptx_instructions() for the instructions. Anything
// else is refused, so that a test notices it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fake_gpu {

inline constexpr int kInvalidPtx = 218;
inline constexpr int kNotFound = 500;
inline constexpr int kMisalignedAddress = 716;

struct PtxThread;
struct PtxInstruction;
using PtxFunction = void (*)(PtxThread& thread, const PtxInstruction& instruction);

// All operands are registers; a constant has a register of its own. `registers` holds the destination and the sources
// in the order of the text. A load or store has the address in `address` and `offset`, and its data in `registers`.
struct PtxInstruction {
  PtxFunction run = nullptr;
  std::int32_t guard = -1;  // register of the predicate, -1 if there is none
  bool is_negated = false;  // the instruction runs if the predicate is false
  std::uint16_t registers[4] = {};
  std::uint16_t address = 0;
  std::int64_t offset = 0;  // for a branch, the index of the next instruction
};

// Describes how the parser stores the operands of an instruction.
enum class PtxForm {
  values,     // the destination, and the sources
  load,       // {destinations}, [address]
  store,      // [address], {sources}
  atomic,     // destination, [address], source
  parameter,  // destination, [parameter]
  branch,     // label
  none,       // nothing that matters
};

struct PtxInstructionKind {
  PtxForm form;
  std::size_t operands;
  PtxFunction run;
};

// Returns the instructions that are known, by name.
const std::map<std::string_view, PtxInstructionKind>& ptx_instructions();

// These registers of each thread hold its place in the grid. The last one is always 0.
enum PtxSpecialRegister : std::uint16_t { kThreadIndex, kThreads, kBlockIndex, kBlocks, kZero, kSpecialRegisters };

struct PtxParameter {
  std::string name;
  std::string type;  // such as "u64"
  std::size_t bytes = 0;
  std::size_t offset = 0;
};

struct PtxKernel {
  std::vector<PtxParameter> parameters;
  std::size_t parameter_bytes = 0;
  std::vector<PtxInstruction> code;
  std::vector<std::uint64_t> registers;  // values of all registers at the start: constants, or 0
  std::size_t shared_bytes = 0;
  bool has_barrier = false;
};

struct PtxModule {
  std::map<std::string, PtxKernel, std::less<>> kernels;
};

// Throws std::runtime_error with a line of text and a reason.
PtxModule parse_ptx(std::string_view text);

// A part of device memory: addresses in [begin, end).
struct DeviceBlock {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_of_peer = false;
};

// Returns the memory that is allocated on a device now, in ascending order.
std::vector<DeviceBlock> device_blocks(int device);

// Returns the same, and the memory of the peers to which the device has access.
std::vector<DeviceBlock> reachable_blocks(int device);
// Returns where an access to the memory of a peer ends up, which a fault may change.
std::byte* through_window(const DeviceBlock& block, std::uintptr_t address);

struct PtxLaunch {
  const PtxKernel* kernel = nullptr;
  unsigned blocks = 0;
  unsigned threads = 0;  // per block
  unsigned number = 0;   // decides in which order threads and blocks run
  std::vector<std::byte> parameters;
  std::vector<DeviceBlock> memory;  // reachable_blocks(); the kernel may access nothing else
};

// Runs all blocks, one after the other, and their threads one after the other from barrier to barrier. Their order
// changes, because a GPU has none. Returns CUDA's number for the error: 0, 700 (illegal address) or 716 (misaligned
// address).
int run_ptx(const PtxLaunch& launch);

}  // namespace fake_gpu
