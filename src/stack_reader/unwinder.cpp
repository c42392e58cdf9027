#include "stack_reader/unwinder.h"

#include <elfutils/libdwfl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace ddp::stack_reader {

constexpr std::size_t kWord = sizeof(std::uint64_t);

// Holds the current unwinding task, which libdw reads by callbacks.
struct Task {
  const launcher::ThreadCapture* thread = nullptr;
  std::optional<std::uint64_t> frame_pointer;  // a guessed value
  std::size_t most = 0;
  Unwound result;

  std::uint64_t bottom() const { return thread->registers.at(launcher::kStackPointer); }
  std::optional<std::uint64_t> word(std::uint64_t address) const {
    const std::size_t size = thread->stack.size();
    if (address < bottom() || size < kWord || address - bottom() > size - kWord) return std::nullopt;
    std::uint64_t value = 0;
    std::memcpy(&value, thread->stack.data() + (address - bottom()), kWord);
    return value;
  }
};

namespace {

constexpr std::size_t kMostGuesses = 100;
constexpr std::uint64_t kFrameAlignment = 16;  // alignment of a frame's link, which follows from the System V ABI
constexpr std::size_t kLongestCall = 7;        // length of a call instruction

pid_t next_thread(Dwfl* /*dwfl*/, void* argument, void** thread_argument) {
  if (*thread_argument != nullptr) return 0;  // there is only one thread
  *thread_argument = argument;
  return 1;
}

bool get_thread(Dwfl* /*dwfl*/, pid_t /*tid*/, void* argument, void** thread_argument) {
  *thread_argument = argument;
  return true;
}

bool read_memory(Dwfl* /*dwfl*/, Dwarf_Addr address, Dwarf_Word* value, void* argument) {
  const auto word = static_cast<const Task*>(argument)->word(address);
  if (word) *value = *word;
  return word.has_value();
}

bool set_registers(Dwfl_Thread* thread, void* argument) {
  const Task& task = *static_cast<const Task*>(argument);
  std::map<int, std::uint64_t> registers = task.thread->registers;
  if (task.frame_pointer) registers[launcher::kFramePointer] = *task.frame_pointer;
  for (const auto& [number, value] : registers) {
    const Dwarf_Word word = value;
    if (!::dwfl_thread_state_registers(thread, number, 1, &word)) return false;
  }
  return true;
}

constexpr Dwfl_Thread_Callbacks kThreads = {.next_thread = next_thread,
                                            .get_thread = get_thread,
                                            .memory_read = read_memory,
                                            .set_initial_registers = set_registers,
                                            .detach = nullptr,
                                            .thread_detach = nullptr};

int add_frame(Dwfl_Frame* frame, void* argument) {
  Task& task = *static_cast<Task*>(argument);
  Dwarf_Addr address = 0;
  if (!::dwfl_frame_pc(frame, &address, nullptr)) return DWARF_CB_ABORT;
  task.result.addresses.push_back(address);
  if (task.result.addresses.size() < task.most) return DWARF_CB_OK;
  task.result.is_whole = true;
  return DWARF_CB_ABORT;
}

}  // namespace

struct Unwinder::State {
  const ProcessFiles& files;
  bool can_unwind = false;
  Task task;

  Unwound unwind() {
    task.result = {};
    const bool ended = ::dwfl_getthread_frames(files.dwfl(), 1, add_frame, &task) == 0;
    if (ended && !task.result.addresses.empty() && returns_nowhere(task.result.addresses.back())) {
      task.result.is_whole = true;
    }
    return task.result;
  }

  // Returns whether the unwind tables say that the function at this address has no caller. The end of a stack is no
  // proof, because it also ends where a needed register is unknown.
  bool returns_nowhere(std::uint64_t address) const {
    Dwfl_Module* module = files.module_at(address);
    Dwarf_Addr bias = 0;
    Dwarf_CFI* tables = module == nullptr ? nullptr : ::dwfl_module_eh_cfi(module, &bias);
    Dwarf_Frame* frame = nullptr;
    if (tables == nullptr || ::dwarf_cfi_addrframe(tables, address - bias, &frame) != 0) return false;
    std::array<Dwarf_Op, 3> memory{};
    Dwarf_Op* rule = nullptr;
    std::size_t length = 0;
    const bool known = ::dwarf_frame_register(frame, launcher::kProgramCounter, memory.data(), &rule, &length) == 0;
    std::free(frame);
    return known && length == 0 && rule == memory.data();  // libdw's encoding of "undefined"
  }

