#include "stack_reader/frame_names.h"

#include <gnu/libc-version.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::stack_reader;

// These functions are compiled with debug information and optimisation.
extern "C" [[gnu::noinline]] const void* ddp_test_return_address() {
  return __builtin_return_address(0);
}

namespace ddp_test {

constexpr int kFirstLine = __LINE__;
struct Model {};

[[gnu::always_inline]] inline const void* load_batch(const Model&) {
  const void* volatile place = ddp_test_return_address();
  return place;
}

[[gnu::always_inline]] inline const void* next_batch(const Model& model) {
  return load_batch(model);
}

[[gnu::noinline]] const void* train_epoch(const Model& model, int) {
  return next_batch(model);
}

}  // namespace ddp_test

namespace {

template <typename T>
std::uint64_t address_of(T* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

std::string own_maps() {
  return ddp::base::read_file("/proc/self/maps");
}

}  // namespace

TEST_CASE("addresses of a process are resolved to function names") {
  const ProcessFiles files(own_maps());
  FrameNames names;
  const auto call = reinterpret_cast<std::uint64_t>(ddp_test::train_epoch({}, 1));
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(names.name(files, call, true),
               Catch::StartsWith("ddp_test::train_epoch(ddp_test::Model const&, int) ("));
  }
  const std::uint64_t function = address_of(&ddp_test_return_address);
  CHECK_THAT(names.name(files, function, false), Catch::Matches("ddp_test_return_address \\([^/]+\\+0x[0-9a-f]+\\)"));
  CHECK_THAT(names.name(files, address_of(&::gnu_get_libc_version), false),
             Catch::Matches("gnu_get_libc_version \\(libc[^/]*\\+0x[0-9a-f]+\\)"));
  // A return address may be the first address behind a function that does not return.
  CHECK_THAT(names.name(files, function, true), !Catch::StartsWith("ddp_test_return_address "));
  CHECK(names.name(files, 0x1000, true) == "?? (0x1000)");
  CHECK(names.name(files, 0, true) == "?? (0x0)");
  CHECK(names.name(files, ~std::uint64_t{0}, false) == "?? (0xffffffffffffffff)");
}

TEST_CASE("inlined functions are shown as frames with the lines of their calls") {
  const ProcessFiles files(own_maps());
  FrameNames names;
  const auto call = reinterpret_cast<std::uint64_t>(ddp_test::train_epoch({}, 1));
  const std::vector<std::string> frames = names.with_lines(files, call, true);
  REQUIRE(frames.size() == 3);
  const auto place = [](int line) {
    return " (frame_names_test.cpp:" + std::to_string(ddp_test::kFirstLine + line) + ")";
  };
  CHECK(frames[0] == "ddp_test::load_batch(ddp_test::Model const&)" + place(4));
  CHECK(frames[1] == "ddp_test::next_batch(ddp_test::Model const&)" + place(9));
  CHECK(frames[2] == "ddp_test::train_epoch(ddp_test::Model const&, int)" + place(13));
  // Without debug information there are no lines.
  const std::uint64_t libc = address_of(&::gnu_get_libc_version);
  CHECK(names.with_lines(files, libc, false) == std::vector{names.name(files, libc, false)});
  CHECK(names.with_lines(files, 0x1000, false) == std::vector<std::string>{"?? (0x1000)"});
}

TEST_CASE("addresses in unreadable files are shown as offsets") {
  const TemporaryDirectory directory;
  const std::string text = directory.path() + "/text";
  std::ofstream(text) << "no ELF file";
  const ProcessFiles files(
      "100000-101000 r-xp 00000000 fe:00 1 /opt/there/is/no\x1b[31m.so\n"
      "200000-201000 r-xp 00000000 fe:00 2 " +
      text +
      "\n"
      "400000-401000 r-xp 00000000 fe:00 3 /proc/self/exe (deleted)\n");
  FrameNames names;
  CHECK(names.name(files, 0x100123, false) == "?? (no\\x1b[31m.so+0x123)");
  CHECK(names.name(files, 0x200123, true) == "?? (text+0x122)");
  CHECK_THAT(names.name(files, 0x400123, false),
             Catch::StartsWith("?? (exe"));  // this is not the file that has this path now
  CHECK(names.name(files, 0x300123, false) == "?? (0x300123)");
}
