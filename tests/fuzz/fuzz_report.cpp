// `ddplaunch store --inspect` reads a report from any process that listens at the port, so it must accept any bytes.
#include <string_view>

#include "base/check.h"
#include "fuzz/fuzz_targets.h"
#include "wire/store_report.h"

namespace ddp::fuzz {

void report(Input input) {
  const std::string_view bytes(reinterpret_cast<const char*>(input.data()), input.size());
  const auto decoded = wire::decode_store_report(bytes);
  if (!decoded) return;
  const auto again = wire::decode_store_report(encode(*decoded));
  DDP_CHECK(again && *again == *decoded, decoded->keys.size());
}

}  // namespace ddp::fuzz