  // Returns the start of the function that contains this address, or 0 if it is unknown.
  std::uint64_t function_at(std::uint64_t address) const {
    Dwfl_Module* module = files.module_at(address);
    GElf_Off offset = 0;
    GElf_Sym symbol{};
    if (module == nullptr ||
        ::dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr) == nullptr) {
      return 0;
    }
    return address - offset;
  }

  // Returns the bytes before an address, from the file that is mapped there.
  std::optional<std::array<unsigned char, kLongestCall>> code_before(std::uint64_t address) const {
    std::array<unsigned char, kLongestCall> code{};
    Dwfl_Module* module = files.module_at(address);
    if (module == nullptr) return std::nullopt;
    GElf_Addr bias = 0;
    Elf* elf = ::dwfl_module_getelf(module, &bias);
    std::size_t count = 0;
    if (elf == nullptr || ::elf_getphdrnum(elf, &count) != 0) return std::nullopt;
    const std::uint64_t begin = address - bias - code.size();
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Phdr segment{};
      if (::gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_LOAD) continue;
      if ((segment.p_flags & PF_X) == 0 || begin < segment.p_vaddr ||
          begin + code.size() > segment.p_vaddr + segment.p_filesz) {
        continue;
      }
      const auto offset = static_cast<std::int64_t>(begin - segment.p_vaddr + segment.p_offset);
      const Elf_Data* data = ::elf_getdata_rawchunk(elf, offset, code.size(), ELF_T_BYTE);
      if (data == nullptr || data->d_size < code.size()) return std::nullopt;
      std::memcpy(code.data(), data->d_buf, code.size());
      return code;
    }
    return std::nullopt;
  }

  // Returns whether the instruction before this address is a call that may be a call of `callee`.
  bool may_return_from(std::uint64_t address, std::uint64_t callee) const {
    const auto code = code_before(address);
    if (!code) return false;
    if ((*code)[2] == 0xe8) {  // call rel32
      std::int32_t distance = 0;
      std::memcpy(&distance, code->data() + 3, sizeof distance);
      const std::uint64_t target = address + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
      if (target == callee || callee == 0) return true;
      return function_at(target) != target;  // outside a known function, so a stub for one in another file
    }
    constexpr std::array<std::size_t, 4> kIndirect = {2, 3, 6, 7};  // lengths of "call [...]" and "call register"
    return std::ranges::any_of(kIndirect,
                               [&](std::size_t length) {
                                 const std::size_t at = code->size() - length;
                                 return (*code)[at] == 0xff && (((*code)[at + 1] >> 3) & 7) == 2;
                               }) ||
           ((*code)[4] == 0x41 && (*code)[5] == 0xff && (((*code)[6] >> 3) & 7) == 2);
  }
};

// libdw determines the processor type from the first file that it can read.
Unwinder::Unwinder(const ProcessFiles& files) : state_(std::make_unique<State>(State{files})) {
  Dwfl* dwfl = files.dwfl();
  state_->can_unwind = dwfl != nullptr && ::dwfl_attach_state(dwfl, nullptr, 1, &kThreads, &state_->task);
}

Unwinder::~Unwinder() = default;

Unwound Unwinder::unwind(const launcher::ThreadCapture& thread, std::size_t most) {
  if (!thread.registers.contains(launcher::kStackPointer) || !thread.registers.contains(launcher::kProgramCounter)) {
    return {};
  }
  if (!state_->can_unwind) return {{thread.registers.at(launcher::kProgramCounter)}, false};
  Task& task = state_->task;
  task = {&thread, std::nullopt, most, {}};
  const Unwound known = state_->unwind();
  if (known.is_whole || known.addresses.empty() || thread.registers.contains(launcher::kFramePointer)) return known;
  const std::uint64_t last = known.addresses.back() - (known.addresses.size() > 1 ? 1 : 0);
  const std::uint64_t function = state_->function_at(last);
  std::size_t guesses = 0;
  const std::uint64_t top = task.bottom() + thread.stack.size();
  const std::uint64_t first = (task.bottom() + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
  for (std::uint64_t place = first; place < top && guesses < kMostGuesses; place += kFrameAlignment) {
    const auto link = task.word(place);
    const auto returns_to = task.word(place + kWord);
    if (!link || !returns_to || !state_->may_return_from(*returns_to, function)) continue;
    ++guesses;
    task.frame_pointer = place;
    Unwound guessed = state_->unwind();
    if (guessed.is_whole) return guessed;
  }
  return known;
}

}  // namespace ddp::stack_reader
