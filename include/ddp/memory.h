// Memory: a buffer that owns its memory; made by ProcessGroup::allocate.
#pragma once

#include <ddp/buffer.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace ddp {

// Move-only. The memory lives until this is destroyed, which must not be while an operation uses it.
class Memory {
 public:
  Memory() = default;
  // `owner` frees the memory of `buffer` when it is destroyed.
  Memory(Buffer buffer, std::shared_ptr<void> owner) : buffer_(buffer), owner_(std::move(owner)) {}
  Memory(Memory&&) noexcept = default;
  Memory& operator=(Memory&&) noexcept = default;

  void* data() const { return buffer_.data; }
  std::size_t size() const { return buffer_.count; }  // elements
  std::size_t bytes() const { return buffer_.bytes(); }
  const Buffer& buffer() const { return buffer_; }
  // Of one that has a name: a temporary's memory would be gone before the operation is done.
  operator Buffer() const& { return buffer_; }
  operator ConstBuffer() const& { return buffer_; }
  operator Buffer() const&& = delete;
  operator ConstBuffer() const&& = delete;
  template <typename T>
  std::span<T> as() const {
    return buffer_.as<T>();
  }

 private:
  Buffer buffer_;
  std::shared_ptr<void> owner_;
};

// What ProcessGroup::register_buffer did; ends when this is destroyed. Move-only.
class Registration {
 public:
  Registration() = default;
  explicit Registration(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  Registration(Registration&&) noexcept = default;
  Registration& operator=(Registration&&) noexcept = default;

  // Whether the backend makes use of it.
  bool active() const { return handle_ != nullptr; }

 private:
  std::shared_ptr<void> handle_;
};

}  // namespace ddp
