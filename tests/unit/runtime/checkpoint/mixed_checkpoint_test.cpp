// Tests directories in which files of several saves, or no files at all, are at the places of a checkpoint's files.
#include <ddp/checkpoint_manager.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "support/catch.h"
#include "support/checkpoint_runs.h"
#include "support/rank_threads.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("a step with parts of another save, or with exchanged parts, is not a checkpoint") {
  const std::string parts[] = {"/part-00000-of-00002.safetensors", "/part-00001-of-00002.safetensors"};
  const auto step = [](const std::string& run, int number) {
    return run + "/step-00000000000" + std::to_string(number);
  };
  using std::filesystem::copy_file;
  const auto over = std::filesystem::copy_options::overwrite_existing;
  const std::vector<std::function<void(const std::string& run)>> mixtures = {
      [&](const std::string& run) { copy_file(step(run, 1) + parts[0], step(run, 2) + parts[0], over); },
      [&](const std::string& run) { copy_file(step(run, 1) + parts[1], step(run, 2) + parts[1], over); },
      [&](const std::string& run) {
        std::filesystem::rename(step(run, 2) + parts[0], run + "/x");
        std::filesystem::rename(step(run, 2) + parts[1], step(run, 2) + parts[0]);
        std::filesystem::rename(run + "/x", step(run, 2) + parts[1]);
      },
      [&](const std::string& run) { copy_file(run + "/other" + parts[0], step(run, 2) + parts[0], over); },
      [&](const std::string& run) {
        copy_file(step(run, 1) + "/manifest.json", step(run, 2) + "/manifest.json", over);
      }};
  for (const auto& mix : mixtures) {
    const TemporaryDirectory directory;
    const std::string run = directory.path() + "/run";
    save_steps(run, 2, options_for({Layout::sharded, false}), {1, 2});
    std::filesystem::create_directory(run + "/other");
    for (const std::string& part : parts) copy_file(step(run, 2) + part, run + "/other" + part);
    save_steps(run, 2, options_for({Layout::sharded, false}), {2});  // a restart saves the same step again
    mix(run);
    RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
      CheckpointManager checkpoints(run, self.group());
      State read(self.rank(), 2);
      require(checkpoints.latest() == 1, "latest");
      require(checkpoints.damaged().size() == 1, "damaged");
      require(outcome_of([&] { checkpoints.load(2, read.state); }).kind == ErrorKind::corrupt, "load");
      require(checkpoints.load_latest(read.state) == 1, "load_latest");
      read.require_filled(1);
    });
  }
}

TEST_CASE("a manifest or part that is not a regular file makes its step be skipped") {
  const std::vector<std::function<void(const std::string& path)>> others = {
      [](const std::string& path) { std::filesystem::create_directory(path); },
      [](const std::string& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); },
      [](const std::string& path) {
        std::ofstream(path) << "x";
        std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
      }};
  for (const auto& make : others) {
    for (const std::string name : {"manifest.json", "model.safetensors"}) {
      const TemporaryDirectory directory;
      const std::string run = directory.path() + "/run";
      save_steps(run, 1, {}, {1, 2});
      std::filesystem::remove(run + "/step-000000000002/" + name);
      make(run + "/step-000000000002/" + name);
      RankThreads(make_cpu_backend, 1).all_succeed([&](RankThreads::Rank& self) {
        CheckpointManager checkpoints(run, self.group());
        State read(0, 1);
        require(checkpoints.load_latest(read.state) == 1, "latest");
        require(checkpoints.damaged().size() == 1, "damaged");
      });
    }
  }
}

TEST_CASE("two jobs cannot save to one directory, and a dead job does not prevent it") {
  const TemporaryDirectory directory;
  const std::string run = directory.path() + "/run";
  RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
    State saved(self.rank(), 2);
    saved.fill(1);
    CheckpointManager second(run, self.group());
    CheckpointManager impatient(run, self.group(), {.timeout = 1ms});
    {
      CheckpointManager first(run, self.group());
      first.save(1, saved.state);
      const RankOutcome refused = outcome_of([&] { impatient.save(2, saved.state); });
      require(refused.kind == ErrorKind::unavailable, refused.message);
      require(refused.message.find("another job saves") != std::string::npos, refused.message);
      require(refused.message.find("pid " + std::to_string(::getpid())) != std::string::npos, refused.message);
      require(second.load_latest(saved.state) == 1, "readers need no lock");
      first.save(2, saved.state);
      self.group().barrier().wait();
    }
    self.group().barrier().wait();
    second.save(3, saved.state);
  });
  std::ofstream(run + "/.lock") << "pid 1 on a node that has failed";
  save_steps(run, 1, {}, {4});
  CHECK(files_in(run).size() == 3);
}
