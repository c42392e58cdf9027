// Ranks exchange descriptions of their shards before they write them. These functions also move shards to files and
// back.
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

// Holds the shards and values of all ranks, by rank.
struct ExchangedShards {
  std::vector<std::vector<ShardDescription>> shards;
  std::vector<std::map<std::string, std::string>> rank_values;
  std::map<std::string, std::string> values;  // values of rank 0
};

// All ranks call it. Throws invalid_argument on all ranks if a rank's shards have a fault.
ExchangedShards exchange_shards(const ProcessGroup& group, const CheckpointState& state);

// Holds the tensors to be written, which are in host memory, and the memory of those that are copies.
struct WrittenTensors {
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

// Returns the plan's pieces for this rank. A piece is a tensor of one dimension, or has the tensor's shape if it is the
// whole tensor. With `copies`, or in GPU memory, the pieces are copies, else views of the shards.
WrittenTensors own_parts(const ProcessGroup& group, const CheckpointState& state,
                         const std::map<std::string, ManifestTensor>& plan, bool copies);

// Rank 0 gets every tensor whole, and the other ranks get nothing. All ranks call it. Afterwards each tensor of the
// plan has one piece, in file 0.
WrittenTensors gather_whole(const ProcessGroup& group, const CheckpointState& state,
                            std::map<std::string, ManifestTensor>& plan, bool copies);

// Returns the metadata by which a file shows that it is this file of this save.
std::map<std::string, std::string> part_metadata(const Manifest& manifest, const std::string& file);

// Reads a file of a step's directory. Throws unavailable, or corrupt unless it is undamaged and is this file of the
// manifest's save.
ReadCheckpoint open_part(const std::string& directory, const Manifest& manifest, std::size_t file);

// Returns the bytes of a piece in a file. Throws corrupt if the file does not hold the piece as described.
const char* stored_piece(const ReadCheckpoint& file, const std::string& path, const std::string& name, DataType type,
                         const ManifestPiece& piece);

// Fills the state's tensors from the files of a step's directory. Throws unavailable, corrupt or mismatch.
void read_shards(const ProcessGroup& group, const std::string& directory, const Manifest& manifest,
                 const CheckpointState& state);

}  // namespace ddp::internal
