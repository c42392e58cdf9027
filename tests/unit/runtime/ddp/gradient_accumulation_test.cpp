#include <ddp/gradient_accumulation.h>

#include <cmath>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;

namespace {

// Is a model of one weight vector, whose gradient in a micro-step is one number.
struct OneWeight {
  PlacedMemory memory;
  DistributedDataParallel data_parallel;

  explicit OneWeight(ProcessGroup& group, DeviceType device = DeviceType::cpu)
      : memory(group, device), data_parallel(group, {{"weight", memory.make(std::vector<float>(5)), {5}}}, options()) {}

  DataParallelOptions options() const {
    DataParallelOptions result;
    result.stream = memory.stream();
    return result;
  }
  void backward(float gradient) {
    memory.add(data_parallel.gradient(0), gradient);
    data_parallel.mark_ready(0);
  }
  double gradient() { return memory.numbers(data_parallel.gradient(0))[4]; }
};

std::vector<MemoryUnderTest> memories() {
  std::vector<MemoryUnderTest> result = memories_in_software();
  result[0].make = make_gloo_backend;
  return result;
}

void require_near(double value, double expected) {
  require(std::abs(value - expected) < 1e-6, std::to_string(value) + " is not " + std::to_string(expected));
}

// Returns what rank r adds in micro-step i.
float part(int rank, int i) {
  return static_cast<float>(10 * rank + i);
}

}  // namespace

TEST_CASE("an accumulation window holds the mean over ranks and micro-steps, also if it is short") {
  const MemoryUnderTest memory = GENERATE(from_range(memories()));
  RankThreads(memory.make, 3).all_succeed([&](RankThreads::Rank& self) {
    OneWeight model(self.group(), memory.device);
    Accumulation window = model.data_parallel.accumulate(4);
    double sum = 0;  // the sum over ranks and over the window
    int length = 0;
    int windows = 0;
    for (int i = 0; i < 10; ++i) {
      window.begin(i == 9);
      require(window.synchronizes() == (i == 3 || i == 7 || i == 9), "synchronizes() at " + std::to_string(i));
      model.backward(part(self.rank(), i));
      for (int rank = 0; rank < 3; ++rank) sum += part(rank, i);
      ++length;
      if (!window.finish()) continue;
      require_near(model.gradient(), sum / 3 / length);
      sum = 0;
      length = 0;
      ++windows;
    }
    require(windows == 3, "windows");
    require(!window.flush(), "nothing was left");
  });
}

TEST_CASE("an accumulation window that ends early is flushed") {
  const MemoryUnderTest memory = GENERATE(from_range(memories()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    OneWeight model(self.group(), memory.device);
    Accumulation window = model.data_parallel.accumulate(4);
    for (int i = 0; i < 6; ++i) {
      window.begin();
      model.backward(part(self.rank(), i));
      require(window.finish() == (i == 3), "finish");
    }
    require(window.flush(), "a window had begun");
    require_near(model.gradient(), (part(0, 4) + part(1, 4) + part(0, 5) + part(1, 5)) / 4);
    model.data_parallel.require_synchronized("step");
    window.begin();  // the next window begins with zeroes
    require(model.gradient() == 0.0F, "not zeroed");
    model.backward(1);
    window.finish();
    window.flush();
    require_near(model.gradient(), 1);
  });
}

TEST_CASE("no_sync accumulates on each rank, and the mean is over ranks only") {
  const MemoryUnderTest memory = GENERATE(from_range(memories()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    OneWeight model(self.group(), memory.device);
    {
      const NoSync outer = model.data_parallel.no_sync();
      {
        const NoSync inner = model.data_parallel.no_sync();
        model.backward(part(self.rank(), 1));
        model.data_parallel.finish();
      }
      require_near(model.gradient(), part(self.rank(), 1));
      model.backward(part(self.rank(), 2));
      model.data_parallel.finish();
    }
    model.backward(part(self.rank(), 3));
    model.data_parallel.finish();
    require_near(model.gradient(), (part(0, 1) + part(0, 2) + part(0, 3) + part(1, 1) + part(1, 2) + part(1, 3)) / 2);
  });
}

TEST_CASE("no_sync in the middle of a step takes effect from the next step") {
  ScriptedGroup scripted;
  OneWeight model(scripted.group);
  const auto calls = scripted.script->calls().size();
  {
    const NoSync local = model.data_parallel.no_sync();
    model.backward(1);
  }
  model.data_parallel.finish();
  CHECK(scripted.script->calls().size() == calls);
  model.backward(1);
  expect_error(ErrorKind::invalid_argument, {"no_sync", "before backward"},
               [&] { const NoSync local = model.data_parallel.no_sync(); });
  model.data_parallel.finish();
  CHECK(scripted.script->calls().size() > calls);
}

