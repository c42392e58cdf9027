#include "runtime/c/boundary.h"

#include <ddp/error.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

namespace ddp::internal {
namespace {

// The limit prevents a program's mistake from making the library read far beyond the structure.
constexpr std::size_t kLargestStructure = 4096;

// The result of ddp_last_error_details() points into this structure.
struct LastError {
  std::string text;
  std::string group;
  std::string operation;
  ddp_error_details details{sizeof(ddp_error_details), DDP_OK, Error::kNobody, "", "", "", 0, -1, 0};
};

LastError& last_error() {
  static thread_local LastError error;
  return error;
}

constexpr int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return DDP_ERROR_INVALID_ARGUMENT;
    case ErrorKind::timeout:
      return DDP_ERROR_TIMEOUT;
    case ErrorKind::peer_lost:
      return DDP_ERROR_PEER_LOST;
    case ErrorKind::mismatch:
      return DDP_ERROR_MISMATCH;
    case ErrorKind::unavailable:
      return DDP_ERROR_UNAVAILABLE;
    case ErrorKind::aborted:
      return DDP_ERROR_ABORTED;
    case ErrorKind::corrupt:
      return DDP_ERROR_CORRUPT;
    case ErrorKind::internal:
      return DDP_ERROR_INTERNAL;
  }
  return DDP_ERROR_INTERNAL;
}

int keep(int status, const char* text, int peer = Error::kNobody,
         const OperationError::Operation* operation = nullptr) {
  LastError& last = last_error();
  last.text = text;
  last.group = operation == nullptr ? "" : operation->group;
  last.operation = operation == nullptr ? "" : operation->name;
  last.details.status = status;
  last.details.peer = peer;
  last.details.text = last.text.c_str();
  last.details.group = last.group.c_str();
  last.details.operation = last.operation.c_str();
  last.details.sequence = operation == nullptr ? 0 : static_cast<std::int64_t>(operation->sequence);
  last.details.rank = operation == nullptr ? -1 : operation->rank;
  return status;
}

// Stores the error without allocating memory.
int store_out_of_memory() noexcept {
  last_error().details = {
      sizeof(ddp_error_details), DDP_ERROR_UNAVAILABLE, Error::kNobody, "out of memory", "", "", 0, -1, 0};
  return DDP_ERROR_UNAVAILABLE;
}

}  // namespace

int store_exception() noexcept {
  try {
    try {
      throw;
    } catch (const OperationError& error) {
      return keep(status_of(error.kind()), error.what(), error.peer(), &error.operation());
    } catch (const Error& error) {
      return keep(status_of(error.kind()), error.what(), error.peer());
    } catch (const std::bad_alloc&) {
      return store_out_of_memory();
    } catch (const std::exception& error) {
      return keep(DDP_ERROR_INTERNAL, error.what());
    } catch (...) {
      return keep(DDP_ERROR_INTERNAL, "an exception of an unknown type was thrown inside the runtime");
    }
  } catch (...) {
    return store_out_of_memory();
  }
}

void refuse(const char* function, const std::string& why) {
  throw Error(ErrorKind::invalid_argument, std::string(function) + ": " + why);
}

void require_value(const char* function, const char* name, std::int32_t value, const char* enumeration, int last) {
  if (value >= 0 && value <= last) return;
  refuse(function, std::string(name) + " " + std::to_string(value) + " is not a value of enum " + enumeration +
                       ", which has 0 to " + std::to_string(last));
}

void copy_structure(const char* function, const char* name, const void* given, void* to, std::size_t least,
                    std::size_t known) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < least || size > kLargestStructure) {
    refuse(function, std::string(name) + "->struct_size is " + std::to_string(size) + ". Set it to sizeof(" + name +
                         ") of <ddp/c.h>, which is " + std::to_string(known) + " in this version of the library");
  }
  const auto* bytes = static_cast<const unsigned char*>(given);
  const bool is_known =
      std::all_of(bytes + std::min(size, known), bytes + size, [](unsigned char b) { return b == 0; });
  if (!is_known) {
    refuse(function, std::string(name) +
                         " sets a field that this version of the library does not have. The program "
                         "was compiled against a newer <ddp/c.h> than that of version " +
                         DDP_VERSION_STRING);
  }
  std::memcpy(to, given, std::min(size, known));
}

}  // namespace ddp::internal

using namespace ddp::internal;

const char* ddp_last_error() {
  return last_error().details.text;
}

const ddp_error_details* ddp_last_error_details() {
  return &last_error().details;
}

const char* ddp_status_name(int status) {
  if (status == DDP_OK) return "ok";
  if (status < DDP_OK || status > DDP_ERROR_INTERNAL) return "unknown";
  // The enumerations have the same order; to_string() returns literals.
  return ddp::to_string(static_cast<ddp::ErrorKind>(status - 1)).data();
}

const char* ddp_version() {
  return DDP_VERSION_STRING;
}

int ddp_c_abi_version() {
  return DDP_C_ABI_VERSION;
}
