// Evidence is what was taken of a hang at one moment.
#pragma once

#include <vector>

#include "launcher/ranks/evidence_source.h"
#include "launcher/stacks/stack_text.h"

namespace ddp::launcher {

struct Evidence {
  std::vector<RankStacks> stacks;
  std::vector<EvidenceSource> sources;

  bool empty() const { return stacks.empty() && sources.empty(); }
};

}  // namespace ddp::launcher