TEST_CASE("an optimizer cannot step on unsynchronised gradients") {
  ScriptedGroup scripted;
  OneWeight model(scripted.group);
  DistributedDataParallel& data_parallel = model.data_parallel;
  const auto refused = [&](const std::string& why) {
    expect_error(ErrorKind::invalid_argument, {"Sgd::step", why},
                 [&] { data_parallel.require_synchronized("Sgd::step"); });
  };
  refused("finish() was not called");
  model.backward(1);
  refused("finish() was not called");
  data_parallel.finish();
  data_parallel.require_synchronized("Sgd::step");
  data_parallel.zero_gradients();
  refused("finish() was not called");
  {
    const NoSync local = data_parallel.no_sync();
    model.backward(1);
    data_parallel.finish();
    refused("of 1 step.");
    model.backward(1);
    data_parallel.finish();
  }
  refused("of 2 steps.");
  expect_error(ErrorKind::invalid_argument, {"clip_gradients", "local to this rank"},
               [&] { data_parallel.clip_gradients(1); });
  model.backward(1);
  data_parallel.finish();
  data_parallel.require_synchronized("Sgd::step");
}

TEST_CASE("wrong use of an accumulation window is rejected") {
  ScriptedGroup scripted;
  OneWeight model(scripted.group);
  expect_error(ErrorKind::invalid_argument, {"1 micro-step or more, not 0"},
               [&] { static_cast<void>(model.data_parallel.accumulate(0)); });
  Accumulation window = model.data_parallel.accumulate(2);
  expect_error(ErrorKind::invalid_argument, {"call begin() first"}, [&] { window.finish(); });
  window.begin();
  model.backward(1);
  expect_error(ErrorKind::invalid_argument, {"finish() after each backward"}, [&] { window.begin(); });
  expect_error(ErrorKind::invalid_argument, {"zero_gradients", "finish()"},
               [&] { model.data_parallel.zero_gradients(); });
  window.finish();
}

TEST_CASE("only one accumulation window exists at a time") {
  ScriptedGroup scripted;
  std::vector<double> weight(1);
  DistributedDataParallel data_parallel(scripted.group, {{"weight", weight, {1}}});
  {
    const Accumulation window = data_parallel.accumulate(2);
    expect_error(ErrorKind::invalid_argument, {"accumulate", "an accumulation window is already open"},
                 [&] { static_cast<void>(data_parallel.accumulate(2)); });
  }
  Accumulation another = data_parallel.accumulate(3);
  const NoSync local = data_parallel.no_sync();
  expect_error(ErrorKind::invalid_argument, {"within no_sync()"}, [&] { another.begin(); });
}

TEST_CASE("gradients are clipped by their common norm") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    std::vector<float> first(3);
    std::vector<double> second(1);
    DistributedDataParallel data_parallel(self.group(), {{"first", first, {3}}, {"second", second, {1}}});
    const auto step = [&](float a, double b) {
      for (float& element : data_parallel.gradient<float>(0)) element = a;
      data_parallel.gradient<double>(1)[0] = b;
      data_parallel.mark_ready(0);
      data_parallel.mark_ready(1);
      data_parallel.finish();
    };
    step(1, 1);  // the norm is 2
    require_near(data_parallel.clip_gradients(1), 2);
    require_near(data_parallel.gradient<float>(0)[2], 0.5);
    require_near(data_parallel.gradient<double>(1)[0], 0.5);
    require_near(data_parallel.clip_gradients(5), 1);
    require_near(data_parallel.gradient<float>(0)[2], 0.5);
    step(1, std::nan(""));
    require(std::isnan(data_parallel.clip_gradients(1)), "no NaN");
    require(data_parallel.gradient<float>(0)[0] == 1.0F, "scaled");
    require(outcome_of([&] { data_parallel.clip_gradients(0); }).kind == ErrorKind::invalid_argument, "norm 0");
  });
}

TEST_CASE("a micro-step that was begun and skipped does not count") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    OneWeight model(self.group());
    Accumulation window = model.data_parallel.accumulate(2);
    int windows = 0;
    for (int i = 0; i < 12; ++i) {
      window.begin(i == 11);
      if (i == 1 || i == 4 || i == 5)
        continue;  // the last batch of one window and all batches of another are bad on all ranks
      model.backward(6);
      if (!window.finish()) continue;
      require_near(model.gradient(), 6);
      ++windows;
    }
    require(windows == 5, std::to_string(windows));  // there are 9 micro-steps
  });
}

TEST_CASE("an accumulation window that is left early does not affect the synchronisation of later steps") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    OneWeight model(self.group());
    {
      Accumulation window = model.data_parallel.accumulate(4);
      window.begin();
      model.backward(1);
      window.finish();
    }
    model.data_parallel.zero_gradients();
    model.backward(static_cast<float>(self.rank()));
    model.data_parallel.finish();
    require_near(model.gradient(), 0.5);
  });
}
