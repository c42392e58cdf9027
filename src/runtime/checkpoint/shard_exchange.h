// What ranks tell each other of their shards before they write them, and how shards get to files and back.
#pragma once

#include <ddp/checkpoint_manager.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/write_plan.h"

namespace ddp::internal {

// By rank.
struct ExchangedShards {
  std::vector<std::vector<ShardDescription>> shards;
  std::vector<std::map<std::string, std::string>> rank_values;
  std::map<std::string, std::string> values;  // rank 0's
};

// Collective. Throws invalid_argument, on all ranks, if a rank's shards have a fault.
ExchangedShards exchange_shards(const ProcessGroup& group, const CheckpointState& state);

// Tensors to be written, and the memory of those that are copies.
struct WrittenTensors {
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

// The plan's pieces for this rank, as tensors of one dimension, or of their own shape if they are whole. With `copies`
// they are copies, else views of the shards.
WrittenTensors own_parts(int rank, std::span<const TensorShard> shards,
                         const std::map<std::string, ManifestTensor>& plan, bool copies);

// Collective. Rank 0 gets every tensor whole, the others nothing; the plan's pieces are then one each, of file 0.
WrittenTensors gather_whole(const ProcessGroup& group, std::span<const TensorShard> shards,
                            std::map<std::string, ManifestTensor>& plan, bool copies);

// The bytes of a piece in a file; throws corrupt if the file does not hold it so.
const char* stored_piece(const ReadCheckpoint& file, const std::string& path, const std::string& name, DataType type,
                         const ManifestPiece& piece);

// Fills the shards from the files of a step's directory. Throws unavailable, corrupt or mismatch.
void read_shards(const std::string& directory, const Manifest& manifest, std::span<const TensorShard> shards);

}  // namespace ddp::internal
