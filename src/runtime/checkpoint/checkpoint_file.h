// Reading and writing one checkpoint file on one rank.
#pragma once

#include <ddp/buffer.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

namespace ddp::internal {

// See CheckpointFile::save and CheckpointFile::load for what they promise.
bool checkpoint_file_exists(const std::string& path);
void write_checkpoint_file(const std::string& path, std::span<const Tensor> tensors,
                           std::map<std::string, std::string> metadata);
std::map<std::string, std::string> read_checkpoint_file(const std::string& path, std::span<const Tensor> tensors);

// Throws mismatch unless a tensor is stored with the type and shape that the program wants, as describe() writes them.
void require_stored_as(const std::string& wanted, const std::string& stored, const std::string& name,
                       const std::string& path);

// A file whose checksum was found right.
struct ReadCheckpoint {
  SafetensorsHeader header;  // without the checksum
  std::vector<char> data;
};
// Throws unavailable, or corrupt.
ReadCheckpoint open_checkpoint_file(const std::string& path);

// Flushes the directory that a file is in, so that what was done to the file's name survives a power cut.
void flush_directory_of(const std::string& path);

}  // namespace ddp::internal
