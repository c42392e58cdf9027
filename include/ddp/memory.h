// Memory is a buffer that owns its memory. ProcessGroup::allocate makes it.
#pragma once

#include <ddp/buffer.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace ddp {

// It is move-only. It gives the memory back when it is destroyed, which must not happen while an operation uses host
// memory. GPU memory may be given back while the GPU still uses it: it is freed when the work is done that is then on
// the streams which the group has been given (CallOptions::stream, DataParallelOptions::stream, copy(), zero()). Work
// on other streams must be done before. A program that destroys a stream calls ProcessGroup::forget() before.
class Memory {
 public:
  Memory() = default;
  // `owner` frees the memory of `buffer` when it is destroyed.
  Memory(Buffer buffer, std::shared_ptr<void> owner) : buffer_(buffer), owner_(std::move(owner)) {}
  // Operations refuse a Memory that was moved from, because it has a null pointer.
  Memory(Memory&& other) noexcept : buffer_(other.buffer_), owner_(std::move(other.owner_)) {
    other.buffer_.data = nullptr;
  }
  Memory& operator=(Memory&& other) noexcept {
    Memory moved(std::move(other));
    std::swap(buffer_, moved.buffer_);
    std::swap(owner_, moved.owner_);
    return *this;
  }

  void* data() const { return buffer_.data; }
  std::size_t size() const { return buffer_.count; }  // elements
  std::size_t bytes() const { return buffer_.bytes(); }
  const Buffer& buffer() const { return buffer_; }
  // Temporaries are rejected because their memory is freed before the operation is done.
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

// Represents a registration by ProcessGroup::register_buffer, which ends when this object is destroyed. It is
// move-only.
class Registration {
 public:
  Registration() = default;
  explicit Registration(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  Registration(Registration&&) noexcept = default;
  Registration& operator=(Registration&&) noexcept = default;

  // Returns whether the backend uses the registration.
  bool active() const { return handle_ != nullptr; }

 private:
  std::shared_ptr<void> handle_;
};

}  // namespace ddp
