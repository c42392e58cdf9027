// A known cause of a failure: the text by which it shows, and what to do about it. Rows of the tables causes_*.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace ddp::launcher {

// Says what a text proves about the rank that printed it.
enum class Proof : std::uint8_t {
  failure,    // this rank failed by itself
  timeout,    // this rank waited in vain. Another rank may be the culprit
  lost_peer,  // this rank lost another one, which failed before
};

struct Cause {
  // Its anchor on the page "Known errors" of the manual. Lower case with dashes. It never changes.
  std::string_view id;
  // Texts of one line. One of them is enough. "…" stands for any text, also for none. Lines are compared without the
  // tags of launchers, times and colours. Unused entries are empty.
  std::array<std::string_view, 8> patterns;
  Proof proof = Proof::failure;
  // One sentence each. The remedy contains the command or the line to type.
  std::string_view cause;
  std::string_view remedy;
  std::string_view cause_zh;
  std::string_view remedy_zh;
  // A page of the manual with more about it, such as "how-to/common-mistakes.md#out-of-memory". May be empty.
  std::string_view page = {};
};

// The rows, by the program or system that prints the text.
std::span<const Cause> causes_of_programs();       // Python, PyTorch and frameworks
std::span<const Cause> causes_of_data();           // the DataLoader, processes and checkpoints
std::span<const Cause> causes_of_data_parallel();  // DistributedDataParallel, DataParallel and autograd
std::span<const Cause> causes_of_communication();  // c10d, NCCL, Gloo and the store
std::span<const Cause> causes_of_clusters();       // launchers, schedulers, drivers and the operating system

}  // namespace ddp::launcher
