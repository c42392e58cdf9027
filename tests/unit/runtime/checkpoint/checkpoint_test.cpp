#include <ddp/checkpoint.h>

#include <fstream>

#include "support/catch.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("every rank gets the data that rank 0 saved") {
  const TemporaryDirectory directory;
  for (const MemoryUnderTest& memory : memories_under_test()) {
    INFO(memory.name);
    RankThreads(memory.make, memory.ranks({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      CheckpointFile checkpoint(directory.path() + "/" + memory.name, self.group(), placed.stream());
      require(!checkpoint.exists(), "there is no file yet");
      const Buffer weight = placed.make(std::vector<float>(5, static_cast<float>(self.rank() + 1)));
      std::vector<std::uint8_t> none;
      std::vector<std::int32_t> on_host = {self.rank()};
      const std::vector<Tensor> tensors = {{"weight", weight, {5}}, {"none", none, {0}}, {"on host", on_host, {1}}};
      checkpoint.save(tensors, {{"step", std::to_string(self.rank() + 10)}});
      require(checkpoint.exists(), "the file is there");
      placed.fill(weight, -1);
      on_host = {7};
      require(checkpoint.load(tensors).at("step") == "10", "rank 0's metadata");
      require(placed.read<float>(weight) == std::vector<float>(5, 1.0F), "rank 0's values");
      require(on_host[0] == 0, "rank 0's value in host memory");
    });
  }
}

TEST_CASE("a failure on rank 0 gives the same message on every rank") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
  GlooRanks ranks(2);
  SECTION("no file") {
    ranks.all_fail(ErrorKind::unavailable, {path, "No such file"}, [&](GlooRanks::Rank& self) {
      std::vector<float> own(5);
      const std::vector<Tensor> tensors = {{"weight", own, {5}}};
      CheckpointFile(path, self.group()).load(tensors);
    });
  }
  SECTION("a damaged file") {
    std::ofstream(path) << "not a checkpoint";
    ranks.all_fail(ErrorKind::corrupt, {path},
                   [&](GlooRanks::Rank& self) { CheckpointFile(path, self.group()).load({}); });
  }
  SECTION("another model") {
    ranks.all_fail(ErrorKind::mismatch, {"'weight'", "f32[5]", "f32[6]"}, [&](GlooRanks::Rank& self) {
      std::vector<float> own(6, -1.0F);
      const std::vector<Tensor> saved = {{"weight", {own.data(), 5, DataType::f32}, {5}}};
      const std::vector<Tensor> wanted = {{"weight", own, {6}}};
      CheckpointFile checkpoint(path, self.group());
      checkpoint.save(saved, {});
      checkpoint.load(wanted);
    });
  }
  SECTION("ranks that ask for different tensors") {
    ranks.all_fail(ErrorKind::mismatch, {"'weight' f32[2]", "rank 1 has 'weight' f32[3]"}, [&](GlooRanks::Rank& self) {
      std::vector<float> own(self.rank() == 1 ? 3 : 2);
      const std::vector<Tensor> tensors = {{"weight", own, {std::ssize(own)}}};
      CheckpointFile(path, self.group()).load(tensors);
    });
  }
  SECTION("GPU memory that the backend does not reach") {
    ranks.all_fail(ErrorKind::invalid_argument, {"'weight'", "GPU memory", "gloo"}, [&](GlooRanks::Rank& self) {
      float nowhere = 0;
      const std::vector<Tensor> tensors = {{"weight", {&nowhere, 1, DataType::f32, DeviceType::cuda}, {1}}};
      CheckpointFile(path, self.group()).save(tensors, {});
    });
  }
  SECTION("a name that is not UTF-8") {
    ranks.all_fail(ErrorKind::invalid_argument, {"UTF-8"}, [&](GlooRanks::Rank& self) {
      std::vector<float> own(1);
      const std::vector<Tensor> tensors = {{"w\xFF", own, {1}}};
      CheckpointFile(path, self.group()).save(tensors, {});
    });
  }
  SECTION("a directory that is not there and whose name is not UTF-8") {
    ranks.all_fail(ErrorKind::unavailable, {"\xFF/model"}, [&](GlooRanks::Rank& self) {
      CheckpointFile(directory.path() + "/\xFF/model", self.group()).save({}, {});
    });
  }
  SECTION("a repeated name") {
    ranks.all_fail(ErrorKind::invalid_argument, {"'w'"}, [&](GlooRanks::Rank& self) {
      std::vector<float> own(1);
      const std::vector<Tensor> tensors = {{"w", own, {1}}, {"w", own, {1}}};
      CheckpointFile(path, self.group()).save(tensors, {});
    });
  }
}

TEST_CASE("a tensor whose shape contradicts its data is neither saved nor loaded") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
  GlooRanks(2).all_succeed([&](GlooRanks::Rank& self) {
    std::vector<float> full(6, 1.0F);
    std::vector<float> small(2, -1.0F);
    CheckpointFile checkpoint(path, self.group());
    const std::vector<Tensor> good = {{"w", full, {2, 3}}};
    checkpoint.save(good, {});
    const std::vector<Tensor> wrong = {{"w", small, {2, 3}}};
    const std::vector<Tensor> negative = {{"w", full, {-2, -3}}};
    for (const auto& tensors : {wrong, negative}) {
      const RankOutcome loaded = outcome_of([&] { checkpoint.load(tensors); });
      require(loaded.kind == ErrorKind::invalid_argument, "loaded: " + loaded.message);
      const RankOutcome saved = outcome_of([&] { checkpoint.save(tensors, {}); });
      require(saved.kind == ErrorKind::invalid_argument, "saved: " + saved.message);
    }
    require(small[0] == -1.0F, "untouched");
    checkpoint.load(good);
  });
}

TEST_CASE("a missing directory is reported before anything is saved") {
  GlooRanks(2).all_fail(ErrorKind::unavailable, {"there is no directory /no/such"}, [](GlooRanks::Rank& self) {
    static_cast<void>(CheckpointFile("/no/such/file", self.group()).exists());
  });
}

TEST_CASE("a group stays usable after a failed checkpoint") {
  const TemporaryDirectory directory;
  GlooRanks(2).all_succeed([&](GlooRanks::Rank& self) {
    CheckpointFile checkpoint(directory.path() + "/model.safetensors", self.group());
    const RankOutcome failed = outcome_of([&] { checkpoint.load({}); });
    require(failed.kind == ErrorKind::unavailable, failed.message);
    checkpoint.save({}, {{"step", "1"}});
    require(checkpoint.load({}).at("step") == "1", "saved after the failure");
  });
}
