#include <ddp/checkpoint_manager.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/optimizer.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/backend/backends.h"
#include "runtime/checkpoint/checkpoint_file.h"
#include "support/catch.h"
#include "support/checkpoint_runs.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("any number of ranks can resume from the checkpoint of any other number") {
  for (const Way& way : kWays) {
    for (const int savers : {1, 2, 3}) {
      const TemporaryDirectory directory;
      save_steps(directory.path() + "/run", savers, options_for(way), {7});
      for (const int readers : {1, 2, 4}) {
        RankThreads(make_cpu_backend, readers).all_succeed([&](RankThreads::Rank& self) {
          CheckpointManager checkpoints(directory.path() + "/run", self.group());
          State read(self.rank(), readers);
          require(checkpoints.load_latest(read.state) == 7, "latest");
          require(checkpoints.damaged().empty(), "damaged");
          read.require_filled(7);
          const bool was_there = self.rank() < savers;
          require(read.state.rank_values.size() == (was_there ? 1 : 0), "rank values");
          if (was_there) require(read.state.rank_values.at("rng") == "rank " + std::to_string(self.rank()), "rng");
        });
      }
    }
  }
}

TEST_CASE("the last steps are kept and all others are removed") {
  for (const Way& way : kWays) {
    const TemporaryDirectory directory;
    CheckpointOptions options = options_for(way);
    options.keep_last = 2;
    save_steps(directory.path() + "/run", 2, options, {1, 2, 3, 10});
    CHECK(files_in(directory.path() + "/run") == std::vector<std::string>{"step-000000000003", "step-000000000010"});
    options.keep_last = 0;
    save_steps(directory.path() + "/run", 1, options, {4, 11});
    CHECK(files_in(directory.path() + "/run").size() == 4);
  }
}

TEST_CASE("a full checkpoint is one file of whole tensors, and a sharded one has a file per rank") {
  const TemporaryDirectory directory;
  save_steps(directory.path() + "/full", 2, options_for({Layout::full, false}), {1});
  const std::string step = directory.path() + "/full/step-000000000001";
  CHECK(files_in(step) == std::vector<std::string>{"manifest.json", "model.safetensors"});
  const ReadCheckpoint file = open_checkpoint_file(step + "/model.safetensors");
  REQUIRE(file.header.tensors.size() == 3);
  CHECK(file.header.tensors[0].shape == std::vector<std::int64_t>{5, 20});
  CHECK(file.header.tensors[2].shape == std::vector<std::int64_t>{3, 11});
  save_steps(directory.path() + "/sharded", 2, options_for({Layout::sharded, false}), {1});
  CHECK(
      files_in(directory.path() + "/sharded/step-000000000001") ==
      std::vector<std::string>{"manifest.json", "part-00000-of-00002.safetensors", "part-00001-of-00002.safetensors"});
}

TEST_CASE("a damaged or unfinished step is skipped and reported") {
  const TemporaryDirectory directory;
  const std::string run = directory.path() + "/run";
  CheckpointOptions options = options_for({Layout::sharded, false});
  options.keep_last = 0;
  save_steps(run, 2, options, {1, 2, 3, 4, 5});
  overwrite(run + "/step-000000000005/manifest.json", 30, "#");
  overwrite(run + "/step-000000000004/part-00001-of-00002.safetensors", -3, "#");
  std::filesystem::resize_file(run + "/step-000000000003/part-00000-of-00002.safetensors", 100);
  std::filesystem::remove(run + "/step-000000000002/part-00000-of-00002.safetensors");
  std::filesystem::create_directory(run + "/.writing-step-000000000009");
  RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
    CheckpointManager checkpoints(run, self.group());
    State read(self.rank(), 2);
    require(checkpoints.load_latest(read.state) == 1, "latest");
    read.require_filled(1);
    const std::vector<std::string>& damaged = checkpoints.damaged();
    require(damaged.size() == 4, std::to_string(damaged.size()));
    require(damaged[0].find("step-000000000005/manifest.json is damaged") != std::string::npos, damaged[0]);
    require(damaged[1].find("checksum") != std::string::npos, damaged[1]);
    require(damaged[2].find("length") != std::string::npos, damaged[2]);
    require(damaged[3].find("No such file") != std::string::npos, damaged[3]);
    require(outcome_of([&] { checkpoints.load(4, read.state); }).kind == ErrorKind::corrupt, "load of a damaged one");
  });
}

TEST_CASE("a directory without checkpoints has no latest step") {
  const TemporaryDirectory directory;
  RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
    CheckpointManager checkpoints(directory.path() + "/run", self.group());
    State read(self.rank(), 2);
    require(!checkpoints.load_latest(read.state), "latest");
    require(checkpoints.step_directory(12) == directory.path() + "/run/step-000000000012", "step_directory");
  });
}

