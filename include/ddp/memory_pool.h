// MemoryPool: page-locked buffers of one size, used again and again: the batches of a DataLoader that feeds a GPU.
#pragma once

#include <ddp/memory.h>
#include <ddp/process_group.h>

#include <cstddef>
#include <memory>

namespace ddp {

// Thread-safe. What it gave may outlive it.
//
//   ddp::MemoryPool pool(world, batch * features, ddp::DataType::f32);
//   const auto collate = [&](std::vector<Sample>&& samples) {
//     ddp::Memory memory = pool.take();                    // on a thread of the loader
//     …                                                    // write the samples into memory.as<float>()
//     return memory;
//   };
//   ddp::DataLoader loader(dataset, sampler, {.batch_size = batch}, collate);
//   for (ddp::Memory& memory : loader) world.copy(on_gpu, memory, stream);
class DDP_EXPORT MemoryPool {
 public:
  // Of `count` elements each. Page-locked with nccl (ProcessGroup::allocate_pinned), else ordinary memory.
  MemoryPool(const ProcessGroup& group, std::size_t count, DataType type);

  // A buffer that nobody has; a new one if there is none, so that as many are made as are used at a time. It comes back
  // when the result is destroyed. A new one holds 0, one that came back what it held.
  Memory take();

 private:
  struct Shelf;
  const ProcessGroup group_;
  const std::size_t count_;
  const DataType type_;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace ddp
