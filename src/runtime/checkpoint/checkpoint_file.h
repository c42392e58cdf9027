// These functions read and write one checkpoint file on one rank.
#pragma once

#include <ddp/buffer.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace ddp::internal {

// CheckpointFile::save and CheckpointFile::load describe the guarantees of these functions.
bool checkpoint_file_exists(const std::string& path);
void write_checkpoint_file(const std::string& path, std::span<const Tensor> tensors,
                           std::map<std::string, std::string> metadata);
std::map<std::string, std::string> read_checkpoint_file(const std::string& path, std::span<const Tensor> tensors);

// `wanted` and `stored` give type and shape as describe() writes them. Throws mismatch if they differ.
void require_stored_as(const std::string& wanted, const std::string& stored, const std::string& name,
                       const std::string& path);

// Holds a file whose checksum is correct.
struct ReadCheckpoint {
  SafetensorsHeader header;  // header without the checksum
  std::vector<char> data;
};
// Reads a checkpoint file. Throws unavailable or corrupt.
ReadCheckpoint open_checkpoint_file(const std::string& path);

// Returns whether the path still names the file that `fd` has open.
bool is_file_at(const std::string& path, int fd);

// Flushes the directory that a file is in, so that a change of the file's name survives a power cut.
void flush_directory_of(const std::string& path);

}  // namespace ddp::internal