TEST_CASE("a step that is saved again is replaced") {
  const TemporaryDirectory directory;
  save_steps(directory.path() + "/run", 3, options_for({Layout::sharded, false}), {5});
  save_steps(directory.path() + "/run", 2, options_for({Layout::sharded, true}), {5, 5});
  CHECK(files_in(directory.path() + "/run/step-000000000005").size() == 3);
  CHECK(files_in(directory.path() + "/run") == std::vector<std::string>{"step-000000000005"});
}

TEST_CASE("an error on one rank is an error on all ranks") {
  const TemporaryDirectory directory;
  const std::string run = directory.path() + "/run";
  RankThreads ranks(make_cpu_backend, 2);
  SECTION("a directory that cannot be made") {
    ranks.all_fail(ErrorKind::unavailable, {"make directory", "No such file"},
                   [&](RankThreads::Rank& self) { CheckpointManager(run + "/a/b", self.group()); });
  }
  SECTION("a part that no rank has") {
    ranks.all_fail(ErrorKind::invalid_argument, {"'w'", "element 4 of tensor 'w' is in no rank's part"},
                   [&](RankThreads::Rank& self) {
                     std::vector<float> own(4);
                     CheckpointState state;
                     state.tensors = {{"w", own, {9}, self.rank() == 0 ? 0U : 5U}};
                     CheckpointManager(run, self.group()).save(1, state);
                   });
  }
  SECTION("a shape that does not fit") {
    ranks.all_fail(ErrorKind::invalid_argument, {"rank 1", "'w'", "elements 6 to 10", "it has only 9"},
                   [&](RankThreads::Rank& self) {
                     std::vector<float> own(self.rank() == 0 ? 9 : 4);
                     CheckpointState state;
                     state.tensors = {{"w", own, {9}, self.rank() == 0 ? 0U : 6U}};
                     CheckpointManager(run, self.group()).save(1, state);
                   });
  }
  SECTION("a tensor that the checkpoint does not have") {
    save_steps(run, 1, {}, {1});
    ranks.all_fail(ErrorKind::mismatch, {"rank 1", "no tensor 'other'"}, [&](RankThreads::Rank& self) {
      State read(self.rank(), 2);
      std::vector<float> other(1);
      if (self.rank() == 1) read.state.tensors.push_back(Tensor{"other", other, {1}});
      CheckpointManager(run, self.group()).load(1, read.state);
    });
  }
  SECTION("a step that is not there") {
    ranks.all_fail(ErrorKind::unavailable, {"step-000000000003/manifest.json", "No such file"},
                   [&](RankThreads::Rank& self) {
                     State read(self.rank(), 2);
                     CheckpointManager(run, self.group()).load(3, read.state);
                   });
  }
  SECTION("a value that is no text") {
    ranks.all_fail(ErrorKind::invalid_argument, {"rank 1", "'rng'", "UTF-8"}, [&](RankThreads::Rank& self) {
      State saved(self.rank(), 2);
      saved.state.rank_values["rng"] = self.rank() == 1 ? "\xff" : "x";
      CheckpointManager(run, self.group()).save(1, saved.state);
    });
  }
  SECTION("a negative step") {
    ranks.all_fail(ErrorKind::invalid_argument, {"0 or more"}, [&](RankThreads::Rank& self) {
      State saved(self.rank(), 2);
      CheckpointManager(run, self.group()).save(-3, saved.state);
    });
  }
}

TEST_CASE("a failed asynchronous save is reported by the next call") {
  const TemporaryDirectory directory;
  const std::string run = directory.path() + "/run";
  RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
    CheckpointManager checkpoints(run, self.group(), options_for({Layout::sharded, true}));
    self.group().barrier().wait();
    if (self.rank() == 0) std::ofstream(run + "/.writing-step-000000000001") << "a file where a directory should be";
    self.group().barrier().wait();
    State saved(self.rank(), 2);
    saved.fill(1);
    checkpoints.save(1, saved.state);
    const RankOutcome outcome = outcome_of([&] { checkpoints.wait(); });
    require(outcome.kind == ErrorKind::unavailable, outcome.message);
    require(outcome.message.find("rank 0: ") != std::string::npos, outcome.message);
    checkpoints.wait();  // the error is reported only once
    self.group().barrier().wait();
    require(files_in(run) == std::vector<std::string>{".lock"}, "something was left");
    checkpoints.save(2, saved.state);
    require(checkpoints.latest() == 2, "goes on");
  });
}

