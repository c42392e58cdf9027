// Defines the values of options with a fixed set of values, and their names on the command line.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/record_ring_layout.h"

namespace ddp::launcher {

enum class RdzvBackend : std::uint8_t { static_, c10d };
enum class DeviceVisibility : std::uint8_t { own, all };
enum class NumaBinding : std::uint8_t { node, socket, exclusive, core_complex };
enum class CoreDumps : std::uint8_t { inherit, off, unlimited };
enum class Color : std::uint8_t { automatic, always, never };
// Says what is done about a hang that is meant to end the job.
enum class HangAction : std::uint8_t { kill, dump, warn };
// Says whether pauses of the job may set the time after which it is terminated, or only the time of the first report.
enum class HangLimit : std::uint8_t { fixed, learnt };

// Says how the nodes are checked before the first worker starts.
enum class Check : std::uint8_t { off, quick, deep };

using Recording = wire::RecordMode;  // what the workers record

// Says which ranks ddplaunch top shows first. `automatic` means by rank and, during a stall, the ranks that cause it.
enum class RankOrder : std::uint8_t {
  automatic,
  rank,
  state,
  step,
  rate,
  waited_for,
  waiting,
  cpu,
  memory,
  gpu,
  output,
};

// Lists the names of the values, in their order.
template <typename Choice>
inline constexpr std::string_view kNamesOf{};
template <>
inline constexpr std::string_view kNamesOf<RdzvBackend> = "static c10d";
template <>
inline constexpr std::string_view kNamesOf<DeviceVisibility> = "own all";
template <>
inline constexpr std::string_view kNamesOf<NumaBinding> = "node socket exclusive core-complex";
template <>
inline constexpr std::string_view kNamesOf<CoreDumps> = "inherit off unlimited";
template <>
inline constexpr std::string_view kNamesOf<Color> = "auto always never";
template <>
inline constexpr std::string_view kNamesOf<HangAction> = "kill dump warn";
template <>
inline constexpr std::string_view kNamesOf<HangLimit> = "fixed learnt";
template <>
inline constexpr std::string_view kNamesOf<Check> = "off quick deep";
template <>
inline constexpr std::string_view kNamesOf<Recording> = "off steps all";
template <>
inline constexpr std::string_view kNamesOf<RankOrder> =
    "auto rank state step rate waited-for waiting cpu memory gpu output";

template <typename Choice>
requires(!kNamesOf<Choice>.empty()) constexpr std::string_view name_of(Choice choice) {
  std::string_view rest = kNamesOf<Choice>;
  for (int value = static_cast<int>(choice); value > 0; --value) rest.remove_prefix(rest.find(' ') + 1);
  return rest.substr(0, rest.find(' '));
}

// Says how many workers a node has: a number, or one per GPU or CPU.
struct WorkerCount {
  enum class By : std::uint8_t {
    compatibility_mode,  // the mode decides: one worker per GPU, or a single one
    number,
    gpus,
    cpus,
    gpus_or_cpus,  // CPUs if there is no GPU
  };
  By by = By::compatibility_mode;
  int number = 0;

  WorkerCount() = default;
  WorkerCount(int count) : by(By::number), number(count) {}  // NOLINT(google-explicit-constructor)
  WorkerCount(By what) : by(what) {}                         // NOLINT(google-explicit-constructor)
  friend bool operator==(const WorkerCount&, const WorkerCount&) = default;
};

}  // namespace ddp::launcher
