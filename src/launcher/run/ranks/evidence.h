// Evidence is what was taken of a hang at one moment.
#pragma once

#include <string>
#include <vector>

#include "launcher/run/stacks/stack_text.h"

namespace ddp::launcher {

// Contains the report of a source other than the workers about a job that hangs, or the reason why there is no report.
struct EvidenceSource {
  std::string name;                  // for example "NCCL RAS"
  std::string text;                  // the unmodified answer, which may be long
  std::vector<std::string> essence;  // a few printable lines of it for the console
  std::vector<std::string> missing;  // missing data, each with the reason; printable

  friend bool operator==(const EvidenceSource&, const EvidenceSource&) = default;
};

struct Evidence {
  std::vector<RankStacks> stacks;
  std::vector<EvidenceSource> sources;

  bool empty() const { return stacks.empty() && sources.empty(); }
};

}  // namespace ddp::launcher
