// However a stream is cut, the parser finds the same requests in it. Encoded again, they are the same bytes. The parser
// holds no memory for bytes that are only announced.
//
// The upper half of the first byte chooses the limits. The lower half is the number of bytes that follow as lengths of
// pieces. The rest of the input is the stream.
#include <string>
#include <vector>

#include "base/check.h"
#include "fuzz/fuzz_bytes.h"
#include "fuzz/fuzz_targets.h"
#include "wire/store_parser.h"

namespace ddp::fuzz {
namespace {

using wire::StoreDialect;

constexpr wire::StoreRequestLimits kSmall{
    .key_bytes = 16, .value_bytes = 24, .keys_per_request = 4, .request_bytes = 256};

struct Parsed {
  std::vector<wire::StoreRequest> requests;
  std::string violation;
  std::optional<StoreDialect> dialect;

  friend bool operator==(const Parsed&, const Parsed&) = default;
};

class Parse {
 public:
  explicit Parse(const wire::StoreRequestLimits& limits) : parser_(limits) {}

  void feed(std::string_view piece) {
    fed_ += piece.size();
    parser_.feed(piece);
    for (auto next = parser_.next();; next = parser_.next()) {
      if (std::holds_alternative<wire::StoreNeedsMore>(next)) break;
      if (const auto* violation = std::get_if<wire::StoreViolation>(&next)) {
        DDP_CHECK(!violation->reason.empty(), "a violation without a reason");
        parsed_.violation = violation->reason;
        break;
      }
      DDP_CHECK(parsed_.violation.empty(), parsed_.violation);
      parsed_.requests.push_back(std::get<wire::StoreRequest>(std::move(next)));
    }
    // An empty key is 8 bytes in the stream and a std::string here, in a vector that doubles.
    DDP_CHECK(parser_.held_bytes() <= 10 * fed_ + limits::kStoreIdleBytes, parser_.held_bytes());
  }

  const Parsed& parsed() {
    parsed_.dialect = parser_.dialect();
    return parsed_;
  }

 private:
  wire::StoreRequestParser parser_;
  std::size_t fed_ = 0;
  Parsed parsed_;
};

std::string encoded(const Parsed& parsed) {
  std::string bytes;
  for (const wire::StoreRequest& request : parsed.requests) bytes += encode(request, *parsed.dialect);
  return bytes;
}

void parse(Input input, std::string stream) {
  FuzzBytes bytes(input);
  const std::uint8_t choice = bytes.byte();
  const wire::StoreRequestLimits limits = choice >= 0x80 ? wire::StoreRequestLimits{} : kSmall;
  const std::string_view sizes = bytes.text(choice % 16);
  stream += bytes.all();

  Parse whole(limits);
  whole.feed(stream);
  Parse single(limits);
  for (const char& byte : stream) single.feed({&byte, 1});
  Parse pieces(limits);
  std::size_t position = 0;
  for (const char size : sizes) {
    const auto piece = std::string_view(stream).substr(position, static_cast<unsigned char>(size));
    pieces.feed(piece);
    position += piece.size();
  }
  pieces.feed(std::string_view(stream).substr(position));

  DDP_CHECK(whole.parsed() == single.parsed(), whole.parsed().violation + " / " + single.parsed().violation);
  DDP_CHECK(whole.parsed() == pieces.parsed(), whole.parsed().violation + " / " + pieces.parsed().violation);
  DDP_CHECK(stream.starts_with(encoded(whole.parsed())), whole.parsed().requests.size());
}

}  // namespace

void parser_legacy(Input input) {
  parse(input, "");
}

void parser_current(Input input) {
  std::string announcement;
  wire::put_u8(announcement, 0);
  wire::put_u32(announcement, wire::kStoreMagic);
  parse(input, announcement);
}

}  // namespace ddp::fuzz
