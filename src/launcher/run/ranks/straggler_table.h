// StragglerTable adds up for which ranks the others wait. It is pure: it turns pictures into a table.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/straggler_report.h"

namespace ddp::launcher {

class StragglerTable {
 public:
  // Call this for each picture.
  void add(const Picture& picture);

  StragglerReport report() const;

 private:
  void count_arrivals(std::uint64_t& newest, const std::vector<Member>& members);

  std::map<GroupKey, std::uint64_t> newest_;  // number of the newest collective that was counted
  std::map<int, Straggler> ranks_;
  std::map<int, JobTime> awaited_since_;  // ranks for which others wait now
  std::uint64_t collectives_ = 0;
  JobTime now_{};
};

}  // namespace ddp::launcher
