#include "launcher/supervise/error_record.h"

#include <catch2/catch.hpp>

#include <fstream>

#include "support/temporary_directory.h"

using namespace ddp::launcher;

TEST_CASE("what is no error record is nothing") {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"message": 3})", R"({"message": {}})",
                           R"({"message": {"message": ["x"]}})", "\xff\xfe"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_error_record(text).has_value());
  }
  CHECK_FALSE(read_error_record("/no/such/file").has_value());
}

TEST_CASE("both forms of torchelastic are read") {
  CHECK(parse_error_record(R"({"message": "plain", "timestamp": 1})") == ErrorRecord{"plain", false});
  CHECK(parse_error_record(R"({"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "…"}}})") ==
        ErrorRecord{"ValueError: bad", false});
}

TEST_CASE("a record of a lost peer is that of a victim") {
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "peer_lost"}}})") ==
        ErrorRecord{"m", true});
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "timeout"}}})") ==
        ErrorRecord{"m", false});
}

TEST_CASE("a record may name the rank that was lost or differs") {
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "mismatch", "ddp_peer": 3}}})") ==
        ErrorRecord{"m", false, true, 3});
  CHECK(
      parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "peer_lost", "ddp_peer": "3"}}})") ==
      ErrorRecord{"m", true, false, std::nullopt});
}

TEST_CASE("an endless error file is read only up to its limit") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/error.json";
  std::ofstream(path) << R"({"message": ")" << std::string(2 << 20, 'x') << R"("})";
  CHECK_FALSE(read_error_record(path).has_value());
}
