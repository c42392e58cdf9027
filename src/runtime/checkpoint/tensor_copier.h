// TensorCopier copies between a program's tensors, which may be in GPU memory, and the host memory that files need.
#pragma once

#include <ddp/process_group.h>
#include <ddp/stream.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace ddp::internal {

class TensorCopier {
 public:
  // `stream` is the program's stream for tensors in GPU memory. If it is not given, it is CUDA's default stream.
  TensorCopier(const ProcessGroup& group, Stream stream) : group_(group), stream_(stream ? stream : Stream(nullptr)) {}

  // Returns the stream that orders the buffer's data. Host memory has none.
  Stream stream_of(const ConstBuffer& buffer) const { return buffer.device == DeviceType::cuda ? stream_ : Stream(); }

  // Copies in the order of the stream, and returns when it is done.
  void copy(const Buffer& to, const ConstBuffer& from) const {
    if (from.count == 0) return;
    group_.copy(to, from, from.device == DeviceType::cuda ? stream_of(from) : stream_of(to));
  }

  // Returns the data in host memory. It is a view if the buffer is there and `copies` is false. Otherwise it is a copy,
  // whose memory `owner` gets.
  Buffer on_host(const Buffer& buffer, bool copies, std::vector<std::unique_ptr<std::byte[]>>& owner) const {
    if (!copies && buffer.device == DeviceType::cpu) return buffer;
    const Buffer place = allocate(buffer, owner);
    copy(place, buffer);
    return place;
  }

  // Returns host memory for as many elements as the buffer has.
  static Buffer allocate(const Buffer& buffer, std::vector<std::unique_ptr<std::byte[]>>& owner) {
    owner.push_back(std::make_unique<std::byte[]>(std::max<std::size_t>(buffer.bytes(), 1)));
    return {owner.back().get(), buffer.count, buffer.type};
  }

 private:
  const ProcessGroup& group_;
  const Stream stream_;
};

}  // namespace ddp::internal
