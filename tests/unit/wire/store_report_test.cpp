#include "wire/store_report.h"

#include "support/catch.h"

using ddp::wire::decode_store_report;
using ddp::wire::StoreReport;

namespace {

StoreReport example() {
  StoreReport report;
  report.key_count = 2;
  report.table_bytes = 300;
  report.client_count = 1;
  report.keys = {{"/a", 3, -1}, {std::string("q\0", 2), 8, 2}};
  report.clients = {{"127.0.0.1:1", 3, "node0:7", 1000, 500, 20, {"/b", ""}, 4096}};
  return report;
}

}  // namespace

TEST_CASE("a report is unchanged after encoding and decoding") {
  CHECK(decode_store_report(encode(example())) == example());
  CHECK(decode_store_report(encode(StoreReport{})) == StoreReport{});
}

TEST_CASE("a shortened or extended report is rejected") {
  const std::string whole = encode(example());
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(decode_store_report(whole.substr(0, size)));
  CHECK_FALSE(decode_store_report(whole + "x"));
  CHECK_FALSE(decode_store_report(std::string(24, '\0') + std::string(16, '\x7f')));
}
