#include "launcher/job/error_record.h"

#include <fstream>

#include "support/catch.h"
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

TEST_CASE("a record of a lost peer is that of a secondary failure") {
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "peer_lost"}}})") ==
        ErrorRecord{"m", true});
  CHECK(parse_error_record(R"({"message": {"message": "m", "extraInfo": {"ddp_kind": "timeout"}}})") ==
        ErrorRecord{.message = "m", .is_timeout = true});
}

TEST_CASE("what PyTorch says of a lost connection between ranks is that of a secondary failure") {
  const auto is_secondary = [](const std::string& message) {
    const auto wrapped = parse_error_record(R"({"message": {"message": ")" + message + R"(", "extraInfo": {}}})");
    const auto plain = parse_error_record(R"({"message": ")" + message + R"("})");
    REQUIRE(wrapped);
    CHECK(wrapped->is_secondary == plain->is_secondary);
    return wrapped->is_secondary;
  };
  CHECK(is_secondary("RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:5842"));
  CHECK(
      is_secondary("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [::1]:9: Connection "
                   "reset by peer"));
  CHECK(is_secondary("[./gloo/transport/tcp/pair.cc:223] writev [127.0.0.1]:9: Broken pipe"));
  CHECK(
      is_secondary("DistBackendError: NCCL error: remote process exited or there was a network error, NCCL version "
                   "2.18.1 ncclRemoteError: A call failed possibly due to a network error"));
  CHECK_FALSE(is_secondary("ConnectionResetError: [Errno 104] Connection reset by peer"));
  CHECK_FALSE(is_secondary("RuntimeError: [./gloo/transport/tcp/pair.cc:9] Timed out waiting 1000ms for send"));
  CHECK_FALSE(is_secondary("ValueError: bad shard"));
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
