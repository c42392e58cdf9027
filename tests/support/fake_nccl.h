// FakeNccl: NCCL and CUDA over host memory, for ranks that are threads of the test or for one scripted rank alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <latch>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace ddp::test {

// Cheap to copy; all copies, and the tables made from it, are the same fake, so a call that the code under test left
// behind on a thread never outlives it.
//
// "Device" memory is what the fake allocated: a collective over any other pointer is counted as `foreign_pointers`.
class FakeNccl {
 public:
  static constexpr int kForEver = std::numeric_limits<int>::max();

  // What is to happen on one rank, and what did.
  struct Rank {
    // Script.
    int init_polls = 0;                         // looks until the communicator is ready
    std::optional<NcclResult> init_result;      // returned by the making itself
    std::optional<NcclResult> init_error;       // the communicator's state after the looks of the making
    int enqueue_polls = 0;                      // looks until an operation is on the stream
    int stream_polls = 0;                       // looks until the stream is done
    std::optional<NcclResult> operation_error;  // the communicator's state after the looks of an operation
    int finalize_polls = 0;                     // looks until finalizing is done
    bool abort_hangs = false;                   // until let_aborts_end()
    bool out_of_memory = false;
    CudaStatus device_count_status = kCudaSuccess;
    int device_count = 1;
    // Record.
    std::atomic<int> aborts = 0;
    int destroys = 0;
    int finalizes = 0;
    int streams = 0;
    int streams_destroyed = 0;
    int allocations = 0;
    int releases = 0;
    int copies_to_device = 0;
    int copies_to_host = 0;
    int foreign_pointers = 0;
    int current_device = -1;
    std::vector<ReduceOp> reductions;

   private:
    friend class FakeNccl;
    bool operation_begun = false;
    int looks_left = 0;         // at the communicator
    int stream_looks_left = 0;  // at the stream
    std::size_t operations = 0;
    std::map<void*, std::vector<char>> memory;
  };

  explicit FakeNccl(int size = 1) : world_(std::make_shared<World>(size)) {}

  Rank& rank(int number = 0) const { return world_->ranks[static_cast<std::size_t>(number)]; }
  void let_aborts_end() const { world_->aborts_may_end.count_down(); }

  NcclApi nccl(int number = 0) const {
    auto world = world_;
    Rank* self = &rank(number);
    NcclApi api;
    api.get_unique_id = [](NcclUniqueId& id) {
      id.fill('i');
      id[3] = '\0';  // ids are bytes, not text
      return NcclResult::success;
    };
    api.init_rank = [self, world](NcclComm& comm, int, const NcclUniqueId& id, int) {
      if (self->init_result) return *self->init_result;
      comm = self;
      self->looks_left = self->init_polls;
      return id[3] == '\0' && id[127] == 'i' ? NcclResult::in_progress : NcclResult::invalid_argument;
    };
    api.async_error = [self, world](NcclComm) {
      const std::lock_guard lock(world->mutex);
      if (self->looks_left > 0) {
        if (self->looks_left != kForEver) --self->looks_left;
        return NcclResult::in_progress;
      }
      if (self->init_error) return *self->init_error;
      if (self->operation_begun && self->operation_error) return *self->operation_error;
      return NcclResult::success;
    };
    api.finalize = [self, world](NcclComm) {
      const std::lock_guard lock(world->mutex);
      ++self->finalizes;
      self->looks_left = self->finalize_polls;
      return NcclResult::in_progress;
    };
    api.destroy = [self, world](NcclComm) {
      ++self->destroys;
      return NcclResult::success;
    };
    api.abort = [self, world](NcclComm) {
      ++self->aborts;
      if (self->abort_hangs) world->aborts_may_end.wait();
      return NcclResult::success;
    };
    api.all_reduce = [self, world](const void* send, void* receive, std::size_t count, DataType type, ReduceOp op,
                                   NcclComm, CudaStreamHandle) {
      self->reductions.push_back(op);
      return world->begin(*self, send, receive, count * size_of(type), [count, type, op](const Parts& parts) {
        if (type == DataType::f32) reduce<float>(parts, count, op);
        if (type == DataType::u8) reduce<std::uint8_t>(parts, count, op);
      });
    };
    api.broadcast = [self, world](const void* send, void* receive, std::size_t count, DataType type, int root, NcclComm,
                                  CudaStreamHandle) {
      const std::size_t bytes = count * size_of(type);
      return world->begin(*self, send, receive, bytes, [bytes, root](const Parts& parts) {
        for (const Part& part : parts) {
          std::memmove(part.receive, parts[static_cast<std::size_t>(root)].send, bytes);
        }
      });
    };
    api.all_gather = [self, world](const void* send, void* receive, std::size_t count, DataType type, NcclComm,
                                   CudaStreamHandle) {
      const std::size_t bytes = count * size_of(type);
      return world->begin(*self, send, receive, bytes, [bytes](const Parts& parts) {
        for (const Part& to : parts) {
          for (std::size_t from = 0; from < parts.size(); ++from) {
            std::memmove(static_cast<char*>(to.receive) + from * bytes, parts[from].send, bytes);
          }
        }
      });
    };
    api.error_string = [](NcclResult result) { return "result " + std::to_string(static_cast<int>(result)); };
    api.last_error = [](NcclComm) { return std::string("socket closed"); };
    return api;
  }

