// RankPhase is the phase of a rank, as its page shows it.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/call_names.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {

// The phases of wire::kPhaseNames in their order, and two more: training that has shown no step yet, and the phase of a
// page that shows none, or one that this version does not know.
enum class RankPhase : std::uint8_t {
  starting,
  connected,
  rendezvous,
  set_up,
  training,
  evaluation,
  checkpoint,
  data_loading,
  finishing,
  done,
  first_step,
  unknown,
};
constexpr RankPhase last_of(RankPhase) {
  return RankPhase::unknown;
}

static_assert(static_cast<std::uint32_t>(RankPhase::training) == wire::kTraining);
static_assert(static_cast<std::size_t>(RankPhase::first_step) == wire::kPhaseNames.size());

constexpr RankPhase phase_of_page(std::uint32_t number) {
  return number < wire::kPhaseNames.size() ? static_cast<RankPhase>(number) : RankPhase::unknown;
}

// Returns for example "data loading"; "" if the phase is unknown.
constexpr std::string_view name_of(RankPhase phase) {
  if (phase == RankPhase::unknown) return "";
  return phase == RankPhase::first_step ? "first step" : wire::kPhaseNames[static_cast<std::size_t>(phase)];
}

constexpr bool is_training(RankPhase phase) {
  return phase == RankPhase::training || phase == RankPhase::first_step;
}

}  // namespace ddp::launcher