namespace {

// Describes a part of a training run, which begins at the latest checkpoint unless it begins at step 0.
struct Training {
  MemoryUnderTest memory;
  int ranks = 1;
  int first = 0;
  int last = 0;
  std::optional<Way> saves = {};  // saves the state at the end
};

// Returns the bytes of the parameters at the end, and their values.
struct Trained {
  std::string bytes;
  std::vector<double> values;
};

Trained train(const std::string& directory, const Training& training) {
  Trained result;
  RankThreads(training.memory.make, training.memory.ranks({training.ranks})[0])
      .all_succeed([&](RankThreads::Rank& self) {
        PlacedMemory memory(self.group(), training.memory.device);
        DataParallelOptions options;
        options.stream = memory.stream();
        options.exchange = ShardOptimizer{};
        DistributedDataParallel data_parallel(self.group(),
                                              {{"weight", memory.make(std::vector<float>(500, 1)), {500}},
                                               {"half", memory.make(std::vector<Float16>(300, Float16(1))), {300}}},
                                              options);
        Optimizer optimizer(data_parallel, AdamOptions{.learning_rate = 0.1});
        CheckpointState state;
        state.tensors = optimizer.state();
        for (const Tensor& parameter : data_parallel.parameters()) state.tensors.emplace_back(parameter);
        state.stream = memory.stream();
        CheckpointManager checkpoints(directory, self.group(), options_for(training.saves.value_or(kWays[0])));
        if (training.first > 0) require(checkpoints.load_latest(state) == training.first, "latest");
        for (int step = training.first; step < training.last; ++step) {
          for (std::size_t i = 0; i < 2; ++i) {
            memory.set(data_parallel.gradient(i),
                       [&](std::size_t k) { return (k * 7 + 3 * static_cast<std::size_t>(step)) % 11; });
            data_parallel.mark_ready(i);
          }
          data_parallel.finish();
          optimizer.step();
        }
        if (training.saves) checkpoints.save(training.last, state);
        checkpoints.wait();
        Trained own;
        for (const Tensor& parameter : data_parallel.parameters()) {
          own.bytes += memory.bytes(parameter.data);
          const std::vector<double> values = memory.numbers(parameter.data);
          own.values.insert(own.values.end(), values.begin(), values.end());
        }
        if (self.rank() == 0) result = own;
      });
  return result;
}

}  // namespace

TEST_CASE("a sharded optimizer resumes from the checkpoint of another number of ranks") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    const TemporaryDirectory directory;
    const std::string run = directory.path() + "/run";
    const Way way = {Layout::sharded, true};
    const Trained whole = train(run, {memory, 1, 0, 9});
    train(run, {memory, 2, 0, 3, way});
    train(run, {memory, 4, 3, 6, way});
    const Trained pieced = train(run, {memory, 1, 6, 9});
    for (std::size_t i = 0; i < 500; ++i) CHECK(pieced.values[i] == Approx(whole.values[i]).epsilon(1e-6));
  }
}

TEST_CASE("a run in GPU memory resumes bit-identically from a checkpoint of the GPU or the host") {
  const MemoryUnderTest gpu = gpu_memory_under_test();
  for (const Way& way : kWays) {
    const TemporaryDirectory directory;
    const std::string run = directory.path() + "/run";
    const Trained whole = train(run, {gpu, 2, 0, 6});
    train(run, {gpu, 2, 0, 3, way});
    CHECK(train(run, {gpu, 2, 3, 6}).bytes == whole.bytes);
    const Trained on_host = train(run, {host_memory(), 2, 3, 6});
    REQUIRE(on_host.values.size() == whole.values.size());
    for (std::size_t i = 0; i < whole.values.size(); ++i) {
      CHECK(on_host.values[i] == Approx(whole.values[i]).epsilon(1e-3));
    }
  }
}

TEST_CASE("tensors in GPU memory are rejected by a group without access to them") {
  const TemporaryDirectory directory;
  RankThreads(make_cpu_backend, 2)
      .all_fail(ErrorKind::invalid_argument, {"'w'", "GPU memory"}, [&](RankThreads::Rank& self) {
        float nowhere = 0;
        CheckpointState state;
        state.tensors = {{"w", {&nowhere, 1, DataType::f32, DeviceType::cuda}, {1}, 0}};
        CheckpointManager(directory.path(), self.group()).save(1, state);
      });
}

TEST_CASE("ranks that save different steps get an error, and no files remain") {
  for (const Way& way : kWays) {
    const TemporaryDirectory directory;
    RankThreads(make_cpu_backend, 2)
        .all_fail(ErrorKind::mismatch, {"save different steps", "step 6", "step 7"}, [&](RankThreads::Rank& self) {
          CheckpointManager checkpoints(directory.path(), self.group(), options_for(way));
          State saved(self.rank(), 2);
          saved.fill(1);
          checkpoints.save(6 + self.rank(), saved.state);
        });
    CHECK(files_in(directory.path()).empty());
  }
}
