#include "runtime/c/boundary.h"

#include <ddp/error.h>

#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

int status_after(const Error& error) {
  return at_boundary([&] { throw error; });
}

}  // namespace

TEST_CASE("every kind of error has its own status with the same name") {
  const std::array kinds = {ErrorKind::invalid_argument, ErrorKind::timeout, ErrorKind::peer_lost, ErrorKind::mismatch,
                            ErrorKind::unavailable,      ErrorKind::aborted, ErrorKind::corrupt,   ErrorKind::internal};
  int expected = DDP_OK;
  for (const ErrorKind kind : kinds) {
    CHECK(status_after(Error(kind, "it failed")) == ++expected);
    CHECK(std::string(ddp_status_name(expected)) == to_string(kind));
  }
  CHECK(expected == DDP_ERROR_INTERNAL);
  CHECK(std::string(ddp_status_name(DDP_OK)) == "ok");
  CHECK(std::string(ddp_status_name(-1)) == "unknown");
  CHECK(std::string(ddp_status_name(DDP_ERROR_INTERNAL + 1)) == "unknown");
}

TEST_CASE("no exception of any type crosses the C boundary") {
  CHECK(at_boundary([] { throw std::runtime_error("disk on fire"); }) == DDP_ERROR_INTERNAL);
  CHECK(std::string(ddp_last_error()) == "disk on fire");
  CHECK(at_boundary([] { throw 42; }) == DDP_ERROR_INTERNAL);
  CHECK_THAT(ddp_last_error(), Catch::Contains("unknown type"));
  CHECK(at_boundary([] { throw std::bad_alloc(); }) == DDP_ERROR_UNAVAILABLE);
  CHECK(std::string(ddp_last_error()) == "out of memory");
  CHECK(std::string(ddp_last_error_details()->group).empty());
}

TEST_CASE("the details of a failed operation contain its group, rank, number and peer") {
  const OperationError error(ErrorKind::peer_lost, "rank 1: all_reduce: rank 3 has exited", 3,
                             {"pipeline", 1, "all_reduce", 17});
  CHECK(at_boundary([&] { throw error; }) == DDP_ERROR_PEER_LOST);
  const ddp_error_details& details = *ddp_last_error_details();
  CHECK(details.struct_size == sizeof(ddp_error_details));
  CHECK(details.status == DDP_ERROR_PEER_LOST);
  CHECK(details.peer == 3);
  CHECK(std::string(details.text) == ddp_last_error());
  CHECK(std::string(details.group) == "pipeline");
  CHECK(details.rank == 1);
  CHECK(std::string(details.operation) == "all_reduce");
  CHECK(details.sequence == 17);

  status_after(Error(ErrorKind::invalid_argument, "wrong"));
  CHECK(std::string(details.group).empty());
  CHECK(details.rank == -1);
  CHECK(details.sequence == 0);
}

TEST_CASE("an error belongs to its thread and survives a successful call") {
  status_after(Error(ErrorKind::timeout, "of this thread"));
  std::thread([] {
    CHECK(std::string(ddp_last_error()).empty());
    status_after(Error(ErrorKind::mismatch, "of another thread"));
  }).join();
  CHECK(at_boundary([] {}) == DDP_OK);
  CHECK(std::string(ddp_last_error()) == "of this thread");
  CHECK(ddp_last_error_details()->status == DDP_ERROR_TIMEOUT);
}

TEST_CASE("a null output argument is rejected with its name") {
  int* nowhere = nullptr;
  expect_error(ErrorKind::invalid_argument, {"ddp_group_rank", "rank is a null pointer"},
               [&] { require_output("ddp_group_rank", "rank", nowhere); });
  int place = 7;
  require_output("ddp_group_rank", "rank", &place);
  CHECK(place == 0);
}

TEST_CASE("structures keep the layout with which programs were compiled") {
  // The layout is for pointers of 64 bits. New fields are added behind these.
  if constexpr (sizeof(void*) == 8) {
    CHECK(sizeof(ddp_init_options) >= 48);
    CHECK(offsetof(ddp_init_options, backend) == 8);
    CHECK(offsetof(ddp_init_options, init_method) == 16);
    CHECK(offsetof(ddp_init_options, timeout_ms) == 24);
    CHECK(offsetof(ddp_init_options, store_timeout_ms) == 32);
    CHECK(offsetof(ddp_init_options, rank) == 40);
    CHECK(offsetof(ddp_init_options, world_size) == 44);
    CHECK(sizeof(ddp_call_options) >= 48);
    CHECK(offsetof(ddp_call_options, timeout_ms) == 8);
    CHECK(offsetof(ddp_call_options, name) == 16);
    CHECK(offsetof(ddp_call_options, stream) == 24);
    CHECK(offsetof(ddp_call_options, factor) == 32);
    CHECK(offsetof(ddp_call_options, has_stream) == 40);
    CHECK(offsetof(ddp_call_options, device) == 44);
    CHECK(sizeof(ddp_part) == 16);
    CHECK(offsetof(ddp_part, count) == 8);
    CHECK(sizeof(ddp_error_details) >= 56);
    CHECK(offsetof(ddp_error_details, status) == 8);
    CHECK(offsetof(ddp_error_details, peer) == 12);
    CHECK(offsetof(ddp_error_details, text) == 16);
    CHECK(offsetof(ddp_error_details, group) == 24);
    CHECK(offsetof(ddp_error_details, operation) == 32);
    CHECK(offsetof(ddp_error_details, sequence) == 40);
    CHECK(offsetof(ddp_error_details, rank) == 48);
  }
}

TEST_CASE("the version of the library is the one of the header") {
  CHECK(std::string(ddp_version()) == DDP_VERSION_STRING);
  CHECK(ddp_c_abi_version() == DDP_C_ABI_VERSION);
}

namespace {

// Is the structure that the library knows. Its first version had no `added`.
struct Known {
  std::size_t struct_size = sizeof(Known);
  std::int64_t first = 1;
  std::int64_t added = 2;
};
constexpr std::size_t kFirstVersion = sizeof(Known) - sizeof(std::int64_t);

struct Newer {
  std::size_t struct_size = sizeof(Newer);
  std::int64_t first = 10;
  std::int64_t added = 20;
  std::int64_t unknown = 0;
};

Known copy_of(const void* given) {
  Known known;
  copy_structure("ddp_init", "known_options", given, &known, kFirstVersion, sizeof known);
  return known;
}

}  // namespace

TEST_CASE("fields that a structure of an older header lacks get their defaults") {
  struct {
    std::size_t struct_size = kFirstVersion;
    std::int64_t first = 10;
    std::int64_t beyond = 99;
  } older;
  const Known known = copy_of(&older);
  CHECK(known.first == 10);
  CHECK(known.added == 2);
}

TEST_CASE("a structure of a newer header is accepted if its unknown fields are 0") {
  Newer newer;
  CHECK(copy_of(&newer).added == 20);
  newer.unknown = 1;
  expect_error(ErrorKind::invalid_argument, {"ddp_init", "known_options", "newer <ddp/c.h>", DDP_VERSION_STRING},
               [&] { copy_of(&newer); });
}

TEST_CASE("a structure with a missing or impossible size is rejected") {
  for (const std::size_t size : {std::size_t{0}, kFirstVersion - 1, std::size_t{1} << 40, ~std::size_t{0}}) {
    Newer given;
    given.struct_size = size;
    expect_error(ErrorKind::invalid_argument, {"struct_size is " + std::to_string(size), "sizeof(known_options)"},
                 [&] { copy_of(&given); });
  }
}
