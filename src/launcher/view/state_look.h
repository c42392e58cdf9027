// Says how the state of a rank is shown: in which colour and, without colours, by which letter.
#pragma once

#include "launcher/ranks/rank_state.h"
#include "launcher/view/styled_line.h"

namespace ddp::launcher {

struct StateLook {
  char letter;
  Style style;
};

StateLook look_of(RankState state);

}  // namespace ddp::launcher
