// Where C++ ends: exceptions become a status and the last error of this thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/c/c_header.h"

namespace ddp::internal {

// Only in a catch clause: stores the exception as the last error of this thread, and returns its status.
int store_exception() noexcept;

// Calls `body` on behalf of a C function and returns the function's status.
template <typename Body>
int at_boundary(Body&& body) noexcept {
  try {
    body();
    return DDP_OK;
  } catch (...) {
    return store_exception();
  }
}

// Throws invalid_argument.
[[noreturn]] void refuse(const char* function, const std::string& why);

// Throws invalid_argument unless `value` is one of `enumeration`, whose values are 0 to `last`.
void require_value(const char* function, const char* name, std::int32_t value, const char* enumeration, int last);

// Where a C function stores its result; 0 for now. Throws invalid_argument if `place` is null.
template <typename Value>
void require_output(const char* function, const char* name, Value* place) {
  if (place == nullptr) refuse(function, std::string(name) + " is a null pointer");
  *place = Value();
}

// Copies the structure that a program gives, of which it may know fewer fields or more: `known` bytes into `to`, which
// holds the defaults. Throws invalid_argument if its struct_size is less than `least`, or if a field has a value that
// this library does not know.
void copy_structure(const char* function, const char* name, const void* given, void* to, std::size_t least,
                    std::size_t known);

}  // namespace ddp::internal
