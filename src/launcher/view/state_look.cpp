#include "launcher/view/state_look.h"

#include <array>

namespace ddp::launcher {
namespace {

// By RankState.
constexpr std::array<StateLook, kRankStates> kLooks = {
    StateLook{'?', Style::dim}, {'c', Style::green}, {'r', Style::blue}, {'w', Style::yellow},
    {'p', Style::magenta},      {'T', Style::alert}, {'e', Style::dim}};

}  // namespace

StateLook look_of(RankState state) {
  return kLooks.at(static_cast<std::size_t>(state));
}

}  // namespace ddp::launcher
