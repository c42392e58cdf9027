// At the boundary to C, exceptions become a status and the last error of this thread.
#pragma once

// Without these macros, which add the place in the program, the functions can be defined under their own names.
#ifndef DDP_NO_CALL_SITES
#define DDP_NO_CALL_SITES
#endif
#include <ddp/c.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddp::internal {

// Stores the current exception as the last error of this thread, and returns its status. It may only be called in a
// catch clause.
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

// Throws invalid_argument with the function's name and the reason.
[[noreturn]] void refuse(const char* function, const std::string& why);

// Throws invalid_argument unless `value` is one of `enumeration`, whose values are 0 to `last`.
void require_value(const char* function, const char* name, std::int32_t value, const char* enumeration, int last);

// Checks the place where a C function stores its result, and sets it to 0. Throws invalid_argument if `place` is null.
template <typename Value>
void require_output(const char* function, const char* name, Value* place) {
  if (place == nullptr) refuse(function, std::string(name) + " is a null pointer");
  *place = Value();
}

// Copies the structure that a program gives, which may have fewer or more fields than this library knows. Up to `known`
// bytes are copied into `to`, which holds the defaults. Throws invalid_argument if the struct_size is less than
// `least`, or if a field is set that this library does not know.
void copy_structure(const char* function, const char* name, const void* given, void* to, std::size_t least,
                    std::size_t known);

}  // namespace ddp::internal
