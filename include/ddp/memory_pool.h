// MemoryPool keeps page-locked buffers of one size for reuse, such as the batches of a DataLoader that feeds a GPU.
#pragma once

#include <ddp/memory.h>
#include <ddp/process_group.h>

#include <cstddef>
#include <memory>

namespace ddp {

// It is thread-safe. The buffers that it returned may outlive it.
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
  // Makes a pool of buffers of `count` elements each. They are page-locked with nccl (ProcessGroup::allocate_pinned),
  // otherwise ordinary memory.
  MemoryPool(const ProcessGroup& group, std::size_t count, DataType type);

  // Returns an unused buffer, or a new one if there is none. The pool therefore makes only as many buffers as are used
  // at the same time. The buffer returns to the pool when the result is destroyed. A new buffer is zeroed; a reused one
  // keeps its contents.
  Memory take();

 private:
  struct Shelf;
  const ProcessGroup group_;
  const std::size_t count_;
  const DataType type_;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace ddp
