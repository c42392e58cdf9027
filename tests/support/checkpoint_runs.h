// Saves checkpoints of a small state, and damages them.
#pragma once

#include <ddp/checkpoint_manager.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/rank_threads.h"

namespace ddp::test {

using Layout = CheckpointOptions::Layout;

// Has a tensor that all ranks have, one that is divided among them, and an empty one.
class State {
 public:
  State(int rank, int size) {
    const std::size_t share = (kDivided + static_cast<std::size_t>(size) - 1) / static_cast<std::size_t>(size);
    first_ = std::min(kDivided, static_cast<std::size_t>(rank) * share);
    divided_.resize(std::min(share, kDivided - first_));
    state.tensors = {
        Tensor{"shared", shared_, {3, 11}}, {"divided", divided_, {5, 20}, first_}, Tensor{"empty", empty_, {0, 4}}};
  }

  void fill(int step) {
    for (std::size_t i = 0; i < shared_.size(); ++i) shared_[i] = value(step, i);
    for (std::size_t i = 0; i < divided_.size(); ++i) divided_[i] = 2.0 * value(step, first_ + i);
    state.values = {{"epoch", std::to_string(step)}};
  }
  void require_filled(int step) const {
    for (std::size_t i = 0; i < shared_.size(); ++i) require(shared_[i] == value(step, i), "shared");
    for (std::size_t i = 0; i < divided_.size(); ++i) require(divided_[i] == 2.0 * value(step, first_ + i), "divided");
    require(state.values.at("epoch") == std::to_string(step), "values");
  }

 private:
  static float value(int step, std::size_t i) { return static_cast<float>(1000 * step) + static_cast<float>(i); }
  static constexpr std::size_t kDivided = 100;

  std::vector<float> shared_ = std::vector<float>(33);
  std::vector<double> divided_;
  std::vector<std::int32_t> empty_;
  std::size_t first_ = 0;

 public:
  CheckpointState state;
};

struct Way {
  Layout layout;
  bool asynchronous;
};
inline constexpr Way kWays[] = {
    {Layout::full, false}, {Layout::sharded, false}, {Layout::full, true}, {Layout::sharded, true}};

inline CheckpointOptions options_for(const Way& way) {
  CheckpointOptions options;
  options.layout = way.layout;
  options.asynchronous = way.asynchronous;
  return options;
}

inline void save_steps(const std::string& path, int ranks, const CheckpointOptions& options,
                       const std::vector<int>& steps) {
  RankThreads(make_cpu_backend, ranks).all_succeed([&](RankThreads::Rank& self) {
    CheckpointManager checkpoints(path, self.group(), options);
    State saved(self.rank(), ranks);
    for (const int step : steps) {
      saved.fill(step);
      saved.state.rank_values = {{"rng", "rank " + std::to_string(self.rank())}};
      checkpoints.save(step, saved.state);
      saved.fill(-1);  // the save in progress must not see this
    }
    checkpoints.wait();
  });
}

inline std::vector<std::string> files_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline void overwrite(const std::string& path, std::streamoff at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  REQUIRE(file);
  file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
  file << bytes;
}

}  // namespace ddp::test
