// Reading and writing one checkpoint file on one rank.
#pragma once

#include <ddp/buffer.h>

#include <map>
#include <span>
#include <string>

namespace ddp {

// See Checkpoint::save and Checkpoint::load for what they promise.
bool checkpoint_file_exists(const std::string& path);
void write_checkpoint_file(const std::string& path, std::span<const Tensor> tensors,
                           std::map<std::string, std::string> metadata);
std::map<std::string, std::string> read_checkpoint_file(const std::string& path, std::span<const Tensor> tensors);

}  // namespace ddp
