// Checkpoint: tensors and a few words in one file that is either whole or not there.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>

#include <map>
#include <span>
#include <string>

namespace ddp {

// A file in safetensors format (Python's safetensors reads it) with a checksum of the data in its metadata. Rank 0
// reads and writes it; the other ranks get what it read. save, load and exists are collective: all ranks call them, and
// all throw the same error if rank 0 fails.
//
//   ddp::CheckpointFile checkpoint("model.safetensors", world);
//   if (checkpoint.exists()) step = std::stoi(checkpoint.load(tensors).at("step"));
//   …
//   checkpoint.save(tensors, {{"step", std::to_string(step)}});
class DDP_EXPORT CheckpointFile {
 public:
  CheckpointFile(std::string path, const ProcessGroup& group) : path_(std::move(path)), group_(group) {}

  const std::string& path() const { return path_; }

  // Whether rank 0 sees the file. Throws unavailable if its directory is missing or cannot be looked into: asked at the
  // start of a program, that is known before hours are lost.
  bool exists(CallSite site = CallSite::current());

  // Writes a temporary file beside `path`, flushes it to disk, renames it over `path` and flushes the directory;
  // returns on all ranks when that is done. A crash or a full disk at any moment leaves the old file or the new one,
  // whole. Tensors in host memory; names unique and not "__metadata__". Throws unavailable (with the system's reason).
  void save(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata,
            CallSite site = CallSite::current());

  // Fills the tensors by name, on every rank, and returns the metadata. The file must hold each of them with the same
  // type and shape; others in it are ignored. Throws unavailable (no such file, cannot be read), corrupt (damaged), or
  // mismatch (names the tensor and both shapes). Tensors are not touched unless all is well.
  std::map<std::string, std::string> load(std::span<const Tensor> tensors, CallSite site = CallSite::current());

 private:
  std::string path_;
  const ProcessGroup group_;
};

}  // namespace ddp
