#include <ddp/data_loader.h>
#include <ddp/memory_pool.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("a pool reuses returned memory and allocates more when all of it is in use") {
  for (const BackendUnderTest& backend : {cpu_near(), nccl_backend()}) {
    INFO(backend.name);
    RankThreads(backend.make, 1).all_succeed([](RankThreads::Rank& self) {
      std::optional<MemoryPool> pool(std::in_place, self.group(), 100, DataType::f32);
      Memory first = pool->take();
      require(first.as<float>().size() == 100 && first.as<float>()[99] == 0, "zeros");
      require(first.buffer().device == DeviceType::cpu, "host memory");
      first.as<float>()[99] = 7;
      const Memory second = pool->take();
      require(second.buffer().data != first.buffer().data, "another one");
      const void* place = first.buffer().data;
      first = Memory();
      Memory again = pool->take();
      require(again.buffer().data == place && again.as<float>()[99] == 7, "the same one again");
      pool.reset();
      again.as<float>()[0] = 1;  // the memory is still valid
    });
  }
}

TEST_CASE("batches of a loader reach the GPU through page-locked memory") {
  RankThreads(nccl_backend().make, 1).all_succeed([](RankThreads::Rank& self) {
    constexpr std::size_t kBatch = 8;
    std::vector<float> dataset(200);
    std::iota(dataset.begin(), dataset.end(), 0.0F);
    const DistributedSampler sampler(std::ssize(dataset), self.group(), {.shuffle = false});
    MemoryPool pool(self.group(), kBatch, DataType::f32);
    const auto collate = [&](std::vector<float>&& samples) {
      Memory memory = pool.take();
      std::copy(samples.begin(), samples.end(), memory.as<float>().begin());
      return memory;
    };
    const DataLoader loader(dataset, sampler, {.batch_size = kBatch, .prefetch = 3, .threads = 2}, collate);
    const Memory on_gpu = self.group().allocate(kBatch, DataType::f32, DeviceType::cuda);
    std::set<const void*> places;
    float expected = 0;
    for (Memory& batch : loader) {
      places.insert(batch.buffer().data);
      self.group().copy(on_gpu, batch);
      std::vector<float> back(kBatch);
      self.group().copy(back, on_gpu);
      for (const float value : back) require(value == expected++, "values in order");
    }
    require(expected == 200, "all of them");
    require(places.size() <= 6, "few buffers for 25 batches: " + std::to_string(places.size()));
  });
}
