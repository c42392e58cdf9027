// CheckpointFile stores tensors and some text values in one file, which is written atomically.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>
#include <ddp/stream.h>

#include <map>
#include <span>
#include <string>

namespace ddp {

// Represents a file in safetensors format (Python's safetensors reads it) with a checksum of the data in its metadata.
// Rank 0 reads and writes it, and the other ranks receive the data. save, load and exists are collective: all ranks
// must call them, and all throw the same error if rank 0 fails.
//
//   ddp::CheckpointFile checkpoint("model.safetensors", world);
//   if (checkpoint.exists()) step = std::stoi(checkpoint.load(tensors).at("step"));
//   …
//   checkpoint.save(tensors, {{"step", std::to_string(step)}});
class DDP_EXPORT CheckpointFile {
 public:
  // `stream` is the stream on which the program computes tensors in GPU memory (nccl). By default, it is CUDA's default
  // stream. save() reads such tensors, and load() fills them, in its order.
  CheckpointFile(std::string path, const ProcessGroup& group, Stream stream = {})
      : path_(std::move(path)), group_(group), stream_(stream) {}

  const std::string& path() const { return path_; }

  // Returns whether rank 0 sees the file. Throws unavailable if its directory is missing or cannot be searched. A
  // program that calls it at its start finds such a fault before hours of training are lost.
  bool exists(CallSite site = CallSite::current());

  // Writes a temporary file beside `path`, flushes it to disk, renames it over `path` and flushes the directory.
  // Returns on all ranks when that is done. A crash or a full disk at any moment leaves either the complete old file or
  // the complete new one. Tensors are in host memory or, with nccl, in GPU memory. Their names must be unique and not
  // "__metadata__". Throws unavailable (with the system's reason).
  void save(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata,
            CallSite site = CallSite::current());

  // Fills the tensors by name, on every rank, and returns the metadata. The file must hold each of them with the same
  // type and shape. Other tensors in the file are ignored. Throws unavailable (no such file, cannot be read), corrupt
  // (damaged), or mismatch (names the tensor and both shapes). If it throws, the tensors are unchanged.
  std::map<std::string, std::string> load(std::span<const Tensor> tensors, CallSite site = CallSite::current());

 private:
  std::string path_;
  const ProcessGroup group_;
  const Stream stream_;
};

}  // namespace ddp