  CudaApi cuda(int number = 0) const {
    auto world = world_;
    Rank* self = &rank(number);
    CudaApi api;
    api.device_count = [self, world](int& count) {
      count = self->device_count;
      return self->device_count_status;
    };
    api.bus_id = [](int device, std::string& bus_id) {
      bus_id = "0000:0" + std::to_string(device) + ":00.0";
      return kCudaSuccess;
    };
    api.set_device = [self, world](int device) {
      self->current_device = device;
      return kCudaSuccess;
    };
    api.create_stream = [self, world](CudaStreamHandle& stream) {
      ++self->streams;
      stream = self;
      return kCudaSuccess;
    };
    api.destroy_stream = [self, world](CudaStreamHandle) {
      ++self->streams_destroyed;
      return kCudaSuccess;
    };
    api.query_stream = [self, world](CudaStreamHandle) { return world->query(*self); };
    api.allocate = [self, world](void*& memory, std::size_t bytes) {
      if (self->out_of_memory) return 2;
      ++self->allocations;
      std::vector<char> block(bytes, '\x5a');
      memory = block.data();
      self->memory.emplace(memory, std::move(block));
      return kCudaSuccess;
    };
    api.release = [self, world](void* memory) {
      ++self->releases;
      self->memory.erase(memory);
      return kCudaSuccess;
    };
    api.copy_async = [self, world](void* to, const void* from, std::size_t bytes, CopyDirection direction,
                                   CudaStreamHandle) {
      ++(direction == CopyDirection::to_device ? self->copies_to_device : self->copies_to_host);
      std::memcpy(to, from, bytes);
      return kCudaSuccess;
    };
    api.error_name = [](CudaStatus status) {
      return status == 2 ? std::string("cudaErrorMemoryAllocation") : "cudaError" + std::to_string(status);
    };
    return api;
  }

  // "Device" memory of a rank, for device buffers; lives as long as the fake.
  template <typename T>
  T* device_memory(std::vector<T> values, int number = 0) const {
    std::vector<char> block(values.size() * sizeof(T));
    std::memcpy(block.data(), values.data(), block.size());
    void* memory = block.data();
    rank(number).memory.emplace(memory, std::move(block));
    return static_cast<T*>(memory);
  }

 private:
  struct Part {
    const void* send = nullptr;
    void* receive = nullptr;
  };
  using Parts = std::vector<Part>;

  struct Operation {
    Parts parts;
    std::size_t arrived = 0;
  };

  struct World {
    explicit World(int size) : ranks(static_cast<std::size_t>(size)) {}

    // Joins this rank to its next operation; the last rank to come carries it out.
    template <typename Execute>
    NcclResult begin(Rank& self, const void* send, void* receive, std::size_t bytes, Execute execute) {
      const std::lock_guard lock(mutex);
      if (!is_device_memory(self, send, bytes) || !is_device_memory(self, receive, bytes)) ++self.foreign_pointers;
      self.operation_begun = true;
      self.looks_left = self.enqueue_polls;
      self.stream_looks_left = self.stream_polls;
      Operation& operation = operations[self.operations++];
      operation.parts.resize(ranks.size());
      operation.parts[static_cast<std::size_t>(&self - ranks.data())] = {send, receive};
      if (++operation.arrived == ranks.size()) execute(operation.parts);
      return NcclResult::in_progress;
    }

    CudaStatus query(Rank& self) {
      const std::lock_guard lock(mutex);
      if (self.stream_looks_left > 0) {
        if (self.stream_looks_left != kForEver) --self.stream_looks_left;
        return kCudaNotReady;
      }
      if (self.operations == 0) return kCudaSuccess;
      return operations[self.operations - 1].arrived == ranks.size() ? kCudaSuccess : kCudaNotReady;
    }

    static bool is_device_memory(const Rank& rank, const void* begin, std::size_t bytes) {
      const auto* first = static_cast<const char*>(begin);
      return std::any_of(rank.memory.begin(), rank.memory.end(), [&](const auto& entry) {
        const std::vector<char>& block = entry.second;
        return first >= block.data() && first + bytes <= block.data() + block.size();
      });
    }

    std::mutex mutex;
    std::vector<Rank> ranks;
    std::map<std::size_t, Operation> operations;
    std::latch aborts_may_end{1};
  };

  template <typename T>
  static void reduce(const Parts& parts, std::size_t count, ReduceOp op) {
    for (std::size_t index = 0; index < count; ++index) {
      T result{};
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        const T value = static_cast<const T*>(parts[rank].send)[index];
        if (op.kind == ReduceOp::max) {
          result = rank == 0 ? value : std::max(result, value);
        } else {
          result = static_cast<T>(result + value / static_cast<T>(op.kind == ReduceOp::average ? parts.size() : 1));
        }
      }
      for (const Part& part : parts) static_cast<T*>(part.receive)[index] = result;
    }
  }

  std::shared_ptr<World> world_;
};

}  // namespace ddp::test
